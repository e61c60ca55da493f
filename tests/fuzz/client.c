/* Clients of the hub. */
#include "client.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/fd.h"

void fuzz_fail(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

void client_be_silent(void *user, int level, const char *line)
{
    (void)user, (void)level, (void)line;
}

bool client_serve(struct symm_hub *hub)
{
    struct pollfd fds[SYMM_HUB_POLL_MAX];
    bool retry = false;
    const int n = symm__hub_poll(hub, fds, &retry);
    const int found = poll(fds, (nfds_t)n, 0);

    symm__hub_serve(hub, fds, n);
    return found > 0 || symm__hub_hurries(hub);
}

/* ---- Comms ---- */

uint32_t client_members(int comm, int nranks)
{
    static const uint32_t sets[CLIENT_LANES] = {15, 15, 3, 6, 9, 1};
    const uint32_t everyone = (1u << nranks) - 1, members = sets[comm] & everyone;

    for (int i = 1; i < comm; i++)
        if ((sets[i] & everyone) == members)
            return 0;
    return members;
}

void client_init(struct client *c, int fd, int rank, int nranks)
{
    *c = (struct client){.fd = fd, .rank = rank, .nranks = nranks};
    c->comms[0].key = SYMM_COMM_WORLD;
}

static struct client_comm *find_comm(struct client *c, uint64_t key)
{
    for (int i = 0; i < CLIENT_LANES; i++)
        if (key && c->comms[i].key == key)
            return &c->comms[i];
    return NULL;
}

static bool is_member(const struct client *c, int comm)
{
    return client_members(comm, c->nranks) >> c->rank & 1;
}

/* ---- Sending ---- */

void client_send(struct client *c, const struct symm_message *m)
{
    struct symm_frame *frame = symm__frame_make(m);

    if (!frame)
        abort();
    if (c->fd < 0 || symm__frame_send(c->fd, frame) != 0)
        c->crooked = true;
    symm__frame_put(frame);
}

void client_hello(struct client *c, const char *boot_id)
{
    struct symm_hello hello = {.token = {0}};
    struct symm_message m = {.type = SYMM_MESSAGE_HELLO,
                             .rank = c->rank,
                             .comm = SYMM_COMM_JOIN,
                             .args = {(uint64_t)c->nranks, (uint64_t)getpid()},
                             .payload = &hello,
                             .payload_nbytes = sizeof hello};

    if (c->said_hello || c->crooked || c->fd < 0)
        return;
    snprintf(hello.boot_id, sizeof hello.boot_id, "%s", boot_id);
    c->said_hello = true;
    client_send(c, &m);
}

bool client_is_there(const struct client *c)
{
    return c->fd >= 0 && !c->crooked && !c->left && !c->lost;
}

/* Whether it may speak on this comm. */
static bool may_speak(const struct client *c, int comm)
{
    return client_is_there(c) && c->joined && is_member(c, comm) &&
           c->comms[comm].stage == COMM_OPEN;
}

static struct symm_message message(const struct client *c, uint32_t type, int comm)
{
    return (struct symm_message){.type = type, .rank = c->rank, .comm = c->comms[comm].key};
}

void client_step(struct client *c, int comm, int call, bool gives_fd)
{
    static const char *const calls[] = {"symm_alloc(4096)", "symm_trim()", "symm_exchange(8)"};
    static const unsigned char bytes[512];
    struct symm_message m = message(c, SYMM_MESSAGE_VOTE, comm);
    struct client_comm *l = &c->comms[comm];
    int fd = -1;

    if (!may_speak(c, comm) || l->waits)
        return;
    l->nbytes = call % 4 == 2 ? 8 * (size_t)(call / 32) : 0;
    m.seq = ++l->seq;
    m.text = calls[call % 4 % 3];
    m.op = (uint32_t)call % 4;
    m.status = call / 4 % 8 == 7 ? SYMM_ERROR_MEMORY : SYMM_OK;
    m.reason = m.status ? "no memory" : NULL;
    m.payload = bytes;
    m.payload_nbytes = l->nbytes;
    if (gives_fd)
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    m.nfds = fd >= 0;
    m.fds[0] = fd;
    l->waits = true;
    client_send(c, &m);
    symm__fd_close(&fd);
}

void client_create(struct client *c, int comm)
{
    struct symm_message m = {.type = SYMM_MESSAGE_CREATE, .rank = c->rank, .seq = 1};
    struct client_comm *l = &c->comms[comm];
    unsigned char payload[8 + CLIENT_RANKS];
    const uint64_t parent = SYMM_COMM_WORLD;
    size_t n = 8;

    if (!may_speak(c, 0) || comm == 0 || !is_member(c, comm) || l->stage != COMM_NONE)
        return;
    memcpy(payload, &parent, sizeof parent);
    for (int r = 0; r < c->nranks; r++)
        if (client_members(comm, c->nranks) >> r & 1)
            payload[n++] = (unsigned char)r;
    m.comm = l->key = SYMM_COMM_FORMING | ++c->attempts;
    l->seq = 1;
    m.text = "symm_group_create";
    m.payload = payload;
    m.payload_nbytes = n;
    l->stage = COMM_CREATING;
    l->waits = true;
    client_send(c, &m);
}

void client_ask(struct client *c, int comm, int rank)
{
    struct symm_message m = message(c, SYMM_MESSAGE_ASK, comm);

    m.args[0] = (uint64_t)rank;
    if (!may_speak(c, comm) || !(client_members(comm, c->nranks) >> rank & 1))
        return;
    c->comms[comm].asked |= 1u << rank;
    client_send(c, &m);
}

void client_say(struct client *c, uint32_t type, int comm)
{
    struct symm_message m = message(c, type, comm);
    struct client_comm *l = &c->comms[comm];

    m.seq = l->seq;
    if (!may_speak(c, comm))
        return;
    if (type == SYMM_MESSAGE_CONFIRM)
        m.seq = ++l->confirm;
    else if (type == SYMM_MESSAGE_ABORT)
        m.reason = "enough";
    else if (type == SYMM_MESSAGE_QUIET)
        l->quiet = true;
    else if (type == SYMM_MESSAGE_CLOSE && l->waits)
        return; /* no program does */
    if (type == SYMM_MESSAGE_CLOSE)
        l->stage = COMM_CLOSED;
    client_send(c, &m);
}

void client_leave(struct client *c)
{
    struct symm_message m = {.type = SYMM_MESSAGE_BYE, .rank = c->rank};

    if (c->fd < 0 || !c->joined || c->crooked || c->left)
        return;
    c->left = true;
    client_send(c, &m);
}

void client_close(struct client *c)
{
    symm__fd_close(&c->fd);
}

/* ---- Receiving ---- */

static void take_result(struct client *c, struct client_comm *l, const struct symm_message *m)
{
    int nfds = 0;

    if (!l->waits || m->seq != l->seq)
        fuzz_fail("rank %d: a result of vote %llu, which it does not wait for", c->rank,
                  (unsigned long long)m->seq);
    for (int i = 0; i < SYMM_MAX_RANKS; i++)
        nfds += symm__rank_set_has(m->set, i);
    if (nfds != m->nfds)
        fuzz_fail("rank %d: %d descriptors of %d ranks", c->rank, m->nfds, nfds);
    if (m->status != SYMM_OK && !*m->reason)
        fuzz_fail("rank %d: a verdict without a reason", c->rank);
    l->waits = false;
    if (l->stage != COMM_CREATING)
        return;
    l->stage = m->status == SYMM_OK ? COMM_OPEN : COMM_NONE;
    if (m->status == SYMM_OK && m->payload_nbytes == sizeof l->key)
        memcpy(&l->key, m->payload, sizeof l->key);
    else if (m->status == SYMM_OK)
        fuzz_fail("rank %d: a comm without a key", c->rank);
}

static void take_end(struct client_comm *l)
{
    l->waits = false;
    if (l->stage == COMM_CREATING)
        l->stage = COMM_NONE;
    else if (l->stage != COMM_CLOSED)
        l->stage = COMM_ENDED;
}

static void answer(struct client *c, int comm, const struct symm_message *asked)
{
    struct symm_message m = message(c, SYMM_MESSAGE_TOLD, comm);

    m.seq = asked->seq;
    m.args[0] = asked->args[0]; /* a rank, or the hub */
    m.text = "call 7: symm_barrier()";
    if (may_speak(c, comm))
        client_send(c, &m);
}

static void take(struct client *c, const struct symm_message *m)
{
    struct client_comm *l = find_comm(c, m->comm);

    if (m->comm == SYMM_COMM_JOIN && m->type == SYMM_MESSAGE_RESULT) {
        c->joined = true;
        c->comms[0].stage = COMM_OPEN;
    } else if (m->comm == SYMM_COMM_JOIN && m->type == SYMM_MESSAGE_ENDED) {
        c->refused = true;
    } else if (!l) {
        return;
    } else if (m->type == SYMM_MESSAGE_RESULT) {
        take_result(c, l, m);
    } else if (m->type == SYMM_MESSAGE_ENDED) {
        take_end(l);
    } else if (m->type == SYMM_MESSAGE_CONFIRMED) {
        l->confirmed = m->seq;
    } else if (m->type == SYMM_MESSAGE_QUIET) {
        l->all_quiet = true;
    } else if (m->type == SYMM_MESSAGE_TOLD && m->args[0] < SYMM_MAX_RANKS) {
        l->told |= 1u << m->args[0];
    } else if (m->type == SYMM_MESSAGE_ASKED) {
        answer(c, (int)(l - c->comms), m);
    }
}

void client_drain(struct client *c)
{
    static unsigned char buffer[SYMM_MESSAGE_MAX];
    struct symm_message m;

    while (c->fd >= 0 && !c->lost) {
        switch (symm__message_receive(c->fd, buffer, &m)) {
        case SYMM_RECEIVED:
            if (!c->crooked)
                take(c, &m);
            symm__fd_close_all(m.fds, m.nfds);
            break;
        case SYMM_RECEIVED_NOTHING:
            return;
        case SYMM_RECEIVED_END:
            c->lost = true;
            break;
        default:
            fuzz_fail("rank %d: the hub sends nonsense: %s", c->rank, symm__failure_text());
        }
    }
}

/* ---- Expected answers ---- */

static const char *owed_on(const struct client_comm *l)
{
    if (l->waits)
        return "the result of a vote";
    if (l->stage != COMM_OPEN)
        return NULL;
    if (l->confirmed < l->confirm)
        return "a confirmation";
    if (l->asked & ~l->told)
        return "what another rank called last";
    return l->quiet && !l->all_quiet ? "that all are quiet" : NULL;
}

bool client_is_owed(const struct client *c, const char **what)
{
    *what = NULL;
    if (!client_is_there(c))
        return false;
    if (c->said_hello && !c->joined && !c->refused)
        *what = "the answer to its HELLO";
    for (int i = 0; i < CLIENT_LANES && !*what; i++)
        *what = owed_on(&c->comms[i]);
    return *what != NULL;
}
