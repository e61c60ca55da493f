/*
 * Products whose ranks die or give up, or whose driver fails in a capture: the other ranks get the
 * error in time, results that were reported as OK are right, and other groups still work.
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

/* SMs send rows, or copy engines. */
static const char *const engine_bytes[] = {"1G", "1"};

TEST_GROUP(end, 120);

static void lose_in_time(struct matmul_loss loss, int sender)
{
    int64_t took = INT64_MAX;

    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_MATMUL_ENGINE_BYTES", engine_bytes[sender], 1);
    for (int attempt = 0; attempt < 3 && took >= 1000; attempt++) /* the machine may be busy */
        took = matmul_lose_the_last(&loss, TRIO);
    ck_assert_msg(took < 1000, "told after %lld ms", (long long)took);
}

/* Each strategy by SMs, then those whose rows copy engines may send. */
TEST_LOOP(end, the_others_are_told_within_a_second, 0, 4 * NSTRATEGIES - 2)
{
    struct matmul_loss loss = {.c = matmul_works, .gives_up = _i % 2 == 0, .burst = 1};

    loss.c.strategy = strategies[_i / 2 % NSTRATEGIES];
    lose_in_time(loss, _i / 2 / NSTRATEGIES);
}

/* Each kind whose results are collected: a rank gives up, or is killed. */
TEST_LOOP(end, the_others_are_told_while_they_collect, 0, 12)
{
    struct matmul_loss loss = {.c = matmul_works, .gives_up = _i % 2 == 0, .burst = 1};

    loss.c.kind = (symm_matmul_kind)(SYMM_MATMUL_REDUCE_SCATTER + _i / 2 % 3);
    loss.c.strategy = _i < 6 ? SYMM_STRATEGY_UNFUSED : SYMM_STRATEGY_FUSED;
    loss.c.gathered = false;
    lose_in_time(loss, 0);
}

/* While the product waits for packs of sums, or the kernel behind it does. */
TEST_LOOP(end, the_others_are_told_while_packs_are_missing, 0, 4)
{
    struct matmul_loss loss = {.c = matmul_works, .gives_up = _i % 2 == 0, .burst = 2};

    loss.c.kind = SYMM_MATMUL_ALL_REDUCE;
    loss.c.strategy = SYMM_STRATEGY_FUSED;
    loss.c.has_c = loss.c.has_bias = loss.c.gathered = false;
    loss.c.beta = NULL;
    loss.c.n[0] = loss.c.n[1] = _i < 2 ? 64 : 63; /* suits the Hopper kernel, or not */
    lose_in_time(loss, 0);
}

/* While blocks beside the product, or behind it, wait for those of the other ranks. */
TEST_LOOP(end, the_others_are_told_while_bands_are_missing, 0, 4)
{
    struct matmul_loss loss = {.c = matmul_works, .gives_up = _i % 2 == 0, .burst = 2};

    setenv("SYMM_MATMUL_SPLIT", "0", 1);
    setenv("SYMM_EMULATED_EARLY", _i < 2 ? "1" : "0", 1);
    loss.c.kind = SYMM_MATMUL_ALL_REDUCE;
    loss.c.strategy = SYMM_STRATEGY_FUSED;
    loss.c.any_order = true;
    loss.c.has_c = loss.c.has_bias = loss.c.gathered = false;
    loss.c.beta = NULL;
    loss.c.n[0] = loss.c.n[1] = 64;
    lose_in_time(loss, 0);
}

TEST_LOOP(end, the_others_are_told_among_replays, 0, 2)
{
    struct matmul_loss loss = {.c = matmul_works, .burst = 20, .replayed = true};

    loss.c.strategy = SYMM_STRATEGY_FUSED;
    lose_in_time(loss, _i);
}

MATMUL_TEST(end, a_group_that_has_ended_leaves_the_world_as_it_was, TRIO,
            .env = {{"SYMM_CHECK", "0"}})
{
    struct matmul_group group = {0};
    struct matmul_job *job = &group.job;

    RANK_TRY(self, matmul_group_open(self, b, &matmul_works, &group));
    RANK_TRY(self, matmul_job_create(self, job));
    const symm_matmul_args args = matmul_job_args(job);
    if (self->rank == BAD_RANK)
        symm_abort(group.g, "a test");
    else
        for (int i = 0; i < 3 && symm_matmul_run(job->m, &args, b->stream) == SYMM_OK; i++)
            ;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "a test", symm_synchronize(group.g, b->stream));
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm_matmul_run(job->m, &args, b->stream));
out:
    matmul_group_close(&group);
}

