/* Meetings of ranks that are threads, at real sockets of this host, with strangers between them. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "runtime/base/fd.h"
#include "runtime/comm/meeting.h"
#include "test.h"

enum { LONG_MS = 20000 }; /* a time limit that is not reached */

static const struct symm_wire_key right = {{1, 2, 3}}, wrong = {{1, 2, 4}};

/* ---- Reports ---- */

static struct {
    pthread_mutex_t lock;
    int n[SYMM_LOG_DETAIL + 1]; /* by level */
    char lines[20000];
} heard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void note(void *user, int level, const char *line)
{
    (void)user;
    pthread_mutex_lock(&heard.lock);
    const size_t used = strlen(heard.lines);
    heard.n[level]++;
    snprintf(heard.lines + used, sizeof heard.lines - used, "%s\n", line);
    pthread_mutex_unlock(&heard.lock);
}

static const struct symm_log log_to_here = {.to = note, .rank = -1};

/* ---- Ranks ---- */

struct rank {
    struct symm_meeting m;
    int listener;
    int late_ms, timeout_ms; /* when it begins, and its time limit from then on */
    size_t nbytes;
    unsigned char first; /* its bytes are first, first + 1, ... */
    bool runs;
    pthread_t thread;
    /* results */
    symm_status st;
    char why[SYMM_TEXT_MAX];
    unsigned char *all;
    int64_t took_us;
};

static struct symm_address loopback(void)
{
    struct symm_address a;

    ck_assert_int_eq(symm__address_read("a test", "127.0.0.1:0", -1, &a), SYMM_OK);
    return a;
}

static void fill(unsigned char *bytes, size_t nbytes, unsigned char first)
{
    for (size_t i = 0; i < nbytes; i++)
        bytes[i] = (unsigned char)(first + i);
}

static void *run(void *arg)
{
    struct rank *r = arg;
    unsigned char mine[4096];
    int64_t begun;

    fill(mine, r->nbytes, r->first);
    symm__sleep_us(r->late_ms * INT64_C(1000));
    begun = symm__now_us();
    r->st = symm__meeting_gather(&r->m, r->listener, mine, r->nbytes, r->all,
                                 symm__deadline_in(r->timeout_ms));
    r->took_us = symm__now_us() - begun;
    snprintf(r->why, sizeof r->why, "%s", r->st == SYMM_OK ? "" : symm__failure_text());
    return NULL;
}

static void start(struct rank *r)
{
    r->all = calloc((size_t)r->m.nranks, r->nbytes ? r->nbytes : 1);
    ck_assert_ptr_nonnull(r->all);
    r->runs = true;
    ck_assert_int_eq(pthread_create(&r->thread, NULL, run, r), 0);
}

static void join(struct rank *r)
{
    if (r->runs)
        ck_assert_int_eq(pthread_join(r->thread, NULL), 0);
    r->runs = false;
}

/* Ranks as they are in most cases. Rank 0 listens from now on. */
static struct rank *make_ranks(int nranks, size_t nbytes)
{
    struct rank *ranks = calloc((size_t)nranks, sizeof *ranks);
    struct symm_address at;

    ck_assert_ptr_nonnull(ranks);
    for (int r = 0; r < nranks; r++)
        ranks[r] = (struct rank){.m = {.rank = r,
                                       .nranks = nranks,
                                       .key = right,
                                       .nplaces = 1,
                                       .places = {loopback()},
                                       .log = &log_to_here,
                                       .wanted = "SYMM_ADDRESS"},
                                 .listener = -1,
                                 .timeout_ms = LONG_MS,
                                 .nbytes = nbytes,
                                 .first = (unsigned char)(3 * r + 1)};
    ck_assert_int_eq(symm__meeting_listen(&ranks[0].m, &at, &ranks[0].listener), SYMM_OK);
    for (int r = 0; r < nranks; r++)
        ranks[r].m.places[0] = at;
    return ranks;
}

static void start_all(struct rank *ranks, int nranks)
{
    for (int r = 0; r < nranks; r++)
        start(&ranks[r]);
}

