/*
 * All-reduces of few rows whose product sends and adds packs of sums: worlds of every size, ragged
 * tiles, every type of partial sums, runs behind each other, ranks that are late or compute by
 * another kernel, with memory of the host's order and weakly ordered. Each result is compared with
 * a reference in double precision. The trace shows that no other kernel has added.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "matmul_pair.h"
#include "matmul_plan.h"
#include "matmul_rounds.h"
#include "reference.h"
#include "test.h"
#include "trace.h"

enum { ROUNDS = 4, BURST = 3, TINY_ROUNDS = 3 };

/* ---------------------------------------------------------------------------------------- cases */

/* Of whole packs, so that the data suit the Hopper kernel. */
static struct matmul_case draw(unsigned i)
{
    static const int32_t widths[] = {8, 64, 72, 128, 136, 192, 16, 224, 56, 256, 264, 320};
    static const symm_dtype partials[] = {0, SYMM_FLOAT32, SYMM_BFLOAT16, SYMM_FLOAT16},
                            outs[] = {SYMM_BFLOAT16, SYMM_FLOAT16, SYMM_FLOAT32};

    return (struct matmul_case){.kind = SYMM_MATMUL_ALL_REDUCE,
                                .strategy = SYMM_STRATEGY_FUSED,
                                .in = i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                                .out = outs[i % 3],
                                .partial = partials[i % 4],
                                .m = 1 + (int32_t)(i * 37 % 90),
                                .k = 8 * (1 + (int32_t)(i * 13 % 40)),
                                .l = 1 + (int32_t)(i % 5 == 2),
                                .nb = 1 + (int32_t)(i % 7 == 3),
                                .n = {widths[i % 12], widths[(i + 5) % 12]},
                                .constant_b = i % 4 == 1,
                                .contiguous = true,
                                .layout = i};
}

/* A tile or two with few elements: many seeds of weakly ordered memory. */
static struct matmul_case draw_tiny(unsigned i)
{
    struct matmul_case c = draw(i);

    c.m = 1 + (int32_t)(i % 3);
    c.k = 8 + 64 * (int32_t)(i % 2); /* one part, or two */
    c.l = c.nb = 1;
    c.n[0] = i % 5 ? 8 : 72;
    return c;
}

/* Runs it; packs: checks that each run was one launch, of the kernel that splits k. */
static void run(int nranks, struct matmul_rounds test, bool packs)
{
    const int launches =
        test.replayed ? 1 + test.burst : test.rounds * (test.burst ? test.burst : 1);

    test.first = 1 + reference_seed() % 1000;
    setenv("SYMM_EMULATED_EARLY", (test.first + test.c.layout) % 2 ? "1" : "0",
           1); /* a burst's runs overlap */
    trace_begin();
    ranks_run_ok(nranks, RANKS_AS_PROCESSES, matmul_run_rounds, &test, 120);
    for (int rank = 0; packs && rank < nranks; rank++) {
        const int split = trace_count(rank, "block=256,1,1") + trace_count(rank, "block=384,1,1");
        ck_assert_int_eq(split, launches);
        ck_assert_int_eq(trace_count(rank, "cuLaunchKernelEx"), launches);
    }
    trace_end();
}

/* --------------------------------------------------------------------------------------- groups */

TEST_GROUP(packs, 400);

/* Blocks that wait for other ranks all run at the same time, so few SMs have few of them. */
TEST_LOOP(packs, every_world_is_right, 0, 42)
{
    setenv("SYMM_EMULATED_SMS", _i % 2 ? "16" : "32", 1);
    run(2 + _i % 7, (struct matmul_rounds){draw((unsigned)_i), ROUNDS, BURST, -1, _i % 4 == 3, 0},
        true);
}

/* Rows of D, A and B of any stride: of some ranks the kernel behind the product adds. */
TEST_LOOP(packs, a_rank_may_compute_by_another_kernel, 0, 16)
{
    struct matmul_case c = draw((unsigned)_i);

    c.constant_b = false;
    c.contiguous = false;
    c.k_differs = _i % 2;
    c.n[0] += _i % 3;
    setenv("SYMM_EMULATED_SMS", "32", 1);
    run(2 + _i % 4, (struct matmul_rounds){c, ROUNDS, BURST, -1, false, 0}, false);
}

/* An alpha of 0 drops sums that are not numbers. */
TEST_LOOP(packs, factors_apply_to_the_sums, 0, 6)
{
    static const float alphas[] = {-0.5f, 0, 3};
    struct matmul_case c = draw((unsigned)_i);

    c.alpha = &alphas[_i % 3];
    c.contiguous = _i % 2;
    c.constant_b = false;
    setenv("SYMM_EMULATED_SMS", "32", 1);
    run(2 + _i % 3, (struct matmul_rounds){c, 2, 1, -1, false, 0}, c.contiguous);
}

