/*
 * The end of a tile on Hopper GPUs: a warp has 16 rows of all columns, a thread of it pairs of sums
 * beside each other, as wgmma leaves them.
 */
#ifndef SYMM_MATMUL_SM90_SUMS_CUH
#define SYMM_MATMUL_SM90_SUMS_CUH

#include "epilogue.cuh"
#include "patch.cuh"
#include "sm90_cuda.cuh"

namespace sm90
{

enum { WARPGROUP = 128, WARP_ROWS = 16 };

/* The first of the tile's rows that this warp has. */
SYMM_DEV int32_t warp_row(void)
{
    return ((int32_t)threadIdx.x - WARPGROUP) / 32 * WARP_ROWS;
}

/* Whatever of a warp's 64 columns is alpha times the sum, in 16 bits, as lines of shared memory. */
struct lines {
    enum { COLUMNS = 64, PITCH = COLUMNS + 8 /* keeps lines in different banks */ };
    uint16_t at[WARP_ROWS][PITCH];
};
static_assert(sizeof(lines) <= sizeof(patch<WARP_ROWS>), "they lie in the same place");

/* Four threads have a row's 8 columns in their words; the first 16 threads name the lines. */
SYMM_DEV void fill(lines &to, int32_t column, uint32_t (&words)[4])
{
    const int32_t lane = (int32_t)threadIdx.x % 32;
    store_matrices(&to.at[lane % 16][column + lane / 16 * 8], words);
}

template <typename D, int SUMS>
SYMM_DEV void put_scaled(const float (&d)[SUMS], lines &p, const tile_end &end)
{
    constexpr int32_t BLOCK = 16, BLOCK_SUMS = BLOCK / 2, AT_ONCE = 32 / (lines::COLUMNS / 8);
    const int32_t lane = (int32_t)threadIdx.x % 32, row = lane / 8, column = lane % 8 * 8;
    uint16_t *const to =
        static_cast<uint16_t *>(end.d().data) + end.place(warp_row() + row, column);

#pragma unroll
    for (int32_t i = 0; i < SUMS * 2; i += lines::COLUMNS) {
        __syncwarp();
#pragma unroll
        for (int32_t j = 0; j < lines::COLUMNS && i + j < SUMS * 2; j += BLOCK) {
            const float *x = d + (i + j) / 2;
            uint32_t words[BLOCK_SUMS / 2];
#pragma unroll
            for (int32_t q = 0; q < BLOCK_SUMS; q += 2)
                words[q / 2] = symm_detail::narrow2<D>(end.a.alpha * x[q], end.a.alpha * x[q + 1]);
            fill(p, j, words);
        }
        __syncwarp();
#pragma unroll
        for (int32_t q = 0; q < WARP_ROWS; q += AT_ONCE)
            if (i + column < SUMS * 2 && end.has(warp_row() + row + q, i + column))
                symm_dev_store_bits(to + q * end.d().row + i,
                                    *reinterpret_cast<symm_bits16 *>(&p.at[row + q][column]));
    }
}

/* By way of shared memory, 32 columns at a time. */
template <int SUMS>
SYMM_DEV void put_by_patch(const float (&d)[SUMS], patch<WARP_ROWS> &p, const tile_end &end)
{
    constexpr int32_t AT_ONCE = PATCH_COLUMNS / 8 * 4;
    const int32_t lane = (int32_t)threadIdx.x % 32;

#pragma unroll 1
    for (int32_t column = 0; column < SUMS * 2; column += PATCH_COLUMNS) {
        __syncwarp();
#pragma unroll
        for (int32_t i = 0; i < SUMS; i += 2) /* whose place among the registers is constant */
            if (i / AT_ONCE == column / PATCH_COLUMNS)
                *reinterpret_cast<float2 *>(
                    &p.at[lane / 4 + i / 2 % 2 * 8][i % AT_ONCE / 4 * 8 + lane % 4 * 2]) =
                    make_float2(d[i], d[i + 1]);
        __syncwarp();
        put_patch(p, warp_row(), column, end);
    }
}

template <int SUMS>
SYMM_DEV void put_sums(const float (&d)[SUMS], patch<WARP_ROWS> &p, const tile_end &end)
{
    if (!end.only_scaled())
        put_by_patch(d, p, end);
    else if (end.d().dtype == SYMM_FLOAT16)
        put_scaled<symm_f16>(d, reinterpret_cast<lines &>(p), end);
    else
        put_scaled<symm_bf16>(d, reinterpret_cast<lines &>(p), end);
}

} /* namespace sm90 */

#endif
