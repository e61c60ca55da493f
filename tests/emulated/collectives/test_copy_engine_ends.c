/* Calls by copy engines that are refused, differ, or end with their group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "copy_call.h"
#include "emulated.h"
#include "exercise.h"
#include "leaks.h"
#include "reference.h"
#include "test.h"
#include "world.h"

enum { COUNT = 1500 }; /* elements of a call, at most */

/* ---- Refused calls ---- */

static const symm_options engine = {.algo = SYMM_ALGO_COPY_ENGINE},
                          promise = {.flags = SYMM_SYMMETRIC};

TEST_GROUP(calls, 240);

#define REFUSED(part, call) RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, part, call)

WORLD_TEST(calls, memory_that_is_not_symmetric_is_refused, 2)
{
    const symm_dtype f = SYMM_FLOAT32;
    struct copy_buffers b = {0};

    RANK_TRY(self, copy_open(ctx, world, s, 4096, &b));
    for (int i = 0; i < 2; i++) {
        const symm_options *o = i ? &promise : &engine;
        REFUSED("out must be", symm_all_reduce(world, b.in, b.own_out, 8, f, SYMM_SUM, o, s));
        REFUSED("out must be", symm_all_reduce(world, b.own_in, b.own_in, 8, f, SYMM_SUM, o, s));
        REFUSED("out must be", symm_all_gather(world, b.in, b.own_out, 8, f, o, s));
    }
    REFUSED("flags", symm_all_gather(world, b.in, b.out, 8, f, &(symm_options){.flags = 8}, s));
    CHECK_RANK(self, !symm_all_gather_unavailable(world, SYMM_ALGO_COPY_ENGINE, SYMM_UINT8));
    CHECK_RANK(self,
               symm_all_reduce_unavailable(world, SYMM_ALGO_COPY_ENGINE, SYMM_UINT8, SYMM_SUM));
    for (uint64_t i = 0; i < 2 * COLLECTIVE_OPERATIONS; i++) {
        struct copy_call c = copy_draw(i, 100);
        c.options = i % 2 ? engine : promise; /* any choice of auto is right */
        c.elsewhere = true;
        RANK_TRY(self, copy_run(self, &c, &b));
    }
out:
    copy_close(&b);
}

/* Rank 1's output is at another offset, or it makes another call. */
enum difference {
    OTHER_PLACE,
    OTHER_COUNT,
    OTHER_OPERATION,
    OTHER_ALGORITHM,
    OTHER_ROOT,
    NDIFFERENCES
};

WORLD_TEST(calls, different_calls_and_places_are_a_mismatch_on_all_ranks, 3, .arg = &(int){_i},
           .env = {{"SYMM_CHECK", "0"}, {"SYMM_TIMEOUT_MS", "3000"}}, .loop = {0, NDIFFERENCES})
{
    const int difference = self->rank == 1 ? *(int *)arg : NDIFFERENCES;
    const bool roots = *(int *)arg == OTHER_ROOT;
    struct copy_buffers b = {0}, used;
    struct copy_call c = {.operation = roots ? BROADCAST : ALL_REDUCE,
                          .dtype = SYMM_FLOAT32,
                          .count = 100,
                          .options = engine,
                          .round = 1};

    RANK_TRY(self, copy_open(ctx, world, s, 8192, &b));
    used = b;
    if (difference == OTHER_ROOT)
        c.root = 1;
    if (difference == OTHER_PLACE)
        used.out += 16;
    if (difference == OTHER_COUNT)
        c.count++;
    if (difference == OTHER_OPERATION)
        c.operation = ALL_GATHER;
    if (difference == OTHER_ALGORITHM)
        c.options.algo = SYMM_ALGO_TWO_SHOT;
    RANK_TRY(self, copy_enqueue(&c, &used));
    RANK_EXPECT(self, SYMM_ERROR_MISMATCH, symm_synchronize(world, s));
    if (*(int *)arg == OTHER_PLACE)
        RANK_TEXT(self, "made the same call with buffers at different places");
out:
    copy_close(&b);
}

/* ---- Aborts and failures ---- */

