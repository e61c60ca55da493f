/*
 * Sums of two ranks whose product adds the other rank's parts: every shape of a tile, tiles at
 * every edge, several in a block, and parts that come late, with memory of the host's order and
 * weakly ordered. Each result is compared with a reference in double precision. The trace
 * shows that the product has added: behind it is the kernel for late parts.
 */
#include <stdio.h>
#include <stdlib.h>
#include "matmul_plan.h"
#include "matmul_rounds.h"
#include "reference.h"
#include "test.h"
#include "trace.h"

enum { ROUNDS = 5, TINY_ROUNDS = 3, RANKS = 2, LONG_K = 2624 };

/* A launch of the kernel behind the product, which has blocks of one warp. */
static const char behind[] = "block=32,1,1";

/* ---------------------------------------------------------------------------------------- cases */

/*
 * Alternates between reduce-scatters and all-reduces, with whole and ragged tiles of every width.
 * Each owner has tiles.
 */
static struct matmul_case draw(unsigned n)
{
    static const symm_matmul_kind kinds[] = {SYMM_MATMUL_REDUCE_SCATTER, SYMM_MATMUL_ALL_REDUCE};
    const unsigned i = n / 2;
    static const int32_t widths[] = {8, 64, 72, 128, 136, 192, 208, 224, 248, 256, 264, 416};
    const symm_dtype type = i % 3 ? SYMM_BFLOAT16 : SYMM_FLOAT16;

    return (struct matmul_case){.kind = kinds[n % 2],
                                .strategy = SYMM_STRATEGY_FUSED,
                                .in = i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                                .out = type,
                                .m = 2 + (int32_t)((i * 197 + 130) % 700),
                                .k = 8 * (1 + (int32_t)(i * 13 % 20)),
                                .l = 1 + (int32_t)(i / 3 % 2),
                                .nb = 1 + (int32_t)(i % 4 == 1),
                                .n = {widths[i % 12], widths[(i + 5) % 12]},
                                .contiguous = true,
                                .layout = i};
}

/* One tile or two of each owner, with few elements: many seeds of weakly ordered memory. */
static struct matmul_case draw_tiny(unsigned n)
{
    struct matmul_case c = draw(n);
    const unsigned i = n / 2;

    c.m = 2 - (int32_t)(n % 2) + (int32_t)(i * 7 % 30);
    c.k = 8;
    c.l = c.nb = 1;
    c.n[0] = 8 + 8 * (int32_t)(i % 3);
    return c;
}

/* Runs it, and checks that the product has added in each run that was launched by itself. */
static void run(struct matmul_rounds test)
{
    const int launched = test.replayed ? 1 : test.rounds;

    test.first = 1 + reference_seed() % 1000;
    setenv("SYMM_MATMUL_SPLIT", "0", 1); /* few tiles of an all-reduce would send packs */
    trace_begin();
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, matmul_run_rounds, &test, 120);
    for (int rank = 0; rank < RANKS; rank++) {
        ck_assert_int_ge(matmul_hopper_launches(rank), launched);
        ck_assert_int_ge(trace_count(rank, behind), launched);
    }
    trace_end();
}

/* --------------------------------------------------------------------------------------- groups */

TEST_GROUP(parts, 400);

TEST_LOOP(parts, every_shape_is_right, 0, 48)
{
    setenv("SYMM_EMULATED_SMS", _i / 2 % 2 ? "3" : "5", 1); /* several tiles in a block */
    matmul_force_shape(_i / 2);
    run((struct matmul_rounds){draw((unsigned)_i), ROUNDS, 1, -1, _i / 2 % 4 == 3, 0});
}

/* Then a reduce-scatter computes the others' tiles first. */
TEST_LOOP(parts, a_long_k_is_right, 0, 4)
{
    struct matmul_case c = draw((unsigned)_i * 9);

    c.k = LONG_K;
    c.l = 1;
    c.m = 300;
    setenv("SYMM_EMULATED_SMS", "3", 1);
    run((struct matmul_rounds){c, 2, 1, -1, false, 0});
}

/* With a k of its own, a rank may compute by the portable kernel, which adds nothing. */
TEST_LOOP(parts, a_rank_may_add_later, 0, 8)
{
    struct matmul_rounds test = {draw((unsigned)_i * 3), ROUNDS, 1, -1, false, 1};

    setenv("SYMM_MATMUL_SPLIT", "0", 1);
    test.c.k_differs = true;
    setenv("SYMM_EMULATED_SMS", "3", 1);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, matmul_run_rounds, &test, 120);
}

TEST_LOOP(parts, a_late_rank_gets_and_gives_the_same, 0, 12)
{
    setenv("SYMM_EMULATED_SMS", "3", 1);
    run((struct matmul_rounds){draw((unsigned)_i * 5), ROUNDS, 1, _i / 2 % 2, _i % 3 == 0, 0});
}

TEST_LOOP(parts, weakly_ordered_memory_makes_no_difference, 0, 48)
{
    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    matmul_weaken_memory(_i);
    unsetenv("SYMM_EMULATED_BLOCK"); /* the Hopper kernel needs its block */
    setenv("SYMM_EMULATED_SMS", "2", 1);
    run((struct matmul_rounds){draw_tiny((unsigned)_i), TINY_ROUNDS, 1, _i / 2 % 3 - 1, false, 0});
}

TEST_LOOP(parts, counters_wrap, 0, 2)
{
    setenv("SYMM_EPOCH_START", "4294967294", 1);
    run((struct matmul_rounds){draw((unsigned)_i), ROUNDS, 1, -1, false, 0});
}
