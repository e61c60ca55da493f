/* The tiles of cuBLASLt's kernel that fit a product, and its parts of k. */
#include "abi/cublaslt_configuration.h"
#include "matmul/plan/cublas_tiles.h"
#include "test.h"

TEST_GROUP(tiles, 30);

enum { H200_SMS = 132 };

/* Row-major d of m rows: cuBLASLt has it by columns, transposed. */
static struct symm_cublas_extents product(int m, int n, int k, int batches)
{
    return (struct symm_cublas_extents){(uint64_t)n, (uint64_t)m, (uint64_t)k, batches};
}

static int parts_of(int m, int n, int k, int batches, int nsms)
{
    const struct symm_cublas_extents x = product(m, n, k, batches);

    return symm__cublas_k_parts(&x, nsms);
}

TEST(tiles, few_tiles_with_a_long_k_have_four_parts)
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
TEST(tiles, tiles_fit_the_shape)
{
    struct symm_cublas_tile tiles[SYMM_CUBLAS_TILES];

    for (int m = 1; m < 3000; m += m < 300 ? 1 : 97) {
        const struct symm_cublas_extents x = product(m, 64 * (m % 71 + 1), 4096, 1);
        const int n = symm__cublas_tiles(&x, H200_SMS, tiles);
        ck_assert_int_ge(n, 5);
        for (int i = 0; i < n; i++) {
            const int columns = tiles[i].columns;
            ck_assert_int_ne(symm__cublaslt_tile(tiles[i].rows, columns), 0);
            ck_assert(columns == 8 || (m - 1) / columns < (m - 1) / (columns - 8));
            for (int j = 0; j < i; j++)
                ck_assert(tiles[i].rows != tiles[j].rows || columns != tiles[j].columns);
        }
    }
}

/* One wave of 64 x 8; two waves of tiles cost twice as much. */
TEST(tiles, the_best_tile_comes_first)
{
    struct symm_cublas_tile tiles[SYMM_CUBLAS_TILES];
    struct symm_cublas_extents x = product(1, 6272, 3584, 1);

    symm__cublas_tiles(&x, H200_SMS, tiles);
    ck_assert_int_eq(tiles[0].rows, 64);
    ck_assert_int_eq(tiles[0].columns, 8);
    x = product(1, 2 * 6272, 3584, 1);
    symm__cublas_tiles(&x, H200_SMS, tiles);
    ck_assert_int_eq(tiles[0].rows, 128);
    x = product(4096, 4096, 4096, 1);
    symm__cublas_tiles(&x, H200_SMS, tiles);
    ck_assert_int_ge(tiles[0].rows * tiles[0].columns, 128 * 128);
}
