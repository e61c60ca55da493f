/*
 * The hub, served in this thread, with real connections and real descriptors. The input is a
 * script: clients connect, join, take part in votes, send frames of any type, half of a frame or
 * too many descriptors, and go. At the end each honest client has every answer that the
 * protocol promises, and no descriptor and no memory is left.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "alone.h"
#include "client.h"
#include "runtime/comm/boot_id.h"
#include "runtime/base/fd.h"
#include "runtime/comm/rendezvous.h"

enum { CLIENTS = 8, TURNS_MOST = 2000, FLOOD = 100, RAW_MOST = 300 };

struct script {
    const uint8_t *at, *end;
};

struct scene {
    struct symm_join join;
    struct symm_log log;
    struct symm_rendezvous rendezvous;
    struct symm_hub *hub;
    int nclients;
    struct client clients[CLIENTS]; /* the first is rank 0's own */
    char boot_id[40];
    uint64_t freed;
};

static unsigned next(struct script *s)
{
    return s->at < s->end ? *s->at++ : 0;
}

/* ---- The hub ---- */

static symm_status decide(void *self, uint32_t op, struct symm_rank_set members, symm_status status,
                          const uint64_t args[4], uint64_t answer[4])
{
    (void)self, (void)members, (void)args;
    answer[0] = 4096;
    return status == SYMM_OK && op == 3 ? symm__fail(SYMM_ERROR_MEMORY, "the window is full")
                                        : SYMM_OK;
}

static void freed(void *self, int rank, uint64_t off)
{
    struct scene *x = self;

    if (rank < 0 || rank >= x->join.nranks)
        fuzz_fail("rank %d has freed %llu", rank, (unsigned long long)off);
    x->freed++;
}

static bool settled(void *self)
{
    return ((struct scene *)self)->freed % 2 == 0;
}

/* Serves the hub until no frame is under way. */
static void settle(struct scene *x)
{
    int turns = 0;

    for (bool busy = true; busy; turns++) {
        busy = client_serve(x->hub);
        for (int i = 0; i < x->nclients; i++)
            client_drain(&x->clients[i]);
        if (turns == TURNS_MOST)
            fuzz_fail("the hub does not come to rest");
    }
}

/* ---- The clients ---- */

static struct client *add_client(struct scene *x, int fd, int rank)
{
    struct client *c = &x->clients[x->nclients++];

    client_init(c, fd, rank, x->join.nranks);
    return c;
}

static void meet(struct scene *x, int rank)
{
    int fd = -1;
    pid_t pid;

    if (x->nclients == CLIENTS || symm__rendezvous_connect(x->join.session, symm__deadline_in(0),
                                                           &x->log, 1000000, &fd, &pid) != SYMM_OK)
        return;
    add_client(x, fd, rank);
}

/* Another rank's place, or a number of ranks that is not rank 0's: refused, and so are all. */
static void hello(struct scene *x, struct client *c, unsigned how)
{
    const int nranks = c->nranks;

    if (how % 16 == 1)
        c->nranks++;
    client_hello(c, how % 16 == 2 ? "another host" : x->boot_id);
    c->nranks = nranks;
}

/* A frame of any type with any numbers. */
static void send_any(struct client *c, struct script *s)
{
    static const unsigned char payload[4096];
    const unsigned kind = next(s), where = next(s), what = next(s);
    struct symm_message m = {
        .type = 1 + kind % (SYMM_MESSAGE_TYPES - 1),
        .rank = where % 8 == 7 ? -1 : c->rank + (int)(where % 8 == 6),
        .comm = where / 8 % 2 ? c->comms[where / 16 % CLIENT_LANES].key : where / 16,
        .seq = c->comms[where / 16 % CLIENT_LANES].seq + what % 3,
        .op = what / 4 % 4,
        .status = what % 16 ? SYMM_OK : SYMM_ERROR_DRIVER,
        .args = {what, where},
        .text = what % 2 ? "symm_trim()" : NULL,
        .payload = payload,
        .payload_nbytes = kind & 64    ? 8 * (what % 16)
                          : kind & 128 ? sizeof(struct symm_hello)
                                       : 0,
    };

    c->crooked = true;
    client_send(c, &m);
}

