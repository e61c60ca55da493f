/*
 * How calls between domains fail: deaths in mid-call, libraries that are missing or differ,
 * failures of the library, aborts that block, calls that differ. All survivors hear why, in time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <symm/collectives.h>
#include <symm/stream.h>
#include <unistd.h>
#include "emulated.h"
#include "exercise.h"
#include "hosts.h"
#include "standin.h"
#include "test.h"

enum { HOSTS = 2, SIZE = 2, RANKS = HOSTS * SIZE, COUNT = 5000, ROUNDS = 1000000 };

static const char *const algos[] = {"flat", "hierarchical"};
enum { ALGOS = 2 };

struct bench {
    symm_context *ctx;
    symm_group *world;
    symm_stream s;
    float *x;
};

static symm_status bench_open(const struct rank *self, const struct hosts *hosts, struct bench *b)
{
    symm_status st = hosts_join(self, hosts, &b->ctx);

    b->world = symm_context_world(b->ctx);
    if (st == SYMM_OK)
        st = symm_stream_create(b->ctx, &b->s);
    if (st == SYMM_OK)
        st = symm_device_alloc(b->ctx, COUNT * sizeof(float), (void **)&b->x);
    return st;
}

static void bench_close(struct bench *b)
{
    symm_stream_destroy(b->s);
    symm_context_destroy(b->ctx);
}

static symm_status all_reduce(struct bench *b)
{
    symm_status st =
        symm_all_reduce(b->world, b->x, b->x, COUNT, SYMM_FLOAT32, SYMM_MAX, NULL, b->s);

    return st == SYMM_OK ? symm_synchronize(b->world, b->s) : st;
}

TEST_GROUP(ends, 120);

/* ---- Deaths ---- */

struct death {
    int victim;
    int64_t limit_ms;
    struct hosts hosts;
};

static void outlive(struct rank *self, void *arg)
{
    const struct death *death = arg;
    symm_status st = SYMM_OK;
    struct bench b = {0};

    RANK_TRY(self, bench_open(self, &death->hosts, &b));
    self->report->value[2] = 1;
    for (int i = 0; i < ROUNDS && st == SYMM_OK; i++) {
        st = all_reduce(&b);
        self->report->value[1]++;
    }
    self->report->value[0] = now_ms();
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm_check(b.world));
    RANK_EXPECT(self, SYMM_ERROR_PEER, all_reduce(&b));
out:
    bench_close(&b);
}

static void kill_one(const char *algo, int victim, int64_t limit_ms, bool clean)
{
    struct rank_report reports[RANKS_MAX];
    struct death death = {.victim = victim, .limit_ms = limit_ms};

    standin_use();
    setenv("SYMM_SPAN_ALGO", algo, 1);
    death.hosts = (struct hosts){HOSTS, {SIZE, SIZE}, false, ""};
    hosts_address(&death.hosts);
    struct ranks *run = ranks_start(RANKS, RANKS_AS_PROCESSES, outlive, &death);
    const int64_t when = ranks_kill_at(run, victim, 1, 10);
    ranks_end(run, reports, 60);
    for (int r = 0; r < RANKS; r++) {
        if (r == victim)
            continue;
        if (!clean)
            reports[r].leaks[0] = 0;
        ranks_assert_ok(&reports[r], 1);
        ck_assert_msg(reports[r].value[0] - when < limit_ms, "rank %d noticed after %lld ms", r,
                      (long long)(reports[r].value[0] - when));
    }
}

TEST_LOOP(ends, a_death_in_mid_call_is_known_in_time, 0, RANKS *ALGOS)
{
    kill_one(algos[_i % ALGOS], _i / ALGOS, 1500, true);
}

/* ---- Held kernels ---- */

enum { ABSENT = 1, HOLD_MS = 300, SOON_MS = 2000 };

struct holding {
    struct hosts hosts;
    bool aborts; /* else it destroys the context */
};

