/* Calls by copy engines that are refused, differ, or end with their group. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "copy_call.h"
#include "exercise.h"
#include "leaks.h"
#include "reference.h"
#include "test.h"

enum { COUNT = 1500 }; /* elements of a call, at most */

/* ---- Refused calls ---- */

static const symm_options engine = {.algo = SYMM_ALGO_COPY_ENGINE},
                          promise = {.flags = SYMM_SYMMETRIC};

#define REFUSED(part, call) RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, part, call)

static void call_without_symmetric_memory(struct rank *self, void *arg)
{
    struct copy_buffers b = {0};
    symm_context *ctx = NULL;
    symm_group *w = NULL;
    symm_stream s = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, copy_open(ctx, w, 4096, &b));
    const symm_dtype f = SYMM_FLOAT32;
    for (int i = 0; i < 2; i++) {
        const symm_options *o = i ? &promise : &engine;
        REFUSED("out must be", symm_all_reduce(w, b.in, b.own_out, 8, f, SYMM_SUM, o, s));
        REFUSED("out must be", symm_all_reduce(w, b.own_in, b.own_in, 8, f, SYMM_SUM, o, s));
        REFUSED("out must be", symm_all_gather(w, b.in, b.own_out, 8, f, o, s));
    }
    REFUSED("flags", symm_all_gather(w, b.in, b.out, 8, f, &(symm_options){.flags = 4}, s));
    CHECK_RANK(self, !symm_all_gather_unavailable(w, SYMM_ALGO_COPY_ENGINE, SYMM_UINT8));
    CHECK_RANK(self, symm_all_reduce_unavailable(w, SYMM_ALGO_COPY_ENGINE, SYMM_UINT8, SYMM_SUM));
    rank_note(self, SYMM_OK);
    for (uint64_t i = 0; i < 2 * COLLECTIVE_OPERATIONS; i++) {
        struct copy_call c = copy_draw(i, 100);
        c.options = i % 2 ? engine : promise; /* any choice of auto is right */
        c.elsewhere = true;
        RANK_TRY(self, copy_prepare(&c, &b, w, s));
        RANK_TRY(self, copy_enqueue(&c, &b, w, s));
        if (copy_check(self, &c, &b, w, s) != SYMM_OK)
            goto out;
    }
out:
    symm_stream_destroy(s);
    if (ctx)
        copy_close(ctx, w, &b);
    symm_context_destroy(ctx);
}

TEST_GROUP(calls, 240);

TEST(calls, memory_that_is_not_symmetric_is_refused)
{
    ranks_run_ok(2, RANKS_AS_PROCESSES, call_without_symmetric_memory, NULL, 30);
}

/* The buffer that rank 1 has elsewhere, or its other call. */
enum difference { OTHER_PLACE, OTHER_COUNT, OTHER_OPERATION, OTHER_ALGORITHM, NDIFFERENCES };

static void call_different_things(struct rank *self, void *arg)
{
    const enum difference difference = *(enum difference *)arg;
    const bool odd = self->rank == 1;
    struct copy_buffers b = {0};
    symm_context *ctx = NULL;
    symm_group *w = NULL;
    symm_stream s = NULL;
    struct copy_call c = {.operation = ALL_REDUCE,
                          .dtype = SYMM_FLOAT32,
                          .count = 100,
                          .options = engine,
                          .round = 1};

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, copy_open(ctx, w, 8192, &b));
    if (odd && difference == OTHER_PLACE)
        b.out += 16;
    if (odd && difference == OTHER_COUNT)
        c.count++;
    if (odd && difference == OTHER_OPERATION)
        c.operation = ALL_GATHER;
    if (odd && difference == OTHER_ALGORITHM)
        c.options.algo = SYMM_ALGO_TWO_SHOT;
    RANK_TRY(self, copy_enqueue(&c, &b, w, s));
    rank_note(self, symm_synchronize(w, s));
    if (odd && difference == OTHER_PLACE)
        b.out -= 16;