TEST_LOOP(packs, a_late_rank_gets_and_gives_the_same, 0, 12)
{
    setenv("SYMM_EMULATED_SMS", "32", 1);
    run(2 + _i % 3,
        (struct matmul_rounds){draw((unsigned)_i * 5), ROUNDS, BURST, _i % 2, _i % 3 == 0, 0},
        true);
}

TEST_LOOP(packs, weakly_ordered_memory_makes_no_difference, 0, 48)
{
    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    matmul_weaken_memory(_i);
    unsetenv("SYMM_EMULATED_BLOCK"); /* the Hopper kernel needs its block */
    setenv("SYMM_EMULATED_SMS", "4", 1);
    run(2 + _i % 3,
        (struct matmul_rounds){draw_tiny((unsigned)_i), TINY_ROUNDS, BURST, _i / 2 % 3 - 1, false,
                               0},
        true);
}

TEST_LOOP(packs, counters_wrap, 0, 2)
{
    setenv("SYMM_EPOCH_START", "4294967294", 1);
    setenv("SYMM_EMULATED_SMS", "32", 1);
    run(2 + _i, (struct matmul_rounds){draw((unsigned)_i), ROUNDS, 1, -1, false, 0}, true);
}

/* More tiles than SMs, or a c on some rank: another way, which is right, too. */
TEST_LOOP(packs, products_that_cannot_have_packs_run, 0, 2)
{
    struct matmul_case c = draw(9);

    c.has_c = _i == 0;
    c.addend = SYMM_FLOAT32;
    setenv("SYMM_EMULATED_SMS", _i ? "2" : "32", 1);
    run(3, (struct matmul_rounds){c, 2, 2, -1, false, 0}, false);
}

/*
 * A run of each group fills the device. If a group's next run began before this run is resident on
 * both ranks, each rank could hold two runs of one group: rank 0 of the first, rank 1 of the
 * second. No run would end.
 */
TEST_LOOP(packs, two_groups_have_room, 0, 3)
{
    const struct matmul_case c = {.kind = SYMM_MATMUL_ALL_REDUCE,
                                  .strategy = SYMM_STRATEGY_FUSED,
                                  .in = SYMM_BFLOAT16,
                                  .out = SYMM_BFLOAT16,
                                  .m = 1 + _i * 7,
                                  .k = 64,
                                  .l = 1,
                                  .nb = 1,
                                  .n = {256},
                                  .constant_b = _i == 1,
                                  .contiguous = true};
    const struct matmul_case cases[1][2] = {{c, c}};
    struct matmul_pairs pairs = {
        .cases = cases, .ncases = 1, .rounds = 3, .apart_ms = _i % 2 ? 0 : 20, .more = 5};

    setenv("SYMM_CHECK", "0", 1); /* it demands one order of calls */
    setenv("SYMM_EMULATED_SMS", "4", 1);
    setenv("SYMM_EMULATED_EARLY", "1", 1);
    ranks_run_ok(2, RANKS_AS_PROCESSES, matmul_run_pairs, &pairs, 60);
}

/* A run's blocks are half of the places: too many to begin early behind anything but a run. */
TEST(packs, runs_begin_early_behind_each_other)
{
    const struct matmul_case c = {.kind = SYMM_MATMUL_ALL_REDUCE,
                                  .strategy = SYMM_STRATEGY_FUSED,
                                  .in = SYMM_FLOAT16,
                                  .out = SYMM_FLOAT16,
                                  .m = 5,
                                  .k = 64,
                                  .l = 1,
                                  .nb = 1,
                                  .n = {256},
                                  .contiguous = true};
    struct matmul_rounds test = {c, ROUNDS, BURST, -1, false, 0};

    setenv("SYMM_EMULATED_SMS", "4", 1);
    trace_begin();
    ranks_run_ok(2, RANKS_AS_PROCESSES, matmul_run_rounds, &test, 60);
    for (int rank = 0; rank < 2; rank++) {
        const int early = trace_count(rank, "grid=4,1,1 block=256,1,1 early=1"),
                  all = trace_count(rank, "grid=4,1,1 block=256,1,1");
        ck_assert_int_eq(all, ROUNDS * BURST);
        ck_assert_int_ge(early, ROUNDS * (BURST - 1));
        ck_assert_int_lt(early, all);
    }
    trace_end();
}
