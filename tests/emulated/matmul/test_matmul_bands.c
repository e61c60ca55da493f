/*
 * Fused all-reduces in any order, whose sums the switch makes beside the product: worlds of every
 * size, ragged tiles and bands, every type and layout, runs behind each other, ranks that are late
 * or compute by another kernel, kernels that run beside each other or not, with memory of the
 * host's order and weakly ordered. Each result is compared with a reference in double precision.
 */
#include <stdio.h>
#include <stdlib.h>
#include "matmul_plan.h"
#include "matmul_rounds.h"
#include "reference.h"
#include "test.h"
#include "trace.h"

enum { ROUNDS = 3, BURST = 3, TINY_ROUNDS = 3 };

/*
 * Rows are whole packs, which suit the Hopper kernel. A large m has several bands, and a small k:
 * the sanitizers' kernels are slow.
 */
static struct matmul_case draw(unsigned i)
{
    static const int32_t widths[] = {8, 72, 256, 136, 320, 600, 16, 200},
                         rows[] = {1, 130, 500, 7, 1030, 300, 64, 2100};
    static const symm_dtype types[] = {SYMM_BFLOAT16, SYMM_FLOAT16, SYMM_FLOAT32};

    const unsigned depths = rows[i % 8] < 500 ? 20 : 4;

    return (struct matmul_case){.kind = SYMM_MATMUL_ALL_REDUCE,
                                .strategy = SYMM_STRATEGY_FUSED,
                                .any_order = true,
                                .in = i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                                .out = types[i % 3],
                                .partial = types[i % 3],
                                .m = rows[i % 8],
                                .k = 8 * (1 + (int32_t)(i * 13 % depths)),
                                .l = 1 + (int32_t)(i % 5 == 2),
                                .nb = 1 + (int32_t)(i % 7 == 3),
                                .n = {widths[i * 5 / 8 % 8], widths[(i + 3) % 8]},
                                .contiguous = true,
                                .layout = i};
}

/* Runs behind each other have the same data, so most rounds have one run. */
static int burst(int i)
{
    return i % 4 ? 0 : BURST;
}

/* Runs it, without the kernel that splits k; checks that each run had a kernel for the bands. */
static void run(int nranks, struct matmul_rounds test)
{
    const int launches =
        test.replayed ? 1 + test.burst : test.rounds * (test.burst ? test.burst : 1);

    setenv("SYMM_MATMUL_SPLIT", "0", 1);
    test.first = 1 + reference_seed() % 1000;
    setenv("SYMM_EMULATED_EARLY", test.first % 2 ? "1" : "0",
           1); /* beside the product, or behind */
    trace_begin();
    ranks_run_ok(nranks, RANKS_AS_PROCESSES, matmul_run_rounds, &test, 120);
    for (int rank = 0; rank < nranks; rank++)
        ck_assert_int_ge(trace_count(rank, "grid=2,1,1 block=256,1,1"), launches);
    trace_end();
}

TEST_GROUP(bands, 400);

TEST_LOOP(bands, every_world_is_right, 0, 36)
{
    run(3 + _i % 6,
        (struct matmul_rounds){draw((unsigned)_i), ROUNDS, burst(_i), -1, _i % 4 == 3, 0});
}

/* Operands of any layout: on some ranks the kernel comes behind the product. */
TEST_LOOP(bands, a_rank_may_compute_by_another_kernel, 0, 16)
{
    struct matmul_case c = draw((unsigned)_i);

    c.contiguous = false;
    c.k_differs = _i % 2;
    c.n[0] += _i % 3;
    c.m = 1 + c.m % 200;
    run(3 + _i % 3, (struct matmul_rounds){c, ROUNDS, burst(_i), -1, false, 0});
}

/* The product applies them, before the results are rounded. */
TEST_LOOP(bands, factors_apply_to_the_sums, 0, 6)
{
    static const float alphas[] = {-0.5f, 0, 3};
    struct matmul_case c = draw((unsigned)_i);

    c.alpha = &alphas[_i % 3];
    c.contiguous = _i % 2;
    run(3, (struct matmul_rounds){c, 2, 1, -1, false, 0});
}

TEST_LOOP(bands, a_late_rank_gets_and_gives_the_same, 0, 8)
{
    run(3 + _i % 2,
        (struct matmul_rounds){draw((unsigned)_i * 5), ROUNDS, burst(_i), _i % 3, _i % 3 == 0, 0});
}

TEST_LOOP(bands, weakly_ordered_memory_makes_no_difference, 0, 32)
{
    struct matmul_case c = draw((unsigned)_i);

    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    matmul_weaken_memory(_i);
    unsetenv("SYMM_EMULATED_BLOCK"); /* the Hopper kernel needs its block */
    c.m = 1 + (int32_t)(_i % 40);
    c.k = 8 + 64 * (_i % 2);
    c.l = c.nb = 1;
    c.n[0] = _i % 3 ? 8 : 72;
    run(3, (struct matmul_rounds){c, TINY_ROUNDS, burst(_i), _i / 2 % 4 - 1, false, 0});
}

/* The workspace takes a segment, which one rank cannot bind: blocks use the ranks' addresses. */
TEST_LOOP(bands, memory_that_is_not_bound_will_do, 0, 4)
{
    struct matmul_case c = draw((unsigned)_i);

    setenv("SYMM_EMULATED_FAULT", "cuMulticastBindMem@1#2+=2", 1);
    setenv("SYMM_SEGMENT_BYTES", "64K", 1);
    c.m = 1030;
    c.n[0] = 256;
    run(3 + _i % 2, (struct matmul_rounds){c, 2, 0, -1, false, 0});
}

TEST_LOOP(bands, counters_wrap, 0, 2)
{
    setenv("SYMM_EPOCH_START", "4294967294", 1);
    run(3 + _i, (struct matmul_rounds){draw((unsigned)_i), ROUNDS, 1, -1, false, 0});
}
