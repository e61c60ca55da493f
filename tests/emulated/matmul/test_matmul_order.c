/*
 * Runs of products that follow each other: without a pause, on two streams, of two groups, from
 * graphs and between their replays, with ranks that are late. Inputs change with every run, and
 * what a run has written is copied away before the next.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "matmul_pair.h"
#include "reference.h"
#include "test.h"

enum { TRAIN = 6, NWAYS = 8 };

/* How a case's products run. */
struct way {
    symm_strategy strategy;
    int32_t m, k;
};

static const struct way ways[NWAYS] = {
    {SYMM_STRATEGY_FUSED, 37, 40},     {SYMM_STRATEGY_FUSED, 700, 8},
    {SYMM_STRATEGY_PIPELINED, 37, 40}, {SYMM_STRATEGY_PIPELINED, 300, 9},
    {SYMM_STRATEGY_UNFUSED, 37, 40},   {SYMM_STRATEGY_UNFUSED, 130, 9},
    {SYMM_STRATEGY_FUSED, 3, 24},      {SYMM_STRATEGY_AUTO, 200, 33},
};

static struct matmul_case case_of(const struct way *way, uint64_t layout)
{
    return (struct matmul_case){
        .kind = SYMM_ALL_GATHER_MATMUL,
        .strategy = way->strategy,
        .in = layout % 2 ? SYMM_BFLOAT16 : SYMM_FLOAT16,
        .out = SYMM_FLOAT32,
        .addend = SYMM_FLOAT32,
        .m = way->m,
        .k = way->k,
        .l = 1,
        .nb = 1,
        .n = {5},
        .gathered = layout % 3 == 0,
        .whole = true,
        .contiguous = layout % 2,
        .layout = layout,
    };
}

/* A rank's world, and what most cases need. */
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

/* What runs have left, in device memory. */
struct copies {
    char *at[TRAIN][MATMUL_REGIONS];
};

static symm_status make_copies(struct rank *self, const struct matmul_job *job, struct copies *out)
{
    for (int t = 0; t < TRAIN; t++)
        for (int i = 0; i < MATMUL_REGIONS; i++)
            RANK_TRY(self, symm_device_alloc(job->ctx, job->nbytes[i], (void **)&out->at[t][i]));
out:
    return self->report->status;
}

static void unmake_copies(symm_context *ctx, struct copies *copies)
{
    for (int t = 0; t < TRAIN; t++)
        for (int i = 0; i < MATMUL_REGIONS; i++)
            if (copies->at[t][i])
                symm_device_free(ctx, copies->at[t][i]);
    *copies = (struct copies){{{NULL}}};
}