/* Rank 1 gives up while the others are in calls, eager and replayed, and perhaps itself. */
WORLD_TEST(calls, an_abort_ends_calls_and_leaves_nothing_behind, 2 + _i % 3,
           .arg = &(bool){_i >= 3}, .env = {{"SYMM_STAGING_BYTES", "8K"}}, .timeout_s = 60,
           .loop = {0, 6})
{
    const bool amid = *(const bool *)arg;
    struct copy_buffers b = {0}, of_g;
    struct copy_call c = copy_draw(COLLECTIVE_OPERATIONS, COUNT); /* an all-reduce */
    symm_group *g = NULL;
    symm_graph graph = NULL;

    RANK_TRY(self, group_of_all(world, &g));
    RANK_TRY(self, copy_open(ctx, world, s, COUNT * 8 * (size_t)self->nranks, &b));
    of_g = b;
    of_g.group = g;
    RANK_TRY(self, symm_graph_begin(s));
    RANK_TRY(self, copy_enqueue(&c, &of_g));
    RANK_TRY(self, symm_graph_end(s, &graph));
    RANK_TRY(self, copy_run(self, &c, &of_g));
    RANK_TRY(self, symm_exchange(g, NULL, 0, NULL)); /* all ranks have checked */
    for (int i = 0; i < 3 && (self->rank != 1 || amid); i++)
        RANK_TRY(self, symm_graph_launch(graph, s));
    for (int i = 0; i < 3 && self->rank != 1 && copy_enqueue(&c, &of_g) == SYMM_OK; i++)
        ;
    if (self->rank == 1) {
        pause_ms(amid ? 1 : 50);
        symm_abort(g, "a test");
    }
    const int64_t before = now_ms();
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm_synchronize(g, s));
    CHECK_RANK_MSG(self, now_ms() - before < 3000, "%lld ms", (long long)(now_ms() - before));
    symm_group_destroy(g);
    g = NULL;
    /* The world and its side streams still work. */
    RANK_TRY(self, symm_barrier(world, s));
    c.round = 77;
    RANK_TRY(self, copy_run(self, &c, &b));
out:
    symm_graph_destroy(graph);
    symm_group_destroy(g);
    copy_close(&b);
}

/* In the middle of a scatter, of a gather, and after those of the first chunk. */
static char half_way[][32] = {"cuMemcpyAsync@1#2=2", "cuMemcpyAsync@1#6=2", "cuMemcpyAsync@1#7=2",
                              "cuLaunchKernelEx@1#2=2"};

/* The driver refuses rank 1 a copy, so that it never enters the barrier of that chunk. */
WORLD_TEST(calls, a_rank_that_stops_half_way_is_named, 3, .arg = half_way[_i], .timeout_s = 60,
           .env = {{"SYMM_CHECK", "0"}, {"SYMM_STAGING_BYTES", "8K"}, {"SYMM_TIMEOUT_MS", "2000"}},
           .loop = {0, 4})
{
    struct copy_buffers b = {0};
    struct copy_call c = {.operation = ALL_REDUCE,
                          .dtype = SYMM_FLOAT32,
                          .count = 3 * COUNT,
                          .options = engine,
                          .round = 1};

    RANK_TRY(self, copy_open(ctx, world, s, 3 * COUNT * sizeof(float), &b));
    emulated_set_fault(arg);
    const symm_status st = copy_enqueue(&c, &b);
    emulated_set_fault(NULL);
    CHECK_RANK(self, st == (self->rank == 1 ? SYMM_ERROR_MEMORY : SYMM_OK));
    for (int i = 0; self->rank == 1 && i < 1000 && symm_check(world) == SYMM_OK; i++)
        pause_ms(10);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "for rank 1, pad", symm_synchronize(world, s));
out:
    copy_close(&b);
}

/* Rank 0's n-th call of each kind fails in a capture, which can be ended all the same. */
WORLD_TEST(calls, a_failure_in_a_capture_leaves_no_stream_unjoined, 3, .timeout_s = 60,
           .env = {{"SYMM_CHECK", "0"}, {"SYMM_STAGING_BYTES", "8K"}})
{
    static const char *const calls[] = {"cuStreamCreateWithPriority", "cuEventCreate",
                                        "cuMemcpyAsync", "cuLaunchKernelEx"};
    struct copy_buffers b = {0};
    symm_graph graph = NULL;
    char fault[64];

    RANK_TRY(self, copy_open(ctx, world, s, COUNT * 8 * (size_t)self->nranks, &b));
    for (int i = 0; i < 4; i++)
        for (int n = 1; n <= 4; n++) {
            struct copy_call c = copy_draw((uint64_t)(10 * i + n), COUNT);
            RANK_TRY(self, symm_graph_begin(s));
            snprintf(fault, sizeof fault, "%s@0#%d=2", calls[i], n);
            emulated_set_fault(fault);
            const symm_status st = copy_enqueue(&c, &b);
            emulated_set_fault(NULL);
            CHECK_RANK(self, st == SYMM_OK || (self->rank == 0 && st == SYMM_ERROR_MEMORY));
            self->report->value[1] += st != SYMM_OK;
            RANK_TRY(self, symm_graph_end(s, &graph));
            symm_graph_destroy(graph);
            graph = NULL;
        }
    CHECK_RANK(self, self->rank || self->report->value[1] > 3);
    for (uint64_t i = 1; i < 4; i++) {
        struct copy_call c = copy_draw(i, COUNT);
        RANK_TRY(self, copy_run(self, &c, &b));
    }
out:
    symm_graph_destroy(graph);
    copy_close(&b);
}
