/*
 * Products whose data suit the Hopper kernel, which runs them: each shape of a tile, both layouts
 * of B, every epilogue, ragged rows, batches and several B, with memory of the host's order and
 * weakly ordered. The first result is compared with a reference in double precision.
 */
#include <stdio.h>
#include <stdlib.h>
#include "matmul_plan.h"
#include "reference.h"
#include "test.h"
#include "trace.h"

enum { NCASES = 6 };

/* Widths of all tiles, whole and not. Every second case has a plain epilogue. */
static struct matmul_case draw(unsigned i)
{
    static const int32_t widths[] = {8, 64, 72, 128, 136, 192, 208, 224, 248, 256, 264, 416};
    static const symm_dtype outs[] = {SYMM_FLOAT16, SYMM_BFLOAT16, SYMM_FLOAT32};
    const bool plain = i % 2;
    const int32_t n = widths[i % 12];

    return (struct matmul_case){.kind = i % 5 == 4 ? SYMM_MATMUL : SYMM_ALL_GATHER_MATMUL,
                                .activation = (symm_activation)(plain ? 0 : i / 2 % 3),
                                .in = i % 3 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                                .out = outs[plain ? i % 2 : i % 3],
                                .addend = SYMM_FLOAT32,
                                .m = 20 + (int32_t)(i * 67 % 280),
                                .k = 8 * (1 + (int32_t)(i * 13 % 45)),
                                .l = 1 + (int32_t)(i / 3 % 2),
                                .nb = 1 + (int32_t)(i % 3),
                                .n = {n, 64, widths[(i + 5) % 12]},
                                .has_c = !plain && i % 4 == 0,
                                .has_bias = !plain && i % 3 == 0,
                                .gathered = i % 5 != 4 && i % 7 == 0,
                                .contiguous = true,
                                .layout = i};
}

static void run(int nranks, unsigned first)
{
    struct matmul_case cases[NCASES];

    const int ncases = TEST_TSAN ? 1 : NCASES; /* which is some fifty times as slow */

    for (int i = 0; i < ncases; i++)
        cases[i] = draw(first + (unsigned)i);
    trace_begin();
    ranks_run_ok(nranks, RANKS_AS_PROCESSES, matmul_run_plan,
                 &(struct matmul_plan){.ncases = ncases, .cases = cases}, 120);
    for (int rank = 0; rank < nranks; rank++)
        ck_assert_int_ge(matmul_hopper_launches(rank), ncases);
    trace_end();
}

TEST_GROUP(hopper_kernel, 250);

TEST_LOOP(hopper_kernel, every_shape_is_right, 0, 8)
{
    run(1 + _i % 4, (unsigned)_i * NCASES);
}

/* Forces each shape: the model picks few of them for products of this size. */
TEST_LOOP(hopper_kernel, every_tile_is_right, 0, 2 * MATMUL_SHAPES)
{
    setenv("SYMM_EMULATED_SMS", "5", 1); /* several tiles in a block */
    setenv("SYMM_MATMUL_SPLIT", "0", 1);
    matmul_force_shape(_i);
    run(1 + _i / MATMUL_SHAPES, 50 + (unsigned)_i * NCASES);
}

/* Plain products of ragged extents, alone and behind an all-gather, with tiles of each shape. */
TEST_LOOP(hopper_kernel, every_plain_tile_is_right, 0, 2 * MATMUL_PLAIN_SHAPES)
{
    static const float alpha = 1.5f;
    struct matmul_case cases[2];

    for (unsigned i = 0; i < 2; i++) {
        cases[i] = draw(300 + 2 * (unsigned)_i + i);
        cases[i].kind = i ? SYMM_MATMUL : SYMM_ALL_GATHER_MATMUL;
        cases[i].activation = SYMM_NONE;
        cases[i].in = cases[i].out = _i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16;
        cases[i].m = 2 * (120 + 23 * (_i % 8));
        cases[i].l = cases[i].nb = 1;
        cases[i].n[0] = 8 * (40 + 9 * (_i % 5));
        cases[i].has_c = cases[i].has_bias = cases[i].gathered = false;
        cases[i].alpha = i ? &alpha : NULL;
    }
    setenv("SYMM_EMULATED_SMS", _i % 3 ? "5" : "3", 1); /* several tiles in a block */
    matmul_force_plain(_i);
    trace_begin();
    ranks_run_ok(1 + _i / MATMUL_PLAIN_SHAPES, RANKS_AS_PROCESSES, matmul_run_plan,
                 &(struct matmul_plan){.ncases = 2, .cases = cases}, 120);
    trace_end();
}

