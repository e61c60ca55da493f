/* Collectives on real GPUs, through the public interface only. */
#include <stdlib.h>
#include "chain.h"
#include "exercise.h"
#include "gpu_bench.h"
#include "group_pair.h"
#include "kernels.h"
#include "reference.h"
#include "test.h"
#include "trial.h"

/* ----------------------------------------------------------------------------------- all-reduce */

static const symm_algo algos[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_LOW_LATENCY_TWO_SHOT,
                                  SYMM_ALGO_LAMPORT,     SYMM_ALGO_AUTO,
                                  SYMM_ALGO_ONE_SHOT,    SYMM_ALGO_TWO_SHOT};
static const struct trial_kind kinds[] = {
    {SYMM_FLOAT32, SYMM_SUM},  {SYMM_FLOAT16, SYMM_SUM}, {SYMM_BFLOAT16, SYMM_SUM},
    {SYMM_FLOAT64, SYMM_SUM},  {SYMM_INT32, SYMM_SUM},   {SYMM_INT64, SYMM_SUM},
    {SYMM_BFLOAT16, SYMM_AVG}, {SYMM_FLOAT64, SYMM_AVG}, {SYMM_FLOAT32, SYMM_MIN},
    {SYMM_FLOAT16, SYMM_MAX},  {SYMM_INT32, SYMM_MAX},   {SYMM_INT64, SYMM_MIN}};
static const size_t counts[] = {1, 7, 1000, 65536 + 3, 3000001};

/* The largest count goes with the first kinds only; the first algorithms count epochs. */
enum { NALGOS = 6, NEPOCH_ALGOS = 3, NKINDS = 12, NLARGE = 3, NCOUNTS = 5 };

/*
 * Once in place in symmetric memory, once out of place in plain memory, at addresses that are only
 * just aligned.
 */
static symm_status reduce_both_ways(struct rank *self, struct bench *b, symm_algo algo,
                                    struct trial_kind kind, size_t count, uint64_t round)
{
    const symm_dtype dtype = kind.dtype;
    const size_t size = symm_dtype_size(dtype), nbytes = count * size;
    const symm_options options = {.algo = algo, .flags = SYMM_DETERMINISTIC};
    char *x = NULL, *in = NULL, *out = NULL, *host = malloc(nbytes);
    RANK_TRY(self, symm_alloc(b->w, nbytes, (void **)&x));
    RANK_TRY(self, symm_device_alloc(b->ctx, nbytes + size, (void **)&in));
    RANK_TRY(self, symm_device_alloc(b->ctx, nbytes + size, (void **)&out));
    reference_fill(host, count, dtype, round, self->rank);
    RANK_TRY(self, symm_copy(x, host, nbytes, b->s));
    RANK_TRY(self, symm_copy(in + size, host, nbytes, b->s));
    RANK_TRY(self, symm_all_reduce(b->w, x, x, count, dtype, kind.op, &options, b->s));
    RANK_TRY(self,
             symm_all_reduce(b->w, in + size, out + size, count, dtype, kind.op, &options, b->s));
    RANK_TRY(self, symm_copy(host, x, nbytes, b->s));
    RANK_TRY(self, symm_synchronize(b->w, b->s));
    self->report->wrong += reference_reduction_wrong(host, 0, count, dtype, kind.op, round,
                                                     self->nranks, REFERENCE_EXACT);
    RANK_TRY(self, symm_copy(host, out + size, nbytes, b->s));
    RANK_TRY(self, symm_synchronize(b->w, b->s));
    self->report->wrong += reference_reduction_wrong(host, 0, count, dtype, kind.op, round,
                                                     self->nranks, REFERENCE_EXACT);
out:
    symm_device_free(b->ctx, in);
    symm_device_free(b->ctx, out);
    symm_free(b->w, x);
    free(host);
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

RANK_WITH(reduce_everything, struct bench, b, bench_open, bench_close)
{
    const symm_algo algo = algos[*(int *)arg];
    uint64_t round = 0;
    for (int k = 0; k < NKINDS; k++)
        for (int c = 0; c < (k < NLARGE ? NCOUNTS : NCOUNTS - 1); c++)
            if (!symm_all_reduce_unavailable(b->w, algo, kinds[k].dtype, kinds[k].op) &&
                reduce_both_ways(self, b, algo, kinds[k], counts[c], round++) != SYMM_OK)
                return;
}

TEST_GROUP(all_reduce, 180);

TEST_LOOP(all_reduce, reductions_are_right_in_place_and_through_staging, 0, NALGOS)
{
    NEEDS_GPUS();
    setenv("SYMM_STAGING_BYTES", "1M", 1); /* the largest goes through it in many pieces */
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, reduce_everything, &(int){_i}, 120);
}