/* The last rank gives up, and has not signalled that the others may send. */
MATMUL_TEST(end, no_rows_are_signalled_after_an_abort, TRIO,
            .env = {{"SYMM_CHECK", "0"}, {"SYMM_MATMUL_ENGINE_BYTES", engine_bytes[_i]}},
            .loop = {0, 2})
{
    const bool gives_up = self->rank == TRIO - 1;
    struct matmul_case c = matmul_works;
    struct matmul_group group = {0};
    struct matmul_job *job = &group.job;

    c.strategy = SYMM_STRATEGY_FUSED;
    RANK_TRY(self, matmul_group_open(self, b, &c, &group));
    RANK_TRY(self, matmul_job_create(self, job));
    const symm_matmul_args args = matmul_job_args(job);
    const uint32_t before = matmul_signals_here(job->m);
    if (!gives_up)
        RANK_TRY(self, symm_matmul_run(job->m, &args, b->stream));
    RANK_TRY(self, symm_exchange(b->world, NULL, 0, NULL));
    pause_ms(20);
    if (gives_up)
        symm_abort(group.g, "a test");
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "a test", symm_synchronize(group.g, b->stream));
    RANK_TRY(self, symm_exchange(b->world, NULL, 0, NULL));
    CHECK_RANK_MSG(self, matmul_signals_here(job->m) == before, "%u signals",
                   matmul_signals_here(job->m) - before);
out:
    matmul_group_close(&group);
}

/*
 * A driver call of rank 0 fails, at every place of a run in a capture, which can be ended. Another
 * capture holds the side streams, so the run creates new ones.
 */
MATMUL_TEST(end, a_failure_in_a_capture_leaves_no_stream_unjoined, TRIO,
            .env = {{"SYMM_CHECK", "0"}, {"SYMM_MATMUL_ENGINE_BYTES", engine_bytes[_i]}},
            .loop = {0, 2})
{
    static const char *const calls[] = {"cuStreamCreateWithPriority", "cuMemcpyAsync",
                                        "cuLaunchKernelEx"};
    bool (*set_fault)(const char *) = NULL;
    struct matmul_case c = matmul_works;
    symm_graph other = NULL, graph = NULL;
    symm_stream stream = NULL;
    char fault[64];

    c.strategy = SYMM_STRATEGY_FUSED;
    RANK_TRY(self, matmul_bench_change(self, b, &c));
    RANK_TRY(self, symm_stream_create(b->ctx, &stream));
    RANK_TRY(self, symm_graph_begin(stream));
    RANK_TRY(self, matmul_job_run(self, &b->job, stream));
    *(void **)&set_fault = symm_context_driver_symbol(b->ctx, "symm_emulated_set_fault");
    const symm_matmul_args args = matmul_job_args(&b->job);
    for (int i = 0; i < 3; i++)
        for (int n = 1; n <= 4; n++) {
            RANK_TRY(self, symm_graph_begin(b->stream));
            snprintf(fault, sizeof fault, "%s@0#%d=2", calls[i], n);
            set_fault(fault);
            const symm_status st = symm_matmul_run(b->job.m, &args, b->stream);
            set_fault(NULL);
            CHECK_RANK(self, st == SYMM_OK || (self->rank == 0 && st == SYMM_ERROR_MEMORY));
            self->report->value[1 + i] += st != SYMM_OK;
            RANK_TRY(self, symm_graph_end(b->stream, &graph));
            symm_graph_destroy(graph);
            graph = NULL;
        }
    RANK_TRY(self, symm_graph_end(stream, &other));
    CHECK_RANK(self, self->rank || (self->report->value[1] > 0 && self->report->value[3] > 2));
out:
    symm_graph_destroy(other);
    symm_graph_destroy(graph);
    symm_stream_destroy(stream);
}