/* Bytes that may be the beginning of a frame, with descriptors that it does not speak of. */
static void send_raw(struct client *c, struct script *s, int nfds)
{
    unsigned char bytes[RAW_MOST];
    struct symm_message m = {.type = SYMM_MESSAGE_VOTE, .rank = c->rank, .comm = SYMM_COMM_WORLD};
    struct symm_frame *whole = symm__frame_make(&m);
    struct symm_frame *frame = malloc(sizeof *frame + RAW_MOST);
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (!whole || !frame)
        abort();
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, whole->bytes, whole->nbytes);
    *frame = (struct symm_frame){.refs = 1, .nfds = nfds, .nbytes = 1 + next(s) % (RAW_MOST - 1)};
    for (unsigned n = next(s) % 4; n > 0; n--)
        bytes[next(s) % whole->nbytes] ^= (unsigned char)next(s);
    memcpy(frame->bytes, bytes, frame->nbytes);
    for (int i = 0; i < nfds; i++)
        frame->fds[i] = null;
    c->crooked = true;
    if (c->fd >= 0 && null >= 0)
        symm__frame_send(c->fd, frame);
    close(null);
    symm__frame_put(whole);
    symm__frame_put(frame);
}

/* Frees of blocks, and a great many questions: the hub reads one message in a turn. */
static void flood(struct client *c, unsigned comm)
{
    const uint64_t off[2] = {4096, 8192};
    struct symm_message m = {.type = SYMM_MESSAGE_FREED,
                             .rank = c->rank,
                             .comm = SYMM_COMM_WORLD,
                             .payload = off,
                             .payload_nbytes = sizeof off};

    if (!c->joined || c->crooked || c->left || c->fd < 0)
        return;
    for (int i = 0; i < FLOOD && !c->crooked; i++)
        client_send(c, &m);
    client_say(c, SYMM_MESSAGE_CONFIRM, (int)(comm % CLIENT_LANES));
}

/* ---- The script ---- */

enum deed {
    MEET,
    HELLO,
    STEP,
    STEP_ALL,
    CREATE,
    CREATE_ALL,
    SAY,
    ASK,
    FLOOD_HUB,
    ANY,
    RAW,
    DESCRIPTORS,
    SHUT,
    CLOSE,
    LEAVE,
    SERVE,
    DRAIN,
    DEEDS
};

static void step_all(struct scene *x, unsigned comm, unsigned call)
{
    for (int i = 0; i < x->nclients; i++)
        client_step(&x->clients[i], (int)(comm % CLIENT_LANES), (int)call, comm & 64);
}

static void create_all(struct scene *x, unsigned comm)
{
    for (int i = 0; i < x->nclients; i++)
        client_create(&x->clients[i], 1 + (int)(comm % (CLIENT_LANES - 1)));
}

static void do_next(struct scene *x, struct script *s)
{
    static const uint32_t sayings[] = {SYMM_MESSAGE_ABORT,   SYMM_MESSAGE_SLOW,
                                       SYMM_MESSAGE_EXPIRED, SYMM_MESSAGE_CONFIRM,
                                       SYMM_MESSAGE_QUIET,   SYMM_MESSAGE_CLOSE};
    const enum deed deed = (enum deed)(next(s) % DEEDS);
    const unsigned who = next(s), how = next(s);
    struct client *c = &x->clients[who % (unsigned)x->nclients];
    const int comm = (int)(who / 8 % CLIENT_LANES);

    if (deed == MEET)
        meet(x, (int)(who % (unsigned)x->join.nranks));
    else if (deed == HELLO)
        hello(x, c, how);
    else if (deed == STEP)
        client_step(c, comm, (int)how, who & 64);
    else if (deed == STEP_ALL)
        step_all(x, who, how);
    else if (deed == CREATE)
        client_create(c, comm);
    else if (deed == CREATE_ALL)
        create_all(x, who);
    else if (deed == SAY)
        client_say(c, sayings[how % 6], comm);
    else if (deed == ASK)
        client_ask(c, comm, (int)(how % (unsigned)x->join.nranks));
    else if (deed == FLOOD_HUB)
        flood(c, who / 8);
    else if (deed == ANY)
        send_any(c, s);
    else if (deed == RAW)
        send_raw(c, s, 0);
    else if (deed == DESCRIPTORS)
        send_raw(c, s, (int)(how % (SYMM_MAX_RANKS + 1)));
    else if (deed == SHUT && c->fd >= 0)
        c->crooked = shutdown(c->fd, how % 2 ? SHUT_WR : SHUT_RDWR) == 0 || c->crooked;
    else if (deed == CLOSE)
        client_close(c);
    else if (deed == LEAVE)
        client_leave(c);
    else if (deed == SERVE)
        for (unsigned n = 1 + how % 8; n > 0; n--)
            client_serve(x->hub);
    else if (deed == DRAIN)
        client_drain(c);
}