/* Whether the stream's work is over within a time. */
static bool ends_within(symm_event done, int ms)
{
    int is_done = 0;

    for (int64_t until = now_ms() + ms; now_ms() < until && !is_done;) {
        symm_event_query(done, &is_done);
        pause_ms(1);
    }
    return is_done;
}

/* The kernel of the inner group waits for a rank of the domain, which ends the group instead. */
static void hold(struct rank *self, void *arg)
{
    const struct holding *holding = arg;
    symm_config config = hosts_config(self, &holding->hosts);
    symm_event done = NULL;
    struct bench b = {0};

    config.hold = 1;
    RANK_TRY(self, symm_context_create(&config, &b.ctx));
    b.world = symm_context_world(b.ctx);
    RANK_TRY(self, symm_stream_create(b.ctx, &b.s));
    RANK_TRY(self, symm_event_create(b.ctx, &done));
    RANK_TRY(self, symm_device_alloc(b.ctx, COUNT * sizeof(float), (void **)&b.x));
    RANK_TRY(self, all_reduce(&b));
    RANK_TRY(self, symm_exchange(b.world, NULL, 0, NULL));
    if (self->rank == ABSENT) {
        pause_ms(HOLD_MS);
        symm_abort(b.world, "enough");
    }
    if (self->rank != 0)
        goto out;
    RANK_TRY(self, symm_all_reduce(b.world, b.x, b.x, COUNT, SYMM_FLOAT32, SYMM_MAX, NULL, b.s));
    RANK_TRY(self, symm_event_record(done, b.s));
    for (int64_t until = now_ms() + SOON_MS; symm_check(b.world) == SYMM_OK && now_ms() < until;)
        pause_ms(1);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "enough", symm_check(b.world));
    CHECK_RANK(self, !ends_within(done, HOLD_MS));
    if (holding->aborts) {
        symm_abort(b.world, "enough");
        CHECK_RANK(self, ends_within(done, SOON_MS));
    }
out:
    symm_event_destroy(done);
    bench_close(&b);
}

TEST_LOOP(ends, held_kernels_of_the_inner_group_end_with_an_abort_or_the_context, 0, 2)
{
    struct holding holding = {{HOSTS, {SIZE, SIZE}, false, ""}, _i == 0};

    standin_use();
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_SPAN_ALGO", "hierarchical", 1);
    hosts_address(&holding.hosts);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, hold, &holding, 60);
}

/* NCCL's abort may wait for ranks that are gone: its communicator is given up. */
/* The library's delays make the first call long. */
TEST_LOOP(ends, a_death_while_communicators_are_made_is_known_in_time, 0, 6)
{
    struct rank_report reports[RANKS_MAX];
    struct death death = {.victim = _i % RANKS};

    standin_use();
    setenv("NCCL_STANDIN_DELAY_US", "300000", 1);
    setenv("SYMM_SPAN_ALGO", algos[_i % ALGOS], 1);
    death.hosts = (struct hosts){HOSTS, {SIZE, SIZE}, false, ""};
    hosts_address(&death.hosts);
    struct ranks *run = ranks_start(RANKS, RANKS_AS_PROCESSES, outlive, &death);
    ranks_await(run, death.victim, 2, 1);
    pause_ms(80 * _i);
    const int64_t when = ranks_kill_at(run, death.victim, 2, 1);
    ranks_end(run, reports, 60);
    for (int r = 0; r < RANKS; r++) {
        if (r == death.victim)
            continue;
        ranks_assert_ok(&reports[r], 1);
        ck_assert_msg(reports[r].value[0] - when < 3000, "rank %d noticed after %lld ms", r,
                      (long long)(reports[r].value[0] - when));
    }
}

TEST_GROUP(blocked, 120);