static void join_all(struct rank *ranks, int nranks)
{
    for (int r = 0; r < nranks; r++)
        join(&ranks[r]);
}

static void check_table(const struct rank *r)
{
    unsigned char expected[4096];

    ck_assert_msg(r->st == SYMM_OK, "rank %d: %s", r->m.rank, r->why);
    for (int i = 0; i < r->m.nranks; i++) {
        fill(expected, r->nbytes, (unsigned char)(3 * i + 1));
        ck_assert_msg(!memcmp(r->all + (size_t)i * r->nbytes, expected, r->nbytes),
                      "rank %d: the bytes of rank %d", r->m.rank, i);
    }
}

static void check_alike(const struct rank *ranks, int nranks, symm_status st)
{
    for (int r = 0; r < nranks; r++) {
        ck_assert_msg(ranks[r].st == st, "rank %d: status %d, %s", r, ranks[r].st, ranks[r].why);
        ck_assert_str_eq(ranks[r].why, ranks[0].why);
    }
}

static void check_has(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in: %s", part, text);
}

static void end_ranks(struct rank *ranks, int nranks)
{
    for (int r = 0; r < nranks; r++) {
        free(ranks[r].all);
        symm__fd_close(&ranks[r].listener);
    }
    free(ranks);
}

/* ---- Others ---- */

static int connect_to(const struct symm_address *at)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(connect(fd, (const struct sockaddr *)&at->sock, at->nbytes), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Whether the other end closes within a second. */
static bool is_closed(int fd)
{
    struct pollfd p = {fd, POLLIN, 0};
    char bytes[64];

    while (poll(&p, 1, 1000) == 1)
        if (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) <= 0)
            return true;
    return false;
}

/* Serves a wire until it is in this state and idle. */
static void serve_until(struct symm_wire *w, enum symm_wire_state state)
{
    for (int i = 0; i < 500 && (symm__wire_state(w) != state || !symm__wire_idle(w)); i++) {
        struct pollfd p = symm__wire_poll(w);
        poll(&p, 1, 10);
        symm__wire_serve(w, p.revents);
    }
    ck_assert_int_eq(symm__wire_state(w), state);
}

TEST_GROUP(meeting, 60);

static const struct size {
    int nranks;
    size_t nbytes;
} sizes[] = {{1, 8}, {2, 8}, {5, 0}, {5, 333}, {5, 4096}, {40, 4096} /* in three pieces */};

TEST_LOOP(meeting, all_ranks_get_the_bytes_of_all, 0, sizeof sizes / sizeof sizes[0])
{
    const int nranks = sizes[_i].nranks;
    struct rank *ranks = make_ranks(nranks, sizes[_i].nbytes);

    start_all(ranks, nranks);
    join_all(ranks, nranks);
    for (int r = 0; r < nranks; r++)
        check_table(&ranks[r]);
    ck_assert_str_eq(heard.lines, "");
    end_ranks(ranks, nranks);
}

TEST(meeting, a_rank_alone_needs_no_listener)
{
    const struct symm_meeting m = {.nranks = 1, .key = right, .log = &log_to_here};
    char all[4] = "";

    ck_assert_int_eq(symm__meeting_gather(&m, -1, "abc", 4, all, SYMM_NEVER), SYMM_OK);
    ck_assert_str_eq(all, "abc");
}

/* The others find no listener at first, and report it. */
TEST(meeting, rank_0_may_be_late)
{
    enum { N = 5 };
    struct rank *ranks = make_ranks(N, 100);
    struct symm_address at = ranks[0].m.places[0];
    char line[200];

    symm__fd_close(&ranks[0].listener);
    for (int r = 1; r < N; r++) {
        ranks[r].m.slow_us = 200000;
        start(&ranks[r]);
    }
    symm__sleep_us(500000);
    ck_assert_int_eq(symm__meeting_listen(&ranks[0].m, &at, &ranks[0].listener), SYMM_OK);
    start(&ranks[0]);
    join_all(ranks, N);
    for (int r = 0; r < N; r++)
        check_table(&ranks[r]);
    snprintf(line, sizeof line, "symm: waiting for rank 0 at %s (SYMM_ADDRESS)\n",
             symm__address_name(&at).text);
    check_has(heard.lines, line);
    ck_assert_int_ge(heard.n[SYMM_LOG_WARNING], N - 1);
    ck_assert_int_le(heard.n[SYMM_LOG_WARNING], 4 * (N - 1));
    end_ranks(ranks, N);
}