TEST_LOOP(all_reduce, results_are_right_across_the_wrap_of_the_epochs, 0, 2 * NEPOCH_ALGOS)
{
    NEEDS_GPUS();
    setenv("SYMM_EPOCH_START", _i % 2 ? "65525" : "4294967285", 1);
    setenv("SYMM_STAGING_BYTES", "1M", 1);
    ranks_run_ok(ngpus, RANKS_AS_PROCESSES, reduce_everything, &(int){_i / 2}, 120);
}

/* The call of rank 0 and that of the others, of 100 elements each. */
static const struct {
    symm_algo algo;
    symm_dtype dtype[2];
    symm_redop op[2];
} differing[] = {
    {SYMM_ALGO_AUTO, {SYMM_FLOAT32, SYMM_FLOAT32}, {SYMM_SUM, SYMM_MAX}},
    {SYMM_ALGO_AUTO, {SYMM_FLOAT32, SYMM_INT32}, {SYMM_SUM, SYMM_SUM}},
    {SYMM_ALGO_LOW_LATENCY_TWO_SHOT, {SYMM_BFLOAT16, SYMM_FLOAT16}, {SYMM_SUM, SYMM_SUM}},
    {SYMM_ALGO_LAMPORT, {SYMM_FLOAT32, SYMM_FLOAT32}, {SYMM_SUM, SYMM_MAX}},
    {SYMM_ALGO_LAMPORT, {SYMM_BFLOAT16, SYMM_FLOAT16}, {SYMM_SUM, SYMM_SUM}},
};
enum { NDIFFERING = sizeof differing / sizeof differing[0] };

/* With the defaults, of which the timeout is five minutes. */
GPU_TEST(all_reduce, small_calls_that_differ_are_a_mismatch_at_once, .timeout_s = 60,
         .arg = &(int){_i}, .loop = {0, NDIFFERING})
{
    const int i = *(int *)arg, mine = self->rank > 0;
    void *x = NULL;

    RANK_TRY(self, symm_device_alloc(b->ctx, 400, &x));
    const int64_t began = now_ms();
    RANK_TRY(self, symm_all_reduce(b->w, x, x, 100, differing[i].dtype[mine], differing[i].op[mine],
                                   &(symm_options){.algo = differing[i].algo}, b->s));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "called different things",
                     symm_synchronize(b->w, b->s));
    CHECK_RANK(self, now_ms() - began < 5000);
out:
    symm_device_free(b->ctx, x);
}

static const struct collective_variant pairs[][2] = {
    {{ALL_REDUCE, SYMM_ALGO_ONE_SHOT}, {ALL_REDUCE, SYMM_ALGO_TWO_SHOT}},
    {{ALL_REDUCE, SYMM_ALGO_LOW_LATENCY}, {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY_TWO_SHOT}},
    {{ALL_REDUCE, SYMM_ALGO_LAMPORT}, {REDUCE_SCATTER, SYMM_ALGO_LAMPORT}},
    {{REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT}, {ALL_GATHER, SYMM_ALGO_ONE_SHOT}},
    {{REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY}, {ALL_GATHER, SYMM_ALGO_LOW_LATENCY}},
    {{BROADCAST, SYMM_ALGO_LOW_LATENCY}, {BROADCAST, SYMM_ALGO_ONE_SHOT}},
};
enum { NPAIRS = sizeof pairs / sizeof pairs[0] };

