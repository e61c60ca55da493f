/*
 * Products whose ranks die or give up, or whose driver fails: the others are told in time, what was
 * said to be right is right, and what was healthy still works.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "matmul_bench.h"
#include "matmul_loss.h"
#include "matmul_signals.h"
#include "test.h"

enum { BAD_RANK = 1, TRIO = 3 };

static const symm_strategy strategies[] = {SYMM_STRATEGY_FUSED, SYMM_STRATEGY_PIPELINED,
                                           SYMM_STRATEGY_UNFUSED};
enum { NSTRATEGIES = sizeof strategies / sizeof strategies[0] };

static void lose_in_time(struct matmul_loss loss)
{
    int64_t took = INT64_MAX;

    setenv("SYMM_CHECK", "0", 1);
    for (int attempt = 0; attempt < 3 && took >= 1000; attempt++) /* the machine may be busy */
        took = matmul_lose_the_last(&loss, TRIO);
    ck_assert_msg(took < 1000, "told after %lld ms", (long long)took);
}

TEST_GROUP(end, 120);

TEST_LOOP(end, the_others_are_told_within_a_second, 0, 4 * NSTRATEGIES - 2)
{
    struct matmul_loss loss = {.c = matmul_works, .gives_up = _i % 2 == 0, .burst = 1};

    loss.c.strategy = strategies[_i / 2 % NSTRATEGIES];
    if (_i >= 2 * NSTRATEGIES)
        setenv("SYMM_MATMUL_ENGINE_BYTES", "1", 1);
    lose_in_time(loss);
}

TEST_LOOP(end, the_others_are_told_among_replays, 0, 2)
{
    struct matmul_loss loss = {.c = matmul_works, .burst = 20, .replayed = true};

    loss.c.strategy = SYMM_STRATEGY_FUSED;
    if (_i)
        setenv("SYMM_MATMUL_ENGINE_BYTES", "1", 1);
    lose_in_time(loss);
}

/* A group whose ranks go on without it: the world and its products are as they were. */
static void abort_a_group(struct rank *self, void *arg)
{
    struct matmul_job job = {0};
    struct matmul_bench b = {0};
    symm_group *g = NULL;
    int ranks[TRIO] = {0, 1, 2};
    (void)arg;

    if (matmul_bench_open(self, &b, &matmul_works) != SYMM_OK ||
        matmul_bench_works(self, &b) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_group_create(b.world, TRIO, ranks, &g));
    if (matmul_job_open(self, b.ctx, g, &matmul_works, &job) != SYMM_OK ||
        matmul_job_create(self, &job) != SYMM_OK)
        goto out;
    const symm_matmul_args args = matmul_job_args(&job);
    if (self->rank == BAD_RANK)
        symm_abort(g, "a test");
    else
        for (int i = 0; i < 3 && symm_matmul_run(job.m, &args, b.stream) == SYMM_OK; i++)
            ;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "a test", symm_synchronize(g, b.stream));
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm_matmul_run(job.m, &args, b.stream));
    matmul_job_close(&job);
    symm_group_destroy(g);
    g = NULL;
    matmul_bench_works(self, &b);
out:
    matmul_job_close(&job);
    symm_group_destroy(g);
    matmul_bench_close(&b);
}

TEST(end, a_group_that_has_ended_leaves_the_world_as_it_was)
{
    setenv("SYMM_CHECK", "0", 1);
    ranks_run_ok(TRIO, RANKS_AS_PROCESSES, abort_a_group, NULL, 60);
}