TEST(blocked, an_abort_that_blocks_is_given_up)
{
    setenv("NCCL_STANDIN_ABORT_WAITS", "1", 1);
    setenv("SYMM_EMULATED_LEAKS", "off", 1); /* its memory is lost */
    kill_one("flat", 3, 15000, false);
}

/* ---- Failures ---- */

struct failure {
    const char *variable, *value; /* of one rank */
    int rank;
    symm_status status;
    const char *part;
    bool alive; /* the group goes on */
    struct hosts hosts;
};

static const struct failure failures[] = {
    {"SYMM_NCCL_LIBRARY",
     "/no/such/libnccl.so.2",
     2,
     SYMM_ERROR_UNSUPPORTED,
     "set SYMM_NCCL_LIBRARY",
     true,
     {0}},
    {"SYMM_NCCL_LIBRARY",
     NULL,
     1,
     SYMM_ERROR_UNSUPPORTED,
     "the emulated driver needs a library",
     true,
     {0}},
    {"NCCL_STANDIN_VERSION", "21903", 3, SYMM_ERROR_MISMATCH, "rank 3 NCCL 2.19.3", true, {0}},
    {"SYMM_SPAN_ALGO",
     "hierarchical",
     1,
     SYMM_ERROR_MISMATCH,
     "SYMM_SPAN_ALGO of rank 1",
     true,
     {0}},
    {"SYMM_SPAN_ALGO", "fast", 2, SYMM_ERROR_ARGUMENT, "SYMM_SPAN_ALGO=fast", true, {0}},
    {"SYMM_SPAN_ALGO", "lamport", 2, SYMM_ERROR_ARGUMENT, "SYMM_SPAN_ALGO=lamport", true, {0}},
    {"NCCL_STANDIN_FAULT", "ncclCommInitRank@1#1=2", 1, SYMM_ERROR_PEER, "rank 1: ", false, {0}},
    {"NCCL_STANDIN_FAULT", "ncclAllReduce@2#3=3", 2, SYMM_ERROR_PEER, "rank 2: ", false, {0}},
    {"NCCL_STANDIN_FAULT", "ncclAllReduce@3#3=106", 3, SYMM_ERROR_PEER, "rank 3: ", false, {0}},
};
enum { FAILURES = sizeof failures / sizeof failures[0] };

static void run_failure(struct rank *self, void *arg)
{
    const struct failure *f = arg;
    symm_status st = SYMM_OK;
    struct bench b = {0};

    standin_use();
    setenv("SYMM_SPAN_ALGO", "flat", 1);
    if (self->rank == f->rank && f->value)
        setenv(f->variable, f->value, 1);
    else if (self->rank == f->rank)
        unsetenv(f->variable);
    RANK_TRY(self, bench_open(self, &f->hosts, &b));
    for (int i = 0; i < 200 && st == SYMM_OK; i++)
        st = rank_note(self, all_reduce(&b));
    CHECK_RANK_MSG(self, st == f->status || (!f->alive && self->rank == f->rank), "%s: %s",
                   symm_status_name(st), self->report->text);
    if (f->alive) {
        RANK_TEXT(self, f->part);
        RANK_TRY(self, symm_exchange(b.world, NULL, 0, NULL));
    } else {
        while (symm_check(b.world) == SYMM_OK)
            usleep(1000);
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, f->part, symm_check(b.world));
    }
    self->report->status = SYMM_OK;
out:
    bench_close(&b);
}

TEST_LOOP(ends, a_failure_of_the_library_is_told_to_all, 0, FAILURES)
{
    struct failure f = failures[_i];

    f.hosts = (struct hosts){HOSTS, {SIZE, SIZE}, false, ""};
    hosts_address(&f.hosts);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, run_failure, &f, 60);
}

/* ---- Misuse ---- */