/* All wait for rank 2. Rank 0 knows that. */
TEST(meeting, a_long_wait_is_reported)
{
    struct rank *ranks = make_ranks(3, 100);

    ranks[0].m.slow_us = ranks[1].m.slow_us = 200000;
    ranks[2].late_ms = 600;
    start_all(ranks, 3);
    join_all(ranks, 3);
    check_table(&ranks[0]);
    check_has(heard.lines, "symm: waiting for rank 2 of 3 at 127.0.0.1:");
    check_has(heard.lines, "symm: waiting for other ranks; rank 0 is at 127.0.0.1:");
    end_ranks(ranks, 3);
}

/* ---- Places ---- */

/* Two addresses, of which `other` is a socket of another program. */
static void share_places(struct rank *ranks, int nranks, const struct symm_address *other)
{
    for (int r = 0; r < nranks; r++) {
        ranks[r].m.nplaces = 2;
        ranks[r].m.places[1] = ranks[r].m.places[0];
        ranks[r].m.places[0] = *other;
    }
}

static atomic_bool stop;

static void *speak_http(void *arg)
{
    const int listener = *(int *)arg;

    while (!stop) {
        struct pollfd p = {listener, POLLIN, 0};
        if (poll(&p, 1, 10) != 1)
            continue;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            send(fd, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, MSG_NOSIGNAL);
        symm__fd_close(&fd);
    }
    return NULL;
}

/* _i: it answers, or is silent. */
TEST_LOOP(meeting, a_port_of_another_program_is_passed_over, 0, 2)
{
    enum { N = 3 };
    struct rank *ranks = make_ranks(N, 100);
    const struct symm_address a = loopback();
    struct symm_address other, at;
    pthread_t thread;
    int listener;

    ck_assert_int_eq(symm__address_listen(&a, &other, &listener), SYMM_OK);
    stop = false;
    if (!_i)
        ck_assert_int_eq(pthread_create(&thread, NULL, speak_http, &listener), 0);
    share_places(ranks, N, &other);
    symm__fd_close(&ranks[0].listener);
    ck_assert_int_eq(symm__meeting_listen(&ranks[0].m, &at, &ranks[0].listener), SYMM_OK);
    ck_assert_str_eq(symm__address_name(&at).text, symm__address_name(&ranks[0].m.places[1]).text);
    start_all(ranks, N);
    join_all(ranks, N);
    for (int r = 0; r < N; r++)
        check_table(&ranks[r]);
    ck_assert_int_lt(ranks[1].took_us, SYMM_WIRE_PROOF_US); /* a silent place does not hold it up */
    stop = true;
    if (!_i)
        ck_assert_int_eq(pthread_join(thread, NULL), 0);
    symm__fd_close(&listener);
    end_ranks(ranks, N);
}

TEST(meeting, all_ports_may_be_in_use)
{
    struct rank *ranks = make_ranks(1, 8);
    const struct symm_address a = loopback();
    struct symm_address other, at;
    int listener, fd;
    char text[200];

    ck_assert_int_eq(symm__address_listen(&a, &other, &listener), SYMM_OK);
    share_places(ranks, 1, &other);
    ck_assert_int_eq(symm__meeting_listen(&ranks[0].m, &at, &fd), SYMM_ERROR_STATE);
    ck_assert_int_eq(fd, -1);
    snprintf(text, sizeof text, "all ports are in use: %s, %s (SYMM_ADDRESS)",
             symm__address_name(&other).text, symm__address_name(&ranks[0].m.places[1]).text);
    ck_assert_str_eq(symm__failure_text(), text);
    symm__fd_close(&listener);
    end_ranks(ranks, 1);
}