/* A forced shape whose clusters have no room beside an SM of transfers does not count. */
TEST(hopper_kernel, a_shape_without_room_does_not_count)
{
    setenv("SYMM_EMULATED_SMS", "2", 1);
    setenv("SYMM_MATMUL_SPLIT", "0", 1);
    for (int shape = 0; shape < MATMUL_SHAPES; shape++) {
        matmul_force_shape(shape);
        run(2, 150);
    }
}

/* Tiles of several shards follow each other in one ring of stages. */
TEST_LOOP(hopper_kernel, one_cluster_is_enough, 0, 2)
{
    setenv("SYMM_EMULATED_SMS", _i ? "3" : "2", 1);
    run(2 + _i, 100);
}

TEST_LOOP(hopper_kernel, weakly_ordered_memory_makes_no_difference, 0, 4)
{
    char seed[32];

    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    snprintf(seed, sizeof seed, "%d", 1 + (int)(reference_seed() % 10000) + _i);
    setenv("SYMM_EMULATED_SEED", seed, 1);
    setenv("SYMM_EMULATED_WEAK", "1", 1);
    run(2 + _i % 2, 200 + 5 * (unsigned)_i);
}

TEST(hopper_kernel, the_portable_kernel_on_request)
{
    const struct matmul_case c = draw(1);

    setenv("SYMM_MATMUL_WGMMA", "0", 1);
    trace_begin();
    ranks_run_ok(2, RANKS_AS_PROCESSES, matmul_run_plan,
                 &(struct matmul_plan){.ncases = 1, .cases = &c}, 120);
    ck_assert_int_eq(matmul_hopper_launches(0), 0);
    trace_end();
}

/* Every second rank has the portable kernel. The other ranks' settings ask for different tiles. */
static void run_unlike_ranks(struct rank *self, void *plan)
{
    setenv("SYMM_MATMUL_WGMMA", self->rank % 2 ? "0" : "1", 1);
    matmul_force_shape(self->rank);
    matmul_run_plan(self, plan);
}

/* Strips have whole tiles of the Hopper kernel. Tiles of the portable kernel cross their ends. */
TEST_LOOP(hopper_kernel, ranks_may_have_different_kernels, 0, 8)
{
    static const symm_matmul_kind kinds[] = {SYMM_ALL_GATHER_MATMUL, SYMM_MATMUL_REDUCE_SCATTER,
                                             SYMM_MATMUL_ALL_REDUCE, SYMM_MATMUL_ALL_SCATTER};
    const struct matmul_case c = {.kind = kinds[_i % 4],
                                  .in = SYMM_BFLOAT16,
                                  .out = SYMM_BFLOAT16,
                                  .m = 1200 + 61 * _i,
                                  .k = 136,
                                  .l = 1,
                                  .nb = 1,
                                  .n = {192},
                                  .contiguous = true,
                                  .layout = (uint64_t)_i};

    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer these shapes take minutes");
    setenv("SYMM_MATMUL_ENGINE_BYTES", _i / 4 ? "4G" : "16K", 1);
    trace_begin();
    ranks_run_ok(2 + _i % 3, RANKS_AS_PROCESSES, run_unlike_ranks,
                 &(struct matmul_plan){.ncases = 1, .cases = &c}, 120);
    if (c.kind == SYMM_ALL_GATHER_MATMUL) { /* collectives have kernels of as many threads */
        ck_assert_int_gt(matmul_hopper_launches(0), 0);
        ck_assert_int_eq(matmul_hopper_launches(1), 0);
    }
    trace_end();
}

