/* The algorithms of cuBLASLt that compete for a product: parts of k, tiles, configurations. */
#include "abi/cublaslt_configuration.h"
#include "cublas_trial.h"
#include "matmul/cublas/candidates.h"

TEST_GROUP(candidates, 120, .uncounted = true);

enum { H200_SMS = 132, SLOW_US = 1500, CONFIGURED = FAKE_CUBLASLT_CONFIGURED };

/* Row-major d of m rows: cuBLASLt has it by columns, transposed. */
static struct cublaslt_shape shape_of(int m, int n, int k, int batches)
{
    return (struct cublaslt_shape){
        .a = {.rows = (uint64_t)n, .columns = (uint64_t)k},
        .b = {.rows = (uint64_t)k, .columns = (uint64_t)m},
        .d = {.transposed = true, .rows = (uint64_t)n, .columns = (uint64_t)m},
        .batches = batches,
    };
}

static int parts_of(int m, int n, int k, int batches, int nsms)
{
    const struct cublaslt_shape shape = shape_of(m, n, k, batches);

    return symm__cublas_k_parts(&shape, nsms);
}

TEST(candidates, few_tiles_with_a_long_k_have_four_parts)
{
    ck_assert_int_eq(parts_of(2, 1024, 2048, 1, H200_SMS), 4);
    ck_assert_int_eq(parts_of(1, 2304, 7168, 1, H200_SMS), 4);
    ck_assert_int_eq(parts_of(67, 2048, 4096, 1, H200_SMS), 4);
    ck_assert_int_eq(parts_of(234, 768, 4096, 1, H200_SMS), 4);
    ck_assert_int_eq(parts_of(12, 2048, 2048, 1, H200_SMS), 1);
    ck_assert_int_eq(parts_of(105, 2304, 6144, 1, H200_SMS), 1);
    ck_assert_int_eq(parts_of(4096, 4096, 16384, 1, H200_SMS), 1);
    ck_assert_int_eq(parts_of(1, 1536, 7168, 1, H200_SMS), 4); /* 24 tiles */
    ck_assert_int_eq(parts_of(1, 1536, 7168, 3, H200_SMS), 1);
    ck_assert_int_eq(parts_of(1, 1536, 7168, 1, 63), 1);
    ck_assert_int_eq(parts_of(1, 1536, 7168, 1, 64), 4);
    ck_assert_int_eq(parts_of(1, 1536, 1024 + 60 * 24 - 1, 1, H200_SMS), 1);
    ck_assert_int_eq(parts_of(1, 1536, 1024 + 60 * 24, 1, H200_SMS), 4);
}

/* Different ones, which cuBLASLt has, none with columns to spare. */
TEST(candidates, tiles_fit_the_shape)
{
    struct cublaslt_configuration tiles[SYMM_CUBLAS_TILES];

    for (int m = 1; m < 3000; m += m < 300 ? 1 : 97) {
        const struct cublaslt_shape shape = shape_of(m, 64 * (m % 71 + 1), 4096, 1);
        const int n = symm__cublas_tiles(&shape, H200_SMS, 1, tiles);
        ck_assert_int_ge(n, 5);
        for (int i = 0; i < n; i++) {
            const int columns = tiles[i].tile_columns;
            ck_assert_int_ne(symm__cublaslt_tile(tiles[i].tile_rows, columns), 0);
            ck_assert(columns == 8 || (m - 1) / columns < (m - 1) / (columns - 8));
            for (int j = 0; j < i; j++)
                ck_assert(tiles[i].tile_rows != tiles[j].tile_rows ||
                          columns != tiles[j].tile_columns);
        }
    }
}

/* One wave of 64 x 8; two waves of tiles cost twice as much. */
TEST(candidates, the_best_tile_comes_first)
{
    struct cublaslt_configuration tiles[SYMM_CUBLAS_TILES];
    struct cublaslt_shape shape = shape_of(1, 6272, 3584, 1);

    symm__cublas_tiles(&shape, H200_SMS, 1, tiles);
    ck_assert_int_eq(tiles[0].tile_rows, 64);
    ck_assert_int_eq(tiles[0].tile_columns, 8);
    shape = shape_of(1, 2 * 6272, 3584, 1);
    symm__cublas_tiles(&shape, H200_SMS, 1, tiles);
    ck_assert_int_eq(tiles[0].tile_rows, 128);
    shape = shape_of(4096, 4096, 4096, 1);
    symm__cublas_tiles(&shape, H200_SMS, 1, tiles);
    ck_assert_int_ge(tiles[0].tile_rows * tiles[0].tile_columns, 128 * 128);
}

