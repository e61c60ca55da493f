/* Multicast: all ranks have one verdict with a readable reason; the rest works without it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "exercise.h"
#include "test.h"
#include "trace.h"
#include "world.h"

TEST_GROUP(verdict, 90);

#if SYMM_MULTICAST

#define FAULT "SYMM_EMULATED_FAULT"

static const struct verdict {
    const char *name, *value; /* a variable, */
    int odd_rank;             /* of this rank; -1: of all */
    const char *reason;       /* a part of it; NULL: multicast is on */
} verdicts[] = {
    {NULL, NULL, -1, NULL}, /* of threads */
    {NULL, NULL, -1, NULL},
    /* A switch turns it off on all ranks, also one on one rank. */
    {"SYMM_MULTICAST", "0", -1, "SYMM_MULTICAST"},
    {"SYMM_MULTICAST", "0", 2, "SYMM_MULTICAST"},
    {"NCCL_NVLS_ENABLE", "0", -1, "NCCL_NVLS_ENABLE"},
    {"NCCL_NVLS_ENABLE", "0", 2, "NCCL_NVLS_ENABLE"},
    {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1", -1, "TORCH_SYMM_MEM_DISABLE_MULTICAST"},
    {"TORCH_SYMM_MEM_DISABLE_MULTICAST", "1", 2, "TORCH_SYMM_MEM_DISABLE_MULTICAST"},
    {"NVSHMEM_DISABLE_NVLS", "1", -1, "NVSHMEM_DISABLE_NVLS"},
    {"NVSHMEM_DISABLE_NVLS", "1", 2, "NVSHMEM_DISABLE_NVLS"},
    /* A machine without it says so. */
    {"SYMM_EMULATED_MULTICAST", "0", -1, "multicast"},
    {"SYMM_EMULATED_MULTICAST", "0", 1, "rank 1"},
    /* One rank's failure turns it off on all ranks, and is the reason. */
    {FAULT, "cuMulticastCreate@0=2", -1, "cuMulticastCreate"},
    {FAULT, "cuMulticastAddDevice@2=401", -1, "cuMulticastAddDevice"},
    {FAULT, "cuMulticastBindMem@1=2", -1, "cuMulticastBindMem"},
    {FAULT, "cuMulticastBindMem@2#1+=802", -1, "cuMulticastBindMem"},
    /* A fabric that is not ready twice is waited for. */
    {FAULT, "cuMulticastBindMem@1#1=802;cuMulticastBindMem@1#2=802", -1, NULL},
    /* Sums are right in every order of the switch. */
    {"SYMM_EMULATED_ORDER", "rank", -1, NULL},
    {"SYMM_EMULATED_ORDER", "reverse", -1, NULL},
    {"SYMM_EMULATED_ORDER", "random", -1, NULL},
};

RANKS_TEST(verdict, all_ranks_have_one_verdict_with_its_reason, 3, _i == 0,
           .arg = (void *)(uintptr_t)&verdicts[_i],
           .loop = {0, sizeof verdicts / sizeof verdicts[0]})
{
    const struct verdict *v = arg;
    symm_context *ctx = NULL;
    char reasons[RANKS_MAX][256], mine[256];
    void *x = NULL;
    if (v->name && (v->odd_rank < 0 || v->odd_rank == self->rank))
        setenv(v->name, v->value, 1);
    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    const char *off = symm_multicast_off(w);
    const char *why = symm_all_reduce_unavailable(w, SYMM_ALGO_MULTIMEM, SYMM_BFLOAT16, SYMM_SUM);
    snprintf(mine, sizeof mine, "%s", off ? off : "on");
    RANK_TRY(self, symm_exchange(w, mine, sizeof mine, reasons));
    for (int r = 0; r < self->nranks; r++)
        CHECK_RANK_MSG(self, strcmp(reasons[r], mine) == 0, "rank %d says \"%s\", I say \"%s\"", r,
                       reasons[r], mine);
    RANK_TRY(self, symm_alloc(w, 5u << 20, &x));
    if (v->reason) {
        CHECK_RANK_MSG(self, off && strstr(off, v->reason), "no \"%s\" in: %s", v->reason,
                       off ? off : "(it is on)");
        CHECK_RANK_MSG(self, why && strstr(why, v->reason), "no \"%s\" in: %s", v->reason,
                       why ? why : "(it runs)");
        CHECK_RANK(self, !symm_multicast(w, x));
        RANK_EXPECT(self, SYMM_ERROR_UNSUPPORTED,
                    symm_all_reduce(w, x, x, 8, SYMM_BFLOAT16, SYMM_SUM,
                                    &(symm_options){.algo = SYMM_ALGO_MULTIMEM}, NULL));
    } else {
        CHECK_RANK_MSG(self, !off && !why, "%s, %s", off ? off : "on", why ? why : "it runs");
        CHECK_RANK(self, symm_multicast(w, x) && symm_multicast(w, x) != x);
        CHECK_RANK(self, (char *)symm_multicast(w, (char *)x + 1000) ==
                             (char *)symm_multicast(w, x) + 1000);
        RANK_TRY(self,
                 exercise_all_reduce(self, ctx, w, SYMM_ALGO_MULTIMEM, SYMM_FLOAT16, 4444, 1));
        RANK_TRY(self, exercise_all_reduce(self, ctx, w, SYMM_ALGO_MULTIMEM_ONE_SHOT, SYMM_FLOAT32,
                                           777, 2));
    }
    RANK_TRY(self, exercise_group(self, ctx, w, 3));
    const symm_status st = symm_context_destroy(ctx);
    ctx = NULL;
    RANK_TRY(self, st);
out:
    symm_context_destroy(ctx);
}

/* A step that hangs inside the driver. Nothing can be released there: leaks do not count. */
static void hang_in_bind(struct rank *self, void *arg)
{
    symm_context *ctx = NULL;
    setenv("SYMM_EMULATED_FAULT", arg, 1);
    setenv("SYMM_EMULATED_LEAKS", "off", 1);
    setenv("SYMM_TIMEOUT_MS", "1500", 1);
    const int64_t start = now_ms();
    RANK_EXPECT(self, SYMM_ERROR_TIMEOUT, rank_join(self, &ctx));
    CHECK_RANK_MSG(self, now_ms() - start < 6000, "%lld ms", (long long)(now_ms() - start));
    CHECK_RANK(self, !ctx);
    if (self->rank == 1)
        RANK_TEXT(self, "cuMulticastBindMem");
out:
    symm_context_destroy(ctx);
}

TEST(verdict, a_bind_that_hangs_is_a_timeout_that_names_it)
{
    struct rank_report reports[3];
    ranks_run(3, RANKS_AS_PROCESSES, hang_in_bind, (char[]){"cuMulticastBindMem@1#1=hang"}, reports,
              20);
    for (int r = 0; r < 3; r++) {
        ck_assert_msg(!reports[r].failed[0], "rank %d: %s", r, reports[r].failed);
        ck_assert_int_eq(reports[r].end, RANK_RETURNED);
    }
}

WORLD_RANK(make_groups)
{
    static const int pair[] = {2, 0};
    symm_group *g[12] = {NULL};
    void *x;
    for (int i = 0; i < 10; i++)
        RANK_TRY(self, group_of_all(world, &g[i]));
    if (self->rank != 1) {
        for (int i = 10; i < 12; i++) {
            RANK_TRY(self, symm_group_create(world, 2, pair, &g[i]));
            CHECK_RANK_MSG(self, !symm_multicast_off(g[i]), "%s", symm_multicast_off(g[i]));
        }
        RANK_TRY(self,
                 exercise_all_reduce(self, ctx, g[11], SYMM_ALGO_MULTIMEM, SYMM_BFLOAT16, 999, 5));
    }
    RANK_TRY(self, symm_alloc(world, 5u << 20, &x)); /* a segment that comes later */
    for (int i = 0; i < 10; i++)
        CHECK_RANK(self, symm_multicast(g[i], x));
    RANK_TRY(self, exercise_all_reduce(self, ctx, g[9], SYMM_ALGO_MULTIMEM, SYMM_BFLOAT16, 999, 6));
out:;
}

TEST_GROUP(one_object, 90);

TEST(one_object, groups_over_the_same_ranks_share_one_object)
{
    trace_begin();
    ranks_run_ok(3, RANKS_AS_PROCESSES, make_groups, NULL, 40);
    int created = 0, added[3];
    for (int r = 0; r < 3; r++) {
        created += trace_count(r, "cuMulticastCreate");
        added[r] = trace_count(r, "cuMulticastAddDevice");
    }
    trace_end();
    ck_assert_int_eq(created, 2); /* {0, 1, 2} and {2, 0} */
    ck_assert_int_eq(added[0], 2);
    ck_assert_int_eq(added[1], 1);
    ck_assert_int_eq(added[2], 2);
}

TEST(one_object, when_it_is_off_no_call_of_it_is_made)
{
    int calls = 0, others = 0;
    trace_begin();
    setenv("SYMM_MULTICAST", "0", 1);
    ranks_run_ok(2, RANKS_AS_PROCESSES, exercise_world, NULL, 40);
    for (int r = 0; r < 2; r++) {
        calls += trace_count(r, "Multicast");
        others += trace_count(r, "cuMemCreate");
    }
    trace_end();
    ck_assert_int_eq(calls, 0);
    ck_assert_int_gt(others, 0);
}

WORLD_TEST(one_object, a_segment_that_cannot_be_bound_is_without_it_on_all_ranks, 3,
           .env = {{"SYMM_EMULATED_FAULT", "cuMulticastBindMem@2#2=2"}})
{
    void *x = NULL, *y = NULL;
    CHECK_RANK(self, !symm_multicast_off(world));
    RANK_TRY(self, symm_alloc(world, 5u << 20, &x)); /* its own segment, which is not bound */
    CHECK_RANK(self, !symm_multicast(world, x));
    CHECK_RANK_MSG(self, symm_error_text()[0], "no text");
    RANK_TRY(self, symm_alloc(world, 1000, &y));
    RANK_TRY(self, exercise_group(self, ctx, world, 7));
    /* Segments that are not bound go through the staging area, on all ranks alike. */
    RANK_TRY(self, symm_fill(x, 0, 4096, NULL));
    RANK_TRY(self, symm_all_reduce(world, x, x, 1000, SYMM_FLOAT32, SYMM_SUM,
                                   &(symm_options){.algo = SYMM_ALGO_MULTIMEM}, NULL));
    RANK_TRY(self, symm_synchronize(world, NULL));
out:;
}

/* A group's first areas are bound. Others that are not would take multimem away from it. */
WORLD_TEST(one_object, areas_that_cannot_be_bound_are_not_taken, 3,
           .env = {{"SYMM_EMULATED_FAULT", "cuMulticastBindMem@2#2=2"},
                   {"SYMM_STAGING_BYTES", "4M"}})
{
    const symm_algo algo = SYMM_ALGO_MULTIMEM;
    symm_usage before, after;
    RANK_TRY(self, symm_memory_usage(ctx, &before));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, "could not be bound", symm_group_reserve(world, 0));
    RANK_TRY(self, symm_memory_usage(ctx, &after));
    CHECK_RANK(self, after.internal == before.internal);
    RANK_TRY(self, exercise_all_reduce(self, ctx, world, algo, SYMM_FLOAT32, 300000, 1));
    RANK_TRY(self, symm_group_reserve(world, 0));
    RANK_TRY(self, exercise_all_reduce(self, ctx, world, algo, SYMM_FLOAT32, 300000, 2));
out:;
}

#endif

WORLD_TEST(verdict, a_group_of_one_is_without_it, 1)
{
    CHECK_RANK(self, symm_multicast_off(world));
    RANK_TRY(self, exercise_group(self, ctx, world, 1));
out:;
}

#if !SYMM_MULTICAST
WORLD_TEST(verdict, a_build_without_it_says_so, 2)
{
    const char *off = symm_multicast_off(world);
    CHECK_RANK_MSG(self, off && strstr(off, "built without"), "%s", off ? off : "it is on");
    CHECK_RANK(self,
               symm_all_reduce_unavailable(world, SYMM_ALGO_MULTIMEM, SYMM_FLOAT32, SYMM_SUM));
    RANK_TRY(self, exercise_group(self, ctx, world, 1));
out:;
}
#endif
