/*
 * Runs of products that follow each other: without a pause, on two streams, of two groups, from
 * graphs and between their replays, with ranks that are late. Inputs change with every run, and
 * its outputs are copied to another place before the next one.
 */
#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "matmul_pair.h"
#include "matmul_plan.h"
#include "test.h"

enum { TRAIN = 6, NKINDS = 13 };

/* A kind of products. */
struct kind {
    symm_matmul_kind kind;
    symm_strategy strategy;
    int32_t m, k;
};

static const struct kind kinds[NKINDS] = {
    {SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_FUSED, 37, 40},
    {SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_FUSED, 700, 8},
    {SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_PIPELINED, 37, 40},
    {SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_PIPELINED, 300, 9},
    {SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_UNFUSED, 37, 40},
    {SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_UNFUSED, 130, 9},
    {SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_FUSED, 3, 24},
    {SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_AUTO, 200, 33},
    {SYMM_MATMUL_REDUCE_SCATTER, SYMM_STRATEGY_AUTO, 300, 9},
    {SYMM_MATMUL_ALL_REDUCE, SYMM_STRATEGY_AUTO, 37, 40},
    {SYMM_MATMUL_ALL_SCATTER, SYMM_STRATEGY_AUTO, 300, 9},
    {SYMM_MATMUL_REDUCE_SCATTER, SYMM_STRATEGY_UNFUSED, 48, 40},
    {SYMM_MATMUL_ALL_REDUCE, SYMM_STRATEGY_UNFUSED, 37, 40},
};

static struct matmul_case case_of(const struct kind *kind, uint64_t layout)
{
    return (struct matmul_case){
        .kind = kind->kind,
        .strategy = kind->strategy,
        .in = layout % 2 ? SYMM_BFLOAT16 : SYMM_FLOAT16,
        .out = SYMM_FLOAT32,
        .addend = SYMM_FLOAT32,
        .m = kind->m,
        .k = kind->k,
        .l = 1,
        .nb = 1,
        .n = {5},
        .gathered = kind->kind == SYMM_ALL_GATHER_MATMUL && layout % 3 == 0,
        .whole = true,
        .contiguous = layout % 2,
        .layout = layout,
    };
}

/* A rank's world with two streams. */
struct bench {
    symm_context *ctx;
    symm_group *world;
    symm_stream streams[2];
};

static symm_status bench_open(struct rank *self, struct bench *b)
{
    RANK_TRY(self, rank_join(self, &b->ctx));
    b->world = symm_context_world(b->ctx);
    for (int i = 0; i < 2; i++)
        RANK_TRY(self, symm_stream_create(b->ctx, &b->streams[i]));
out:
    return self->report->status;
}

static void bench_close(struct bench *b)
{
    for (int i = 0; i < 2; i++)
        symm_stream_destroy(b->streams[i]);
    symm_context_destroy(b->ctx);
}

/* --------------------------------------------------------------------------------- back to back */

/* Copies of all memory after each run, in device memory. */
struct copies {
    char *at[TRAIN][MATMUL_REGIONS];
};

static symm_status alloc_copies(struct rank *self, const struct matmul_job *job, struct copies *out)
{
    for (int t = 0; t < TRAIN; t++)
        for (int i = 0; i < MATMUL_REGIONS; i++)
            RANK_TRY(self, symm_device_alloc(job->ctx, job->nbytes[i], (void **)&out->at[t][i]));
out:
    return self->report->status;
}

static void free_copies(symm_context *ctx, struct copies *copies)
{
    for (int t = 0; t < TRAIN; t++)
        for (int i = 0; i < MATMUL_REGIONS; i++)
            if (copies->at[t][i])
                symm_device_free(ctx, copies->at[t][i]);
    *copies = (struct copies){{{NULL}}};
}

static symm_status save_copy(struct rank *self, const struct matmul_job *job, char *const *to,
                             symm_stream stream)
{
    for (int i = 0; i < MATMUL_REGIONS; i++)
        RANK_TRY(self, symm_copy(to[i], job->device[i], job->nbytes[i], stream));
out:
    return self->report->status;
}