TEST(candidates, tiles_have_different_numbers)
{
    bool seen[1024] = {false};

    for (int rows = 0; rows <= 512; rows++)
        for (int columns = -8; columns <= 512; columns++) {
            const int number = symm__cublaslt_tile(rows, columns);
            ck_assert(number >= 0 && number < 1024 && !(number > 0 && seen[number]));
            seen[number] = number > 0;
        }
    ck_assert_int_eq(symm__cublaslt_tile(64, 264), 0);
    ck_assert_int_eq(symm__cublaslt_tile(64, 12), 0);
    ck_assert_int_eq(symm__cublaslt_tile(64, 0), 0);
}

/* ------------------------------------------------------------------------------------- products */

static void open_with_trials(bool trials)
{
    open_fake();
    setenv("SYMM_MATMUL_TRIALS", trials ? "1" : "0", 1);
    for (int i = 0; i <= CONFIGURED; i++)
        fake->us[i] = SLOW_US;
}

static void takes(struct trial t, int algorithm)
{
    ranks_run_ok(1, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    ck_assert_int_eq(fake->algorithm, algorithm);
    ck_assert_int_eq(fake->objects, 0);
}

static struct trial one_part(void)
{
    return (struct trial){.c = simple(7, 24, 8)};
}

static struct trial four_parts(void)
{
    return (struct trial){.c = simple(2, 1088, 2)};
}

/* Of small and of large tiles, which want other options. */
TEST_LOOP(candidates, the_fastest_may_be_configured, 0, 2)
{
    const int custom = _i ? 5 : 1;

    open_with_trials(true);
    fake->custom = custom;
    fake->us[CONFIGURED] = 0;
    takes(one_part(), CONFIGURED);
    ck_assert_int_eq(fake->configuration.k_parts, 1);
    ck_assert_int_ge(fake->configuration.custom, custom);
    fake->us[CONFIGURED] = SLOW_US;
    fake->us[3] = 0;
    takes(one_part(), 3);
}

/* They cannot run, or the library cannot configure. */
TEST_LOOP(candidates, without_configurations_proposals_compete, 0, 3)
{
    static const char *const calls[] = {"cublasLtMatmulAlgoCheck",
                                        "cublasLtMatmulAlgoConfigSetAttribute", ""};

    open_with_trials(true);
    fake->custom = 1;
    fake->us[4] = 0;
    setenv("FAKE_CUBLASLT_FAILS", calls[_i], 1);
    fake->fails = *calls[_i] ? 0 : 1u << CONFIGURED;
    fake->us[CONFIGURED] = 0;
    takes(one_part(), 4);
}

TEST(candidates, proposals_with_other_parts_do_not_compete)
{
    struct trial t = one_part();

    open_with_trials(true);
    fake->k_parts[0] = fake->k_parts[3] = 2;
    fake->us[0] = 0;
    fake->us[3] = SLOW_US / 4;
    fake->us[4] = SLOW_US / 2;
    takes(t, 4);
    t.c.any_order = true;
    takes(t, 0);
}

/* With and without trials. */
TEST_LOOP(candidates, four_parts_are_taken_from_proposals, 0, 2)
{
    open_with_trials(_i);
    fake->k_parts[4] = 4;
    fake->us[0] = 0;
    takes(four_parts(), 4);
    ck_assert_int_eq(fake->configuration.k_parts, 4);
}

TEST_LOOP(candidates, four_parts_are_configured, 0, 2)
{
    open_with_trials(_i);
    fake->custom = 1;
    fake->us[0] = 0;
    takes(four_parts(), CONFIGURED);
    ck_assert_int_eq(fake->configuration.k_parts, 4);
    ck_assert_int_eq(fake->configuration.reduction, 2);
}

/* If nothing has as many parts as it should, the first proposal's bits count. */
TEST_LOOP(candidates, the_first_proposal_decides_otherwise, 0, 2)
{
    open_with_trials(_i);
    fake->k_parts[0] = fake->k_parts[5] = 2;
    fake->us[2] = 0;
    fake->us[5] = SLOW_US / 2;
    takes(four_parts(), _i ? 5 : 0);
}