/* All ranks come and are let in, as in most of a hub's life. */
static void join_all(struct scene *x)
{
    client_hello(&x->clients[0], x->boot_id);
    for (int r = 1; r < x->join.nranks; r++) {
        meet(x, r);
        if (x->nclients == r + 1)
            client_hello(&x->clients[r], x->boot_id);
    }
    settle(x);
}

/* ---- The end ---- */

/* Whether the rank is not on the comm any more: it died, left, or has closed it. */
static bool is_gone(const struct scene *x, int rank, int comm)
{
    for (int i = 0; i < x->nclients; i++) {
        const struct client *c = &x->clients[i];
        if (c->rank == rank && c->joined && c->fd >= 0 && !c->left && !c->lost &&
            c->comms[comm].stage != COMM_CLOSED)
            return false;
    }
    return true;
}

/* Whether the rank has said on the comm that nothing of it runs any more. */
static bool is_quiet(const struct scene *x, int rank, int comm)
{
    for (int i = 0; i < x->nclients; i++)
        if (x->clients[i].rank == rank && x->clients[i].comms[comm].quiet)
            return true;
    return false;
}

/* The answer that is due without a deadline: a rank has left, or no rank runs a call any more. */
static const char *due(const struct scene *x, const struct client *c, int comm)
{
    const struct client_comm *l = &c->comms[comm];
    const bool creating = l->stage == COMM_CREATING;
    bool all_quiet = true;

    if (creating && c->comms[0].stage == COMM_ENDED)
        return "that its group will not be made";
    for (int r = 0; r < c->nranks; r++) {
        if (!(client_members(comm, c->nranks) >> r & 1))
            continue;
        if (l->waits && (is_gone(x, r, comm) || (creating && is_gone(x, r, 0))))
            return "that somebody is gone";
        all_quiet = all_quiet && (is_gone(x, r, comm) || is_quiet(x, r, comm));
    }
    return l->stage == COMM_OPEN && l->quiet && all_quiet && !l->all_quiet ? "that all are quiet"
                                                                           : NULL;
}

static void check_due(const struct scene *x)
{
    for (int i = 0; i < x->nclients; i++) {
        const struct client *c = &x->clients[i];
        for (int l = 0; l < CLIENT_LANES && c->joined && client_is_there(c); l++)
            if (due(x, c, l))
                fuzz_fail("rank %d (client %d) was not told %s, on comm %d", c->rank, i,
                          due(x, c, l), l);
    }
}

/* Lets the deadlines of all waits pass. */
static void expire(struct scene *x)
{
    for (int i = 0; i < x->nclients; i++) {
        struct client *c = &x->clients[i];
        struct symm_message m = {
            .type = SYMM_MESSAGE_EXPIRED, .rank = c->rank, .comm = SYMM_COMM_JOIN};
        if (c->said_hello && !c->joined && !c->refused && !c->crooked && c->fd >= 0)
            client_send(c, &m);
        for (int l = 0; l < CLIENT_LANES; l++) {
            m.comm = c->comms[l].key;
            m.seq = c->comms[l].seq;
            if (c->comms[l].waits && !c->crooked && !c->left && c->fd >= 0)
                client_send(c, &m);
        }
    }
}