/* How the runs of a train are enqueued. */
enum how { EAGER, TWO_STREAMS, GRAPH, GRAPH_AND_EAGER, NHOWS };

/* One product; with two streams, each has operands of its own. */
struct train {
    enum how how;
    struct matmul_job jobs[2];
    struct copies copies;
    symm_graph graph;
};

static void close_train(struct bench *b, struct train *t)
{
    symm_graph_destroy(t->graph);
    t->graph = NULL;
    t->jobs[1].m = NULL; /* it belongs to jobs[0] */
    free_copies(b->ctx, &t->copies);
    for (int i = 0; i < 2; i++)
        matmul_job_close(&t->jobs[i]);
}

static symm_status open_train(struct rank *self, struct bench *b, const struct matmul_case *c,
                              struct train *t)
{
    for (int i = 0; i < 2; i++)
        RANK_TRY(self, matmul_job_open(self, b->ctx, b->world, c, &t->jobs[i]));
    RANK_TRY(self, alloc_copies(self, &t->jobs[0], &t->copies));
    RANK_TRY(self, matmul_job_create(self, &t->jobs[0]));
    t->jobs[1].m = t->jobs[0].m;
    if (t->how != GRAPH && t->how != GRAPH_AND_EAGER)
        return SYMM_OK;
    RANK_TRY(self, symm_graph_begin(b->streams[0]));
    RANK_TRY(self, matmul_job_run(self, &t->jobs[0], b->streams[0]));
    RANK_TRY(self, symm_graph_end(b->streams[0], &t->graph));
out:
    return self->report->status;
}

/* Enqueues run i on a stream: 0, or alternately 0 and 1. */
static symm_status enqueue(struct rank *self, struct bench *b, struct train *t, int i, int stream)
{
    if (t->how == GRAPH || (t->how == GRAPH_AND_EAGER && i % 3))
        RANK_TRY(self, symm_graph_launch(t->graph, b->streams[0]));
    else
        RANK_TRY(self, matmul_job_run(self, &t->jobs[stream], b->streams[stream]));
out:
    return self->report->status;
}