/* The others wait until they may send when the last one, which never says so, gives up. */
static void give_up_early(struct rank *self, void *arg)
{
    struct matmul_case c = matmul_works;
    struct matmul_job job = {0};
    struct matmul_bench b = {0};
    symm_group *g = NULL;
    int ranks[TRIO] = {0, 1, 2};
    (void)arg;

    c.strategy = SYMM_STRATEGY_FUSED;
    if (matmul_bench_open(self, &b, &c) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_group_create(b.world, TRIO, ranks, &g));
    if (matmul_job_open(self, b.ctx, g, &c, &job) != SYMM_OK ||
        matmul_job_create(self, &job) != SYMM_OK)
        goto out;
    const symm_matmul_args args = matmul_job_args(&job);
    const uint32_t before = matmul_signals_here(job.m);
    if (self->rank != TRIO - 1)
        RANK_TRY(self, symm_matmul_run(job.m, &args, b.stream));
    RANK_TRY(self, symm_exchange(b.world, NULL, 0, NULL));
    pause_ms(20);
    if (self->rank == TRIO - 1)
        symm_abort(g, "a test");
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "a test", symm_synchronize(g, b.stream));
    RANK_TRY(self, symm_exchange(b.world, NULL, 0, NULL));
    CHECK_RANK_MSG(self, matmul_signals_here(job.m) == before, "%u signals",
                   matmul_signals_here(job.m) - before);
out:
    matmul_job_close(&job);
    symm_group_destroy(g);
    matmul_bench_close(&b);
}

TEST_LOOP(end, nobody_hears_of_rows_after_an_abort, 0, 2)
{
    setenv("SYMM_CHECK", "0", 1);
    if (_i)
        setenv("SYMM_MATMUL_ENGINE_BYTES", "1", 1);
    ranks_run_ok(TRIO, RANKS_AS_PROCESSES, give_up_early, NULL, 60);
}

/*
 * A driver call of rank 0 fails, at every place of a run in a capture, which can be ended. Another
 * capture has the side streams, so that it needs new ones.
 */
static void fail_in_captures(struct rank *self, void *arg)
{
    static const char *const calls[] = {"cuStreamCreateWithPriority", "cuMemcpyAsync",
                                        "cuLaunchKernelEx"};
    bool (*set_fault)(const char *) = NULL;
    struct matmul_case c = matmul_works;
    struct matmul_bench b = {0};
    symm_graph other = NULL, graph = NULL;
    symm_stream stream = NULL;
    char fault[64];
    (void)arg;

    c.strategy = SYMM_STRATEGY_FUSED;
    if (matmul_bench_open(self, &b, &c) != SYMM_OK || matmul_job_create(self, &b.job) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_stream_create(b.ctx, &stream));
    RANK_TRY(self, symm_graph_begin(stream));
    if (matmul_job_run(self, &b.job, stream) != SYMM_OK)
        goto out;
    *(void **)&set_fault = symm_context_driver_symbol(b.ctx, "symm_emulated_set_fault");
    const symm_matmul_args args = matmul_job_args(&b.job);
    for (int i = 0; i < 3; i++)
        for (int n = 1; n <= 4; n++) {
            RANK_TRY(self, symm_graph_begin(b.stream));
            snprintf(fault, sizeof fault, "%s@0#%d=2", calls[i], n);
            set_fault(fault);
            const symm_status st = symm_matmul_run(b.job.m, &args, b.stream);
            set_fault(NULL);
            CHECK_RANK(self, st == SYMM_OK || (self->rank == 0 && st == SYMM_ERROR_MEMORY));
            self->report->value[1 + i] += st != SYMM_OK;
            RANK_TRY(self, symm_graph_end(b.stream, &graph));
            symm_graph_destroy(graph);
            graph = NULL;
        }
    RANK_TRY(self, symm_graph_end(stream, &other));
    CHECK_RANK(self, self->rank || (self->report->value[1] > 0 && self->report->value[3] > 2));
    matmul_bench_works(self, &b);
out:
    symm_graph_destroy(other);
    symm_graph_destroy(graph);
    symm_stream_destroy(stream);
    matmul_bench_close(&b);
}

TEST_LOOP(end, a_failure_in_a_capture_leaves_no_stream_unjoined, 0, 2)
{
    setenv("SYMM_CHECK", "0", 1);
    if (_i)
        setenv("SYMM_MATMUL_ENGINE_BYTES", "1", 1);
    ranks_run_ok(TRIO, RANKS_AS_PROCESSES, fail_in_captures, NULL, 60);
}