out:
    symm_stream_destroy(s);
    if (ctx)
        copy_close(ctx, w, &b);
    symm_context_destroy(ctx);
}

TEST_LOOP(calls, different_calls_and_places_are_a_mismatch_on_all_ranks, 0, NDIFFERENCES)
{
    struct rank_report reports[3];
    enum difference difference = (enum difference)_i;
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_TIMEOUT_MS", "3000", 1);
    ranks_run(3, RANKS_AS_PROCESSES, call_different_things, &difference, reports, 30);
    ranks_assert_clean(reports, 3);
    for (int r = 0; r < 3; r++)
        ck_assert_msg(reports[r].status == SYMM_ERROR_MISMATCH, "rank %d: %s: %s", r,
                      symm_status_name(reports[r].status), reports[r].text);
}

/* ---- Aborts and failures ---- */

/* Rank 1 gives up while the others are in calls, eager and replayed, and perhaps itself. */
static void lose_a_rank(struct rank *self, void *arg)
{
    const bool amid = *(const bool *)arg;
    struct copy_buffers b = {0};
    symm_context *ctx = NULL;
    symm_group *w = NULL, *g = NULL;
    symm_stream s = NULL;
    symm_graph graph = NULL;
    struct copy_call c = copy_draw(3, COUNT);

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    int ranks[RANKS_MAX];
    for (int r = 0; r < self->nranks; r++)
        ranks[r] = r;
    RANK_TRY(self, symm_group_create(w, self->nranks, ranks, &g));
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, copy_open(ctx, w, COUNT * 8 * (size_t)self->nranks, &b));
    RANK_TRY(self, symm_graph_begin(s));
    RANK_TRY(self, copy_enqueue(&c, &b, g, s));
    RANK_TRY(self, symm_graph_end(s, &graph));
    RANK_TRY(self, copy_prepare(&c, &b, g, s));
    RANK_TRY(self, copy_enqueue(&c, &b, g, s));
    if (copy_check(self, &c, &b, g, s) != SYMM_OK)
        goto out;
    RANK_TRY(self, symm_exchange(g, NULL, 0, NULL)); /* all ranks have checked */
    for (int i = 0; i < 3 && (self->rank != 1 || amid); i++)
        RANK_TRY(self, symm_graph_launch(graph, s));
    for (int i = 0; i < 3 && self->rank != 1 && copy_enqueue(&c, &b, g, s) == SYMM_OK; i++)
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
    RANK_TRY(self, symm_barrier(w, s));
    c.round = 77;
    RANK_TRY(self, copy_prepare(&c, &b, w, s));
    RANK_TRY(self, copy_enqueue(&c, &b, w, s));
    if (copy_check(self, &c, &b, w, s) != SYMM_OK)
        goto out;
    rank_note(self, SYMM_OK);
out:
    symm_graph_destroy(graph);
    symm_stream_destroy(s);
    symm_group_destroy(g);
    if (ctx)
        copy_close(ctx, w, &b);
    symm_context_destroy(ctx);
}

TEST_LOOP(calls, an_abort_ends_calls_and_leaves_nothing_behind, 0, 6)
{
    setenv("SYMM_STAGING_BYTES", "8K", 1);
    ranks_run_ok(2 + _i % 3, RANKS_AS_PROCESSES, lose_a_rank, &(bool){_i >= 3}, 60);
}

/* The driver refuses rank 1 a copy, so that it never enters the barrier of that chunk. */
static void stop_half_way(struct rank *self, void *arg)
{
    bool (*set_fault)(const char *) = NULL;
    struct copy_buffers b = {0};
    symm_context *ctx = NULL;
    symm_group *w = NULL;
    symm_stream s = NULL;
    struct copy_call c = {.operation = ALL_REDUCE,
                          .dtype = SYMM_FLOAT32,
                          .count = 3 * COUNT,
                          .options = engine,
                          .round = 1};

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    *(void **)&set_fault = symm_context_driver_symbol(ctx, "symm_emulated_set_fault");
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, copy_open(ctx, w, 3 * COUNT * sizeof(float), &b));
    set_fault(arg);
    const symm_status st = copy_enqueue(&c, &b, w, s);
    set_fault(NULL);
    CHECK_RANK(self, st == (self->rank == 1 ? SYMM_ERROR_MEMORY : SYMM_OK));
    for (int i = 0; self->rank == 1 && i < 1000 && symm_check(w) == SYMM_OK; i++)
        pause_ms(10);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "for rank 1, pad", symm_synchronize(w, s));