static symm_status copy_away(struct rank *self, const struct matmul_job *job, char *const *to,
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

static void unmake_train(struct bench *b, struct train *t)
{
    symm_graph_destroy(t->graph);
    t->graph = NULL;
    t->jobs[1].m = NULL; /* it is that of the first */
    if (b->ctx)
        unmake_copies(b->ctx, &t->copies);
    for (int i = 0; i < 2; i++)
        matmul_job_close(&t->jobs[i]);
}

static symm_status make_train(struct rank *self, struct bench *b, const struct matmul_case *c,
                              struct train *t)
{
    for (int i = 0; i < 2; i++)
        if (matmul_job_open(self, b->ctx, b->world, c, &t->jobs[i]) != SYMM_OK)
            goto out;
    if (make_copies(self, &t->jobs[0], &t->copies) != SYMM_OK ||
        matmul_job_create(self, &t->jobs[0]) != SYMM_OK)
        goto out;
    t->jobs[1].m = t->jobs[0].m;
    if (t->how != GRAPH && t->how != GRAPH_AND_EAGER)
        return SYMM_OK;
    RANK_TRY(self, symm_graph_begin(b->streams[0]));
    matmul_job_run(self, &t->jobs[0], b->streams[0]);
    RANK_TRY(self, symm_graph_end(b->streams[0], &t->graph));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

static symm_status enqueue(struct rank *self, struct bench *b, struct train *t, int i)
{
    if (t->how == GRAPH || (t->how == GRAPH_AND_EAGER && i % 3)) {
        RANK_TRY(self, symm_graph_launch(t->graph, b->streams[0]));
        return SYMM_OK;
    }
    return matmul_job_run(self, &t->jobs[t->how == TWO_STREAMS ? i % 2 : 0],
                          b->streams[t->how == TWO_STREAMS ? i % 2 : 0]);
out:
    return self->report->status;
}

/* Then what was sent is made again for the look: the host has that of the last run. */
static symm_status run_train(struct rank *self, struct bench *b, struct train *t, uint64_t first)
{
    for (int i = 0; i < TRAIN; i++) {
        const int which = t->how == TWO_STREAMS ? i % 2 : 0;
        struct matmul_job *job = &t->jobs[which];
        exercise_dawdle(self, first + (uint64_t)i);
        if (matmul_job_send(self, job, first + (uint64_t)i, b->streams[which]) != SYMM_OK ||
            enqueue(self, b, t, i) != SYMM_OK ||
            copy_away(self, job, t->copies.at[i], b->streams[which]) != SYMM_OK)
            goto out;
    }
    RANK_TRY(self, symm_synchronize(b->world, b->streams[1]));
    for (int i = 0; i < TRAIN; i++) {
        struct matmul_job *job = &t->jobs[0];
        job->round = first + (uint64_t)i;
        matmul_fill(job, self->rank, self->nranks, job->sent);
        if (matmul_job_fetch(self, job, t->copies.at[i], b->streams[0]) != SYMM_OK ||
            matmul_job_look(self, job) != SYMM_OK)
            goto out;
    }
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

static void run_trains(struct rank *self, void *arg)
{
    struct train t = {.how = *(enum how *)arg};
    struct bench b = {0};

    if (bench_open(self, &b) != SYMM_OK)
        goto out;
    for (uint64_t w = 0; w < NWAYS; w++) {
        struct matmul_case c = case_of(&ways[w], 300 + w);
        if (t.how == TWO_STREAMS)
            c.data = MATMUL_IN_ARGS;
        if (make_train(self, &b, &c, &t) != SYMM_OK)
            goto out;
        if (run_train(self, &b, &t, 100 * w) != SYMM_OK)
            goto out;
        unmake_train(&b, &t);
    }
out:
    unmake_train(&b, &t);
    bench_close(&b);
}

static const int train_worlds[] = {2, 3, 4, 8};

/* All ways of enqueuing, by blocks; with two of the worlds again by copy engines. */
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

/* The more often blocks give way, the more of what may happen does. */
TEST_LOOP(trains, weakly_ordered_memory_makes_no_difference, 0, 3)
{
    char seed[16];

    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    snprintf(seed, sizeof seed, "%d", 1 + (int)(reference_seed() % 10000) + _i);
    setenv("SYMM_EMULATED_SEED", seed, 1);
    setenv("SYMM_EMULATED_WEAK", "1", 1);
    setenv("SYMM_EMULATED_BLOCK", "32", 1);
    follow(_i % 2 ? GRAPH_AND_EAGER : EAGER, 1 + _i / 2 * 4);
}

/* --------------------------------------------------------------------------- two groups at once */

/* Two ways at a time; `beside`: with no all-gather, whose blocks are many and wait. */
static void run_two_groups(int nranks, bool beside, int apart_ms)
{
    struct matmul_case cases[NWAYS][2];

    setenv("SYMM_CHECK", "0", 1); /* which has one order of calls in mind */
    for (uint64_t w = 0; w < NWAYS; w++)
        for (uint64_t g = 0; g < 2; g++) {
            cases[w][g] = case_of(&ways[(w + 3 * g) % NWAYS], 400 + w);
            if (beside && cases[w][g].strategy == SYMM_STRATEGY_UNFUSED)
                cases[w][g].strategy = SYMM_STRATEGY_FUSED;
        }
    struct matmul_pairs pairs = {.cases = (const struct matmul_case(*)[2])cases,
                                 .ncases = NWAYS,
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
 * Their products fill the device: one multiprocessor with two places for blocks, or three with one,
 * where the second product has a block that waits for room. What sends rows has room for a warp.
 */
TEST_LOOP(trains, two_groups_run_on_few_multiprocessors, 0, 4)
{
    setenv("SYMM_EMULATED_SMS", _i < 2 ? "1" : "3", 1);
    setenv("SYMM_EMULATED_PLACES", _i < 2 ? "2" : "1", 1);
    run_two_groups(3, true, _i % 2 * 2);
}