/* On every comm: asks for each rank's last call, and says that this rank runs none. */
static void ask_all(struct client *c)
{
    for (int l = 0; l < CLIENT_LANES; l++) {
        c->comms[l].asked = c->comms[l].told = 0; /* a question may have crossed a goodbye */
        for (int r = 0; r < c->nranks; r++)
            client_ask(c, l, r);
        client_say(c, SYMM_MESSAGE_QUIET, l);
    }
}

static void finish(struct scene *x)
{
    const char *what;
    bool joined = false;

    for (int i = 0; i < x->nclients; i++)
        if (x->clients[i].crooked)
            client_close(&x->clients[i]);
    settle(x);
    check_due(x);
    expire(x);
    settle(x);
    for (int i = 0; i < x->nclients; i++) {
        ask_all(&x->clients[i]);
        joined = joined || x->clients[i].joined;
    }
    settle(x);
    for (int i = 0; i < x->nclients; i++)
        if (client_is_owed(&x->clients[i], &what))
            fuzz_fail("rank %d (client %d) was never told %s", x->clients[i].rank, i, what);
    for (int i = 0; i < x->nclients; i++)
        client_leave(&x->clients[i]);
    settle(x);
    for (int i = 0; i < x->nclients; i++)
        client_close(&x->clients[i]);
    settle(x);
    if (joined && !symm__hub_done(x->hub))
        fuzz_fail("the hub believes that somebody is there");
}

/* ---- The target ---- */

static char folder[32];

static void remove_folder(void)
{
    rmdir(folder);
}

/* One meeting folder for all inputs. */
static void make_folder(void)
{
    if (folder[0])
        return;
    strcpy(folder, "/tmp/symm-fuzz-XXXXXX");
    if (!mkdtemp(folder) || atexit(remove_folder) != 0)
        abort();
    setenv("SYMM_DIR", folder, 1);
}

static int open_descriptors(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    if (!dir)
        abort();
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void open_scene(struct scene *x, unsigned nranks)
{
    struct symm_hub_config config = {.join = &x->join,
                                     .log = &x->log,
                                     .arbiter = {decide, freed, settled, x},
                                     .rendezvous = &x->rendezvous};
    int ends[2];

    x->log = (struct symm_log){.to = client_be_silent};
    x->join = (struct symm_join){.nranks = 1 + (int)(nranks % CLIENT_RANKS)};
    snprintf(x->join.session, sizeof x->join.session, "fuzz-%d", (int)getpid());
    x->rendezvous = (struct symm_rendezvous){.listener = -1};
    if (symm__boot_id(x->boot_id) != SYMM_OK ||
        (x->join.nranks > 1 && symm__rendezvous_open(&x->rendezvous, x->join.session,
                                                     symm__deadline_in(1000), &x->log)) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0 ||
        symm__hub_open(&config, ends[1], &x->hub) != SYMM_OK)
        fuzz_fail("the hub does not open: %s", symm__failure_text());
    add_client(x, ends[0], 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t nbytes)
{
    struct script s = {data, data + nbytes};
    struct scene x = {.freed = 0};
    const unsigned first = next(&s);

    make_folder();
    const int before = open_descriptors();
    open_scene(&x, first);
    if (first & 16)
        join_all(&x);
    while (s.at < s.end)
        do_next(&x, &s);
    finish(&x);
    symm__hub_close(x.hub);
    if (open_descriptors() != before)
        fuzz_fail("%d descriptors before, %d after", before, open_descriptors());
    return 0;
}

#ifndef SYMM_LIBFUZZER
enum { MADE_UP = 20000, MADE_UP_NBYTES = 400 };

static void make_up(void)
{
    uint8_t input[MADE_UP_NBYTES];
    const size_t nbytes = 1 + alone_chance(MADE_UP_NBYTES - 1);

    for (size_t i = 0; i < nbytes; i++)
        input[i] = (uint8_t)alone_chance(256);
    LLVMFuzzerTestOneInput(input, nbytes);
}

int main(int argc, char **argv)
{
    return alone_main(argc, argv, make_up, MADE_UP);
}
#endif