/* Without SYMM_CHECK: calls in another order on other ranks must not block each other. */
GPU_TEST(all_reduce, two_groups_on_two_streams_replay_their_graphs_a_thousand_times,
         .timeout_s = 120, .env = {{"SYMM_CHECK", "0"}}, .arg = (void *)(uintptr_t)pairs[_i],
         .loop = {0, NPAIRS})
{
    const struct collective_variant *const pair = arg;
    const struct group_pair p = {
        .variants = {pair[0], pair[1]}, .count = 30000, .replays = 1000, .looks = 100};
    group_pair_replay(self, b->ctx, &p);
}

/* ----------------------------------------------------- reduce-scatter, all-gather and broadcast */

/* The last one is of reductions. */
static const symm_algo shared_algos[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_ONE_SHOT, SYMM_ALGO_AUTO,
                                         SYMM_ALGO_LAMPORT};
static const struct trial_kind bytes[] = {{.dtype = SYMM_BFLOAT16},
                                          {.dtype = SYMM_UINT8},
                                          {.dtype = SYMM_FLOAT64},
                                          {.dtype = SYMM_FLOAT8_E4M3}};

/* The first with large counts and staging that takes many pieces, the second at every place. */
static void run_shares(enum collective_operation operation)
{
    const bool moves = !collective_reduces(operation);
    struct trial_plan plan = {.operation = operation,
                              .algos = shared_algos,
                              .nalgos = moves ? 3 : 4,
                              .kinds = moves ? bytes : kinds,
                              .nkinds = moves ? 4 : NKINDS,
                              .most = 300000,
                              .ncounts = moves ? 12 : 6};
    for (int n = ngpus; n >= 2; n -= 2) { /* 4 and 2, or 3 */
        setenv("SYMM_STAGING_BYTES", "1M", 1);
        setenv("SYMM_EPOCH_START", "4294967200", 1);
        trial_run(n, RANKS_AS_PROCESSES, &plan);
    }
    plan.most = 5000;
    plan.all_places = true;
    plan.ncounts = 1;
    plan.special = !moves;
    unsetenv("SYMM_STAGING_BYTES");
    trial_run(ngpus, RANKS_AS_PROCESSES, &plan);
}

TEST_GROUP(shares, 180);

TEST_LOOP(shares, shares_are_right_at_every_place, REDUCE_SCATTER, COLLECTIVE_OPERATIONS)
{
    NEEDS_GPUS();
    run_shares((enum collective_operation)_i);
}

/* ------------------------------------------------------------- programmatic dependent launch */

static const struct collective_variant variants[] = {
    {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY},     {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {ALL_REDUCE, SYMM_ALGO_ONE_SHOT},        {ALL_REDUCE, SYMM_ALGO_TWO_SHOT},
    {REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY}, {REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT},
    {ALL_GATHER, SYMM_ALGO_LOW_LATENCY},     {ALL_GATHER, SYMM_ALGO_ONE_SHOT},
    {ALL_REDUCE, SYMM_ALGO_LAMPORT},         {REDUCE_SCATTER, SYMM_ALGO_LAMPORT},
    {BROADCAST, SYMM_ALGO_LOW_LATENCY},      {BROADCAST, SYMM_ALGO_ONE_SHOT},
};
enum { NVARIANTS = sizeof variants / sizeof variants[0] };

TEST_GROUP(early, 180);

/* Of one block and of many: each turn has three kernels of 200 us, and all may begin early. */
TEST_LOOP(early, slow_producers_and_consumers_are_waited_for, 0, 2)
{
    static const size_t words[] = {200, 20000};
    struct rank_report reports[MOST];
    struct chain chain = {.variants = variants,
                          .nvariants = NVARIANTS,
                          .count = words[_i],
                          .turns = 1000,
                          .spin = 200,
                          .image = &test_kernels};
    NEEDS_GPUS();
    setenv("SYMM_CHECK", "0", 1);
    ranks_run(ngpus, RANKS_AS_PROCESSES, chain_run, &chain, reports, 120);
    ranks_assert_ok(reports, ngpus);
    ck_assert_int_eq(reports[0].value[0], NVARIANTS);
}