static void misuse(struct rank *self, void *arg)
{
    const struct hosts *hosts = arg;
    const bool uneven = hosts->sizes[0] != hosts->sizes[1];
    const symm_options named = {.algo = SYMM_ALGO_TWO_SHOT};
    const symm_options exact = {.flags = SYMM_DETERMINISTIC};
    const symm_options flat_exact = {.algo = SYMM_ALGO_FLAT, .flags = SYMM_DETERMINISTIC};
    const symm_options hierarchical = {.algo = SYMM_ALGO_HIERARCHICAL};
    const float two = 2;
    const symm_options scaled = {.scale = &two};
    const symm_rms_norm norm = {.rows = 1, .hidden = 8, .eps = 1};
    struct bench b = {0};

    RANK_TRY(self, bench_open(self, hosts, &b));
#define CALL(count, options)                                                                       \
    symm_all_reduce(b.world, b.x, b.x, count, SYMM_FLOAT32, SYMM_SUM, options, b.s)
    RANK_TRY(self, symm_graph_begin(b.s));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_STATE, "symm_group_reserve()", CALL(10, NULL));
    symm_graph graph = NULL;
    symm_graph_end(b.s, &graph);
    symm_graph_destroy(graph);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "auto, flat and", CALL(10, &named));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "SYMM_DETERMINISTIC", CALL(10, &flat_exact));
    if (uneven) {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "SYMM_DETERMINISTIC", CALL(10, &exact));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "as many ranks", CALL(10, &hierarchical));
    }
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "this group has one",
                     symm_all_reduce(symm_context_domain(b.ctx), b.x, b.x, 10, SYMM_FLOAT32,
                                     SYMM_SUM, &hierarchical, b.s));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "scaled", CALL(10, &scaled));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "in is NULL",
                     symm_all_reduce(b.world, NULL, b.x, 10, SYMM_FLOAT32, SYMM_SUM, NULL, b.s));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "root is 4",
                     symm_broadcast(b.world, b.x, b.x, 10, SYMM_FLOAT32, RANKS, NULL, b.s));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "norm",
                     symm_all_reduce_rms_norm(b.world, &norm, SYMM_BFLOAT16, NULL, b.s));
    CHECK_RANK(self,
               symm_all_reduce_unavailable(b.world, SYMM_ALGO_ONE_SHOT, SYMM_FLOAT32, SYMM_SUM));
    CHECK_RANK(self, !symm_all_reduce_unavailable(b.world, SYMM_ALGO_AUTO, SYMM_FLOAT32, SYMM_SUM));
    CHECK_RANK(self,
               symm_all_reduce_unavailable(b.world, SYMM_ALGO_AUTO, SYMM_UINT8, SYMM_SUM) != NULL);
    RANK_TRY(self, CALL(0, NULL));
    RANK_TRY(self, CALL(COUNT, NULL));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "called different things",
                     CALL(self->rank == 3 ? 11 : 10, NULL));
    if (!uneven)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "called different things",
                         CALL(10, self->rank == 3 ? &hierarchical : NULL));
    RANK_TRY(self, symm_synchronize(b.world, b.s));
    RANK_TRY(self, symm_exchange(b.world, NULL, 0, NULL));
    symm_abort(self->rank == 1 ? b.world : NULL, "enough");
    while (symm_check(b.world) == SYMM_OK)
        usleep(1000);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 1 aborted: enough", CALL(10, NULL));
#undef CALL
out:
    bench_close(&b);
}

TEST_LOOP(ends, bad_calls_are_refused, 0, 2 * ALGOS)
{
    struct hosts hosts = {HOSTS, {SIZE, SIZE}, false, ""};

    if (_i / ALGOS)
        hosts.sizes[0] = RANKS - (hosts.sizes[1] = 1);
    standin_use();
    setenv("SYMM_SPAN_ALGO", algos[_i % ALGOS], 1);
    hosts_address(&hosts);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, misuse, &hosts, 60);
}