out:
    symm_stream_destroy(s);
    if (ctx)
        copy_close(ctx, w, &b);
    symm_context_destroy(ctx);
}

/* In the middle of a scatter, of a gather, and after those of the first chunk. */
static char half_way[][32] = {"cuMemcpyAsync@1#2=2", "cuMemcpyAsync@1#6=2", "cuMemcpyAsync@1#7=2",
                              "cuLaunchKernelEx@1#2=2"};

TEST_LOOP(calls, who_stops_half_way_is_named, 0, 4)
{
    struct rank_report reports[3];
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_STAGING_BYTES", "8K", 1);
    setenv("SYMM_TIMEOUT_MS", "2000", 1);
    ranks_run(3, RANKS_AS_PROCESSES, stop_half_way, half_way[_i], reports, 60);
    ranks_assert_clean(reports, 3);
}

/* Rank 0's n-th call of each kind fails in a capture, which can be ended all the same. */
static void fail_in_captures(struct rank *self, void *arg)
{
    static const char *const calls[] = {"cuStreamCreateWithPriority", "cuEventCreate",
                                        "cuMemcpyAsync", "cuLaunchKernelEx"};
    bool (*set_fault)(const char *) = NULL;
    struct copy_buffers b = {0};
    symm_context *ctx = NULL;
    symm_group *w = NULL;
    symm_stream s = NULL;
    symm_graph graph = NULL;
    char fault[64];
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    w = symm_context_world(ctx);
    *(void **)&set_fault = symm_context_driver_symbol(ctx, "symm_emulated_set_fault");
    RANK_TRY(self, symm_stream_create(ctx, &s));
    RANK_TRY(self, copy_open(ctx, w, COUNT * 8 * (size_t)self->nranks, &b));
    for (int i = 0; i < 4; i++)
        for (int n = 1; n <= 4; n++) {
            struct copy_call c = copy_draw((uint64_t)(10 * i + n), COUNT);
            RANK_TRY(self, symm_graph_begin(s));
            snprintf(fault, sizeof fault, "%s@0#%d=2", calls[i], n);
            set_fault(fault);
            const symm_status st = copy_enqueue(&c, &b, w, s);
            set_fault(NULL);
            CHECK_RANK(self, st == SYMM_OK || (self->rank == 0 && st == SYMM_ERROR_MEMORY));
            self->report->value[1] += st != SYMM_OK;
            RANK_TRY(self, symm_graph_end(s, &graph));
            symm_graph_destroy(graph);
            graph = NULL;
        }
    CHECK_RANK(self, self->rank || self->report->value[1] > 3);
    for (uint64_t i = 1; i < 4; i++) {
        struct copy_call c = copy_draw(i, COUNT);
        RANK_TRY(self, copy_prepare(&c, &b, w, s));
        RANK_TRY(self, copy_enqueue(&c, &b, w, s));
        if (copy_check(self, &c, &b, w, s) != SYMM_OK)
            goto out;
    }
out:
    symm_graph_destroy(graph);
    symm_stream_destroy(s);
    if (ctx)
        copy_close(ctx, w, &b);
    symm_context_destroy(ctx);
}

TEST(calls, a_failure_in_a_capture_leaves_no_stream_unjoined)
{
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_STAGING_BYTES", "8K", 1);
    ranks_run_ok(3, RANKS_AS_PROCESSES, fail_in_captures, NULL, 60);
}