/* Checks the copies. Fills all inputs again: the host has those of the last run only. */
static symm_status check_copies(struct rank *self, struct bench *b, struct train *t, uint64_t first)
{
    struct matmul_job *job = &t->jobs[0];

    for (int i = 0; i < TRAIN; i++) {
        job->round = first + (uint64_t)i;
        matmul_fill(job, self->rank, self->nranks, job->sent);
        RANK_TRY(self, matmul_job_fetch(self, job, t->copies.at[i], b->streams[0]));
        RANK_TRY(self, matmul_job_look(self, job));
    }
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

static symm_status run_train(struct rank *self, struct bench *b, struct train *t, uint64_t first)
{
    for (int i = 0; i < TRAIN; i++) {
        const int stream = t->how == TWO_STREAMS ? i % 2 : 0;
        struct matmul_job *job = &t->jobs[stream];
        exercise_dawdle(self, first + (uint64_t)i);
        RANK_TRY(self, matmul_job_send(self, job, first + (uint64_t)i, b->streams[stream]));
        RANK_TRY(self, enqueue(self, b, t, i, stream));
        RANK_TRY(self, save_copy(self, job, t->copies.at[i], b->streams[stream]));
    }
    RANK_TRY(self, symm_synchronize(b->world, b->streams[1]));
    RANK_TRY(self, check_copies(self, b, t, first));
out:
    return self->report->status;
}

RANK_WITH(run_trains, struct bench, b, bench_open, bench_close)
{
    struct train t = {.how = *(enum how *)arg};

    for (uint64_t i = 0; i < NKINDS; i++) {
        struct matmul_case c = case_of(&kinds[i], 300 + i);
        if (t.how == TWO_STREAMS)
            c.data = MATMUL_IN_ARGS;
        RANK_TRY(self, open_train(self, b, &c, &t));
        RANK_TRY(self, run_train(self, b, &t, 100 * i));
        close_train(b, &t);
    }
out:
    close_train(b, &t);
}

static const int train_worlds[] = {2, 3, 4, 8};

/* World i % 4; the senders are SMs for i < 4, else copy engines. */
static void follow(enum how how, int i)
{
    setenv("SYMM_CHECK", "0", 1);
    if (i >= 4)
        setenv("SYMM_MATMUL_ENGINE_BYTES", "1", 1);
    ranks_run_ok(train_worlds[i % 4], RANKS_AS_PROCESSES, run_trains, &how, 120);
}

TEST_GROUP(trains, 250);

TEST_LOOP(trains, runs_follow_each_other_without_a_pause, 0, 6)
{
    follow(EAGER, _i);
}

TEST_LOOP(trains, runs_on_two_streams_follow_each_other, 0, 6)
{
    follow(TWO_STREAMS, _i);
}

TEST_LOOP(trains, graphs_are_replayed_without_a_pause, 1, 3)
{
    follow(GRAPH, _i);
}

TEST_LOOP(trains, graphs_are_replayed_between_eager_runs, 1, 6)
{
    follow(GRAPH_AND_EAGER, _i);
}

TEST_GROUP(threads, 250);

TEST_LOOP(threads, ranks_may_be_threads, 0, 2 * NHOWS)
{
    setenv("SYMM_CHECK", "0", 1);
    if (_i >= NHOWS)
        setenv("SYMM_MATMUL_ENGINE_BYTES", "1", 1);
    ranks_run_ok(3, RANKS_AS_THREADS, run_trains, &(enum how){(enum how)(_i % NHOWS)}, 120);
}

TEST_LOOP(trains, weakly_ordered_memory_makes_no_difference, 0, 3)
{
    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    matmul_weaken_memory(_i);
    follow(_i % 2 ? GRAPH_AND_EAGER : EAGER, 1 + _i / 2 * 4);
}

/* --------------------------------------------------------------------------- two groups at once */

/* Pairs of all kinds. few_wait: none of which many blocks wait for other ranks. */
static void run_two_groups(int nranks, bool few_wait, int apart_ms)
{
    struct matmul_case cases[NKINDS][2];

    setenv("SYMM_CHECK", "0", 1); /* it demands one order of calls */
    for (uint64_t i = 0; i < NKINDS; i++)
        for (uint64_t g = 0; g < 2; g++) {
            cases[i][g] = case_of(&kinds[(i + 3 * g) % NKINDS], 400 + i);
            if (few_wait &&
                (matmul_collects(&cases[i][g]) || cases[i][g].strategy == SYMM_STRATEGY_UNFUSED)) {
                cases[i][g].kind = SYMM_ALL_GATHER_MATMUL;
                cases[i][g].strategy = SYMM_STRATEGY_FUSED;
            }
        }
    struct matmul_pairs pairs = {.cases = (const struct matmul_case(*)[2])cases,
                                 .ncases = NKINDS,
                                 .rounds = 4,
                                 .graphs = true,
                                 .apart_ms = apart_ms};
    ranks_run_ok(nranks, RANKS_AS_PROCESSES, matmul_run_pairs, &pairs, 120);
}

TEST_LOOP(trains, two_groups_run_at_once_on_two_streams, 0, 6)
{
    if (_i >= 4)
        setenv("SYMM_MATMUL_ENGINE_BYTES", "1", 1);
    run_two_groups(train_worlds[_i % 4], false, 0);
}

/*
 * Their products fill the device: two or three SMs with one slot for blocks each. Of three, a block
 * of the second product waits for a slot. The kernels that wait and send beside the products, two
 * per group, have slots for one warp, two per SM.
 */
TEST_LOOP(trains, two_groups_run_on_few_SMs, 0, 4)
{
    setenv("SYMM_EMULATED_SMS", _i < 2 ? "2" : "3", 1);
    setenv("SYMM_EMULATED_PLACES", "1", 1);
    run_two_groups(3, true, _i % 2 * 2);
}