TEST(meeting, nobody_listens)
{
    struct rank *ranks = make_ranks(2, 8);
    struct symm_address_name at;
    char text[300];

    symm__fd_close(&ranks[0].listener);
    ranks[1].timeout_ms = 200;
    start(&ranks[1]);
    join(&ranks[1]);
    ck_assert_int_eq(ranks[1].st, SYMM_ERROR_TIMEOUT);
    at = symm__address_name(&ranks[1].m.places[0]);
    snprintf(text, sizeof text,
             "nobody with this token listens at %s (SYMM_ADDRESS); %s: Connection refused", at.text,
             at.text);
    ck_assert_str_eq(ranks[1].why, text);
    ck_assert_int_lt(ranks[1].took_us, 1500000);
    end_ranks(ranks, 2);
}

/* ---- Strangers ---- */

/* A browser, a silent connection, and a rank of another job come before rank 1. */
TEST(meeting, strangers_are_dropped_and_reported_once)
{
    struct rank *ranks = make_ranks(2, 100), *foreign = make_ranks(2, 100);
    int browser = connect_to(&ranks[0].m.places[0]), silent = connect_to(&ranks[0].m.places[0]);

    say(browser, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
    foreign[1].m.places[0] = ranks[0].m.places[0];
    foreign[1].m.key = wrong;
    foreign[1].timeout_ms = 300;
    start(&ranks[0]);
    start(&foreign[1]);
    ck_assert(is_closed(browser));
    join(&foreign[1]);
    ck_assert_int_eq(foreign[1].st, SYMM_ERROR_TIMEOUT);
    check_has(foreign[1].why, "closed the connection before it proved that it knows the token");
    start(&ranks[1]);
    join_all(ranks, 2);
    check_table(&ranks[0]);
    check_table(&ranks[1]);
    ck_assert(is_closed(silent));
    ck_assert_int_eq(heard.n[SYMM_LOG_INFO], 1);
    check_has(heard.lines, "symm: refused a connection from 127.0.0.1:");
    check_has(heard.lines, "further ones are not reported");
    symm__fd_close(&browser);
    symm__fd_close(&silent);
    end_ranks(ranks, 2);
    end_ranks(foreign, 2);
}

/* Of silent strangers, rank 0 keeps no more than it may, and a rank comes through. */
TEST(meeting, a_flood_of_strangers_leaves_a_place_for_ranks)
{
    enum { FLOOD = 200, STAY = 2 + 16 };
    struct rank *ranks = make_ranks(2, 100);
    int fds[FLOOD], nclosed = 0;

    ranks[0].timeout_ms = ranks[1].timeout_ms = 10000;
    start(&ranks[0]);
    for (int i = 0; i < FLOOD; i++)
        fds[i] = connect_to(&ranks[0].m.places[0]);
    for (int i = 0; i < FLOOD - STAY; i++) /* the oldest ones have made way */
        nclosed += is_closed(fds[i]);
    ck_assert_int_eq(nclosed, FLOOD - STAY);
    for (int i = FLOOD - STAY; i < FLOOD; i++) {
        struct pollfd p = {fds[i], POLLRDHUP, 0};
        ck_assert_int_eq(poll(&p, 1, 0), 0);
    }
    start(&ranks[1]);
    join_all(ranks, 2);
    check_table(&ranks[0]);
    check_table(&ranks[1]);
    ck_assert_int_eq(heard.n[SYMM_LOG_INFO], 1);
    symm__fd_close_all(fds, FLOOD);
    end_ranks(ranks, 2);
}

/* ---- Ranks that end and come again ---- */

/*
 * A rank whose process this is. Its bytes are sent when this returns, so rank 0 reads them before
 * those of ranks that come later.
 */
static struct symm_wire *come_as(const struct rank *r, uint64_t rank, const void *bytes)
{
    const struct symm_message meet = {.type = SYMM_MESSAGE_MEET,
                                      .rank = -1,
                                      .args = {(uint64_t)r->m.nranks, r->nbytes, 0, rank},
                                      .payload = bytes,
                                      .payload_nbytes = r->nbytes};
    struct symm_wire *w;

    ck_assert_int_eq(symm__wire_connect(&r->m.places[0], &right, &w), SYMM_OK);
    symm__wire_send(w, symm__frame_make(&meet));
    serve_until(w, SYMM_WIRE_OPEN);
    return w;
}

/* Reads until rank 0 has sent something, and closes. Returns its type. */
static uint32_t read_and_close(struct symm_wire *w)
{
    struct symm_message m = {.type = SYMM_MESSAGE_NONE};

    for (int i = 0; i < 500 && !symm__wire_next(w, &m); i++) {
        struct pollfd p = symm__wire_poll(w);
        poll(&p, 1, 10);
        symm__wire_serve(w, p.revents);
    }
    symm__wire_close(w);
    return m.type;
}

/* Rank 1 dies before rank 2 comes, and is started again with other bytes. */
TEST(meeting, a_rank_may_come_again)
{
    struct rank *ranks = make_ranks(3, 4);

    start(&ranks[0]);
    symm__wire_close(come_as(&ranks[0], 1, "old"));
    start(&ranks[2]);
    symm__sleep_us(100000);
    start(&ranks[1]);
    join_all(ranks, 3);
    for (int r = 0; r < 3; r++)
        check_table(&ranks[r]);
    check_has(heard.lines, "may come again: closed the connection");
    end_ranks(ranks, 3);
}

/* Two ranks die one after the other. Each is waited for again. */
TEST(meeting, several_ranks_may_come_again)
{
    struct rank *ranks = make_ranks(4, 4);
    struct symm_wire *first, *second;

    start(&ranks[0]);
    first = come_as(&ranks[0], 1, "old");
    second = come_as(&ranks[0], 2, "old");
    symm__wire_close(first);
    symm__sleep_us(100000);
    symm__wire_close(second);
    start(&ranks[3]);
    start(&ranks[1]);
    symm__sleep_us(200000);
    start(&ranks[2]);
    join_all(ranks, 4);
    for (int r = 0; r < 4; r++)
        check_table(&ranks[r]);
    end_ranks(ranks, 4);
}

/* The end of the first connection comes after the next connection. */
TEST(meeting, an_earlier_connection_may_end_late)
{
    struct rank *ranks = make_ranks(3, 4);
    struct symm_wire *old, *later;

    start(&ranks[0]);
    old = come_as(&ranks[0], 1, "old");
    later = come_as(&ranks[0], 1, "\4\5\6\7");
    symm__wire_close(old);
    start(&ranks[2]);
    ck_assert_int_eq(read_and_close(later), SYMM_MESSAGE_MEET);
    join_all(ranks, 3);
    check_table(&ranks[0]);
    check_table(&ranks[2]);
    end_ranks(ranks, 3);
}

/* The earlier connection is closed, too: its bytes were replaced. */
TEST(meeting, a_later_connection_may_end_first)
{
    struct rank *ranks = make_ranks(3, 4);
    struct symm_wire *old;

    start(&ranks[0]);
    old = come_as(&ranks[0], 1, "old");
    symm__wire_close(come_as(&ranks[0], 1, "new"));
    serve_until(old, SYMM_WIRE_ENDED);
    symm__wire_close(old);
    start(&ranks[1]);
    start(&ranks[2]);
    join_all(ranks, 3);
    for (int r = 0; r < 3; r++)
        check_table(&ranks[r]);
    end_ranks(ranks, 3);
}

/* All ranks have come, but which of two is rank 1? */
TEST(meeting, no_table_is_sent_while_a_rank_has_two_connections)
{
    struct rank *ranks = make_ranks(3, 4);
    struct symm_wire *old, *later;

    start(&ranks[0]);
    old = come_as(&ranks[0], 1, "old");
    later = come_as(&ranks[0], 1, "new");
    start(&ranks[2]);
    ck_assert_int_eq(read_and_close(later), SYMM_MESSAGE_ENDED);
    ck_assert_int_eq(read_and_close(old), SYMM_MESSAGE_ENDED);
    join_all(ranks, 3);
    ck_assert_int_eq(ranks[0].st, SYMM_ERROR_MISMATCH);
    ck_assert_str_eq(ranks[0].why, ranks[2].why);
    end_ranks(ranks, 3);
}

/* A rank loses its connection, without fault of its own or of rank 0. */
TEST(meeting, a_rank_comes_again_by_itself)
{
    struct rank *ranks = make_ranks(2, 100);
    struct symm_wire *w;
    struct pollfd p = {ranks[0].listener, POLLIN, 0};

    start(&ranks[1]);
    ck_assert_int_eq(poll(&p, 1, 5000), 1);
    ck_assert_int_eq(
        symm__wire_accept(accept4(ranks[0].listener, NULL, NULL, SOCK_CLOEXEC), &right, &w),
        SYMM_OK);
    serve_until(w, SYMM_WIRE_OPEN);
    symm__sleep_us(50000);
    symm__wire_close(w);
    start(&ranks[0]);
    join_all(ranks, 2);
    check_table(&ranks[0]);
    check_table(&ranks[1]);
    end_ranks(ranks, 2);
}

TEST(meeting, the_end_of_rank_0_is_noticed)
{
    struct rank *ranks = make_ranks(2, 100);
    struct symm_wire *w;
    struct pollfd p = {ranks[0].listener, POLLIN, 0};

    start(&ranks[1]);
    ck_assert_int_eq(poll(&p, 1, 5000), 1);
    ck_assert_int_eq(
        symm__wire_accept(accept4(ranks[0].listener, NULL, NULL, SOCK_CLOEXEC), &right, &w),
        SYMM_OK);
    serve_until(w, SYMM_WIRE_OPEN);
    symm__sleep_us(50000);
    symm__wire_close(w);
    symm__fd_close(&ranks[0].listener);
    join(&ranks[1]);
    ck_assert_int_eq(ranks[1].st, SYMM_ERROR_PEER);
    check_has(ranks[1].why, "rank 0 has ended: 127.0.0.1:");
    ck_assert_int_lt(ranks[1].took_us, 6000000);
    end_ranks(ranks, 2);
}

/* ---- Refusals ---- */

/* _i: the time limit of rank 0 or of rank 1 is over first. */
TEST_LOOP(meeting, missing_ranks_are_named_to_all_that_came, 0, 2)
{
    enum { N = 8 };
    struct rank *ranks = make_ranks(N, 100);
    char text[200];

    ranks[_i].timeout_ms = 300;
    for (int r = 0; r < N; r++)
        if (r != 2 && (r < 4 || r > 6))
            start(&ranks[r]);
    for (int r = 0; r < N; r++)
        join(&ranks[r]);
    snprintf(text, sizeof text, "rank 2, 4 to 6 of 8 did not come to %s (SYMM_ADDRESS)",
             symm__address_name(&ranks[0].m.places[0]).text);
    for (int r = 0; r < N; r++)
        if (r != 2 && (r < 4 || r > 6)) {
            ck_assert_int_eq(ranks[r].st, SYMM_ERROR_TIMEOUT);
            ck_assert_str_eq(ranks[r].why, text);
            ck_assert_int_lt(ranks[r].took_us, 3000000);
        }
    end_ranks(ranks, N);
}

TEST(meeting, a_rank_with_another_token_is_hinted_at_when_it_is_missing)
{
    struct rank *ranks = make_ranks(2, 100);

    ranks[0].timeout_ms = ranks[1].timeout_ms = 400;
    ranks[1].m.key = wrong;
    start_all(ranks, 2);
    join_all(ranks, 2);
    check_has(ranks[0].why, "rank 1 of 2 did not come to 127.0.0.1:");
    check_has(ranks[0].why, "; refused connections: ");
    check_has(ranks[0].why, ", the last one from 127.0.0.1:");
    check_has(ranks[0].why, ": has not proved that it knows the token");
    end_ranks(ranks, 2);
}

/* Thousands are missing: the text is cut, and none is forgotten in the table. */
TEST(meeting, a_text_about_many_ranks_is_cut)
{
    enum { N = 4000 };
    struct rank *ranks = make_ranks(2, 4);
    struct symm_wire *wires[100];

    ranks[0].m.nranks = N;
    ranks[0].timeout_ms = 1000;
    start(&ranks[0]);
    for (int i = 0; i < 100; i++)
        wires[i] = come_as(&ranks[0], (uint64_t)(30 * i + 15), "abc");
    join(&ranks[0]);
    ck_assert_int_eq(ranks[0].st, SYMM_ERROR_TIMEOUT);
    check_has(ranks[0].why, "rank 1 to 14, 16 to 44, 46 to 74, ");
    check_has(ranks[0].why, ", ... of 4000 did not come to 127.0.0.1:");
    for (int i = 0; i < 100; i++)
        symm__wire_close(wires[i]);
    end_ranks(ranks, 2);
}

TEST(meeting, other_numbers_of_ranks_and_bytes_are_named_to_all)
{
    enum { N = 5 };
    struct rank *ranks = make_ranks(N, 100);

    ranks[1].m.nranks = 6;
    ranks[2].nbytes = 96;
    ranks[4].m.rank = 9;
    ranks[3].late_ms = 200; /* it is told, too */
    start_all(ranks, N);
    join_all(ranks, N);
    check_alike(ranks, N, SYMM_ERROR_MISMATCH);
    check_has(ranks[0].why, "rank 1 (127.0.0.1:");
    check_has(ranks[0].why, ") has nranks 6, rank 0 has 5");
    check_has(ranks[0].why, "rank 2 (127.0.0.1:");
    check_has(ranks[0].why, ") brings 96 bytes, rank 0 brings 100");
    check_has(ranks[0].why, "rank 9 (127.0.0.1:");
    check_has(ranks[0].why, ") is not within 0 to 4");
    end_ranks(ranks, N);
}

TEST(meeting, a_rank_that_comes_after_the_refusal_is_told)
{
    struct rank *ranks = make_ranks(3, 100);

    ranks[1].nbytes = 96;
    ranks[2].late_ms = 900; /* after 500 ms the text is complete */
    start_all(ranks, 3);
    join_all(ranks, 3);
    check_alike(ranks, 3, SYMM_ERROR_MISMATCH);
    end_ranks(ranks, 3);
}

TEST(meeting, a_rank_that_comes_twice_is_named_to_all)
{
    enum { N = 4 };
    struct rank *ranks = make_ranks(N, 100);

    ranks[3].m.rank = 1;
    start_all(ranks, N);
    join_all(ranks, N);
    check_alike(ranks, N, SYMM_ERROR_MISMATCH);
    check_has(ranks[0].why, "rank 1 came twice, from 127.0.0.1:");
    end_ranks(ranks, N);
}

TEST(meeting, a_second_rank_0_is_named_to_all)
{
    struct rank *ranks = make_ranks(2, 4);
    struct symm_wire *twin;

    start(&ranks[0]);
    twin = come_as(&ranks[0], 0, "old");
    start(&ranks[1]);
    join_all(ranks, 2);
    check_alike(ranks, 2, SYMM_ERROR_MISMATCH);
    check_has(ranks[0].why, "rank 0 came twice: it listens at 127.0.0.1:");
    symm__wire_close(twin);
    end_ranks(ranks, 2);
}

TEST(meeting, another_version_at_the_only_place_is_an_error_at_once)
{
    struct rank *ranks = make_ranks(2, 100);
    struct pollfd p = {ranks[0].listener, POLLIN, 0};
    int fd;

    start(&ranks[1]);
    ck_assert_int_eq(poll(&p, 1, 5000), 1);
    fd = accept4(ranks[0].listener, NULL, NULL, SOCK_CLOEXEC);
    say(fd, "symm-tcp\1\2\3");
    ck_assert_int_eq(send(fd, "\0", 1, MSG_NOSIGNAL), 1);
    join(&ranks[1]);
    ck_assert_int_eq(ranks[1].st, SYMM_ERROR_VERSION);
    check_has(ranks[1].why, ": is symm 197121, this is 100");
    symm__fd_close(&fd);
    end_ranks(ranks, 2);
}