/* Without SYMM_CHECK, ranks that call different things end the group instead of getting garbage. */
static void differ(struct rank *self, void *arg)
{
    const struct hosts *hosts = arg;
    symm_status st = SYMM_OK;
    struct bench b = {0};

    RANK_TRY(self, bench_open(self, hosts, &b));
    RANK_TRY(self, all_reduce(&b));
    RANK_TRY(self, symm_exchange(b.world, NULL, 0, NULL));
    st = symm_all_reduce(b.world, b.x, b.x, self->rank == 3 ? 100 : 200, SYMM_FLOAT32, SYMM_SUM,
                         NULL, b.s);
    if (st == SYMM_OK)
        st = symm_synchronize(b.world, b.s);
    while (symm_check(b.world) == SYMM_OK)
        usleep(1000);
    CHECK_RANK(self, symm_check(b.world) != SYMM_OK);
out:
    bench_close(&b);
}

TEST(ends, calls_that_differ_end_the_group)
{
    struct hosts hosts = {HOSTS, {SIZE, SIZE}, false, ""};

    standin_use();
    setenv("SYMM_SPAN_ALGO", "flat", 1);
    setenv("SYMM_CHECK", "0", 1);
    hosts_address(&hosts);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, differ, &hosts, 60);
}

/* A rank that fails before its vote is not waited for, also if nothing is to be made. */
static void reserve_again(struct rank *self, void *arg)
{
    const struct hosts *hosts = arg;
    struct bench b = {0};

    RANK_TRY(self, bench_open(self, hosts, &b));
    for (int i = 0; i < 2; i++) {
        RANK_TRY(self, symm_group_reserve(b.world, 0));
        if (self->rank == 3)
            emulated_set_fault("cuCtxGetCurrent#1=999");
        RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, "cuCtxGetCurrent",
                         symm_group_reserve(b.world, 0));
        emulated_set_fault(NULL);
    }
    RANK_TRY(self, symm_all_reduce(b.world, b.x, b.x, 200, SYMM_FLOAT32, SYMM_SUM, NULL, b.s));
    RANK_TRY(self, symm_synchronize(b.world, b.s));
out:
    bench_close(&b);
}

TEST(ends, a_reserve_that_fails_on_one_rank_fails_on_all)
{
    struct hosts hosts = {HOSTS, {SIZE, SIZE}, false, ""};

    standin_use();
    hosts_address(&hosts);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, reserve_again, &hosts, 60);
}

/* In a graph, whose replay is no call: only the thread that asks the communicators can notice. */
static void differ_in_a_graph(struct rank *self, void *arg)
{
    const struct hosts *hosts = arg;
    symm_graph graph = NULL;
    struct bench b = {0};

    RANK_TRY(self, bench_open(self, hosts, &b));
    RANK_TRY(self, symm_group_reserve(b.world, 0));
    RANK_TRY(self, symm_graph_begin(b.s));
    RANK_TRY(self, symm_all_reduce(b.world, b.x, b.x, self->rank == 3 ? 100 : 200, SYMM_FLOAT32,
                                   SYMM_SUM, NULL, b.s));
    RANK_TRY(self, symm_graph_end(b.s, &graph));
    RANK_TRY(self, symm_exchange(b.world, NULL, 0, NULL));
    RANK_TRY(self, symm_graph_launch(graph, b.s));
    const int64_t begun = now_ms();
    while (symm_check(b.world) == SYMM_OK && now_ms() - begun < 10000)
        usleep(1000);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "a communicator of NCCL", symm_check(b.world));
out:
    symm_graph_destroy(graph);
    bench_close(&b);
}

TEST(ends, replays_that_differ_end_the_group)
{
    struct hosts hosts = {HOSTS, {SIZE, SIZE}, false, ""};

    standin_use();
    setenv("SYMM_SPAN_ALGO", "flat", 1);
    setenv("SYMM_CHECK", "0", 1);
    hosts_address(&hosts);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, differ_in_a_graph, &hosts, 60);
}