/* Each kernel that splits k, on one rank and behind an all-gather. */
TEST_LOOP(hopper_kernel, k_of_few_rows_is_split, 0, 8)
{
    static const struct {
        int32_t m, n, k;
        const char *launch; /* tiles times parts; threads by the columns of a tile */
    } shapes[] = {
        {9, 200, 1160, "grid=12,1,1 block=256,1,1"},   /* 16 x 64 */
        {22, 200, 1160, "grid=12,1,1 block=256,1,1"},  /* 64 x 64 */
        {20, 1024, 1280, "grid=16,1,1 block=384,1,1"}, /* 64 x 128: or 16 tiles on 8 SMs */
        {102, 504, 712, "grid=16,1,1 block=256,1,1"},  /* 128 x 64 */
    };
    const bool gathered = _i % 2, plain = _i < 4;
    const struct matmul_case c = {.kind = gathered ? SYMM_ALL_GATHER_MATMUL : SYMM_MATMUL,
                                  .strategy = SYMM_STRATEGY_UNFUSED,
                                  .activation = plain ? SYMM_NONE : SYMM_SILU,
                                  .in = SYMM_BFLOAT16,
                                  .out = plain ? SYMM_BFLOAT16 : SYMM_FLOAT32,
                                  .addend = SYMM_FLOAT32,
                                  .m = shapes[_i % 4].m,
                                  .k = shapes[_i % 4].k,
                                  .l = 1,
                                  .nb = 1,
                                  .n = {shapes[_i % 4].n},
                                  .has_c = !plain,
                                  .has_bias = !plain,
                                  .contiguous = true,
                                  .layout = (uint64_t)_i};

    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer these shapes take minutes; smaller ones run above");
    trace_begin();
    ranks_run_ok(1 + gathered, RANKS_AS_PROCESSES, matmul_run_plan,
                 &(struct matmul_plan){.ncases = 1, .cases = &c}, 120);
    ck_assert_int_ge(trace_count(0, shapes[_i % 4].launch), 2);
    trace_end();
}

/*
 * Tiles of the last wave, of which two blocks have parts of k: of each shape whose clusters have
 * two blocks, of every kind, into D or slots on other ranks, and added to the other rank's parts.
 */
TEST_LOOP(hopper_kernel, two_blocks_share_k_in_the_last_wave, 0, 12)
{
    static const struct {
        symm_matmul_kind kind;
        int nranks;
        const char *sms;
        int32_t m, n, k;
        int shape; /* its number */
    } shapes[] = {
        {SYMM_MATMUL, 1, "5", 200, 128, 264, 3},
        {SYMM_MATMUL, 1, "5", 120, 192, 328, 10}, /* the lower tile has no rows */
        {SYMM_MATMUL, 1, "5", 300, 128, 272, 4},
        {SYMM_MATMUL, 1, "5", 390, 104, 280, 6},
        {SYMM_MATMUL, 1, "5", 200, 256, 256, 12},
        {SYMM_MATMUL, 1, "5", 590, 192, 264, 2}, /* behind waves of whole tiles */
        {SYMM_ALL_GATHER_MATMUL, 2, "9", 400, 192, 264, 12},
        {SYMM_ALL_GATHER_MATMUL, 3, "13", 600, 192, 328, 10},
        {SYMM_MATMUL_REDUCE_SCATTER, 2, "9", 400, 192, 264, 12},
        {SYMM_MATMUL_REDUCE_SCATTER, 3, "13", 600, 192, 264, 7},
        {SYMM_MATMUL_ALL_REDUCE, 2, "5", 200, 192, 328, 10},
        {SYMM_MATMUL_ALL_SCATTER, 2, "5", 200, 384, 264, 1},
    };
    const bool adds = _i % 2 == 0 && _i < 8;
    const struct matmul_case c = {.kind = shapes[_i].kind,
                                  .schedule = SYMM_SCHEDULE_STREAM_K,
                                  .activation = adds ? SYMM_GELU : SYMM_NONE,
                                  .in = SYMM_BFLOAT16,
                                  .out = SYMM_BFLOAT16,
                                  .addend = SYMM_FLOAT32,
                                  .m = shapes[_i].m,
                                  .k = shapes[_i].k,
                                  .l = 1,
                                  .nb = 1,
                                  .n = {shapes[_i].n},
                                  .has_c = adds,
                                  .contiguous = true,
                                  .layout = (uint64_t)_i};

    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer these shapes take minutes");
    setenv("SYMM_EMULATED_SMS", shapes[_i].sms, 1);
    setenv("SYMM_MATMUL_SPLIT", "0", 1);
    matmul_force_shape(shapes[_i].shape - 1);
    ranks_run_ok(shapes[_i].nranks, RANKS_AS_PROCESSES, matmul_run_plan,
                 &(struct matmul_plan){.ncases = 1, .cases = &c}, 120);
}
