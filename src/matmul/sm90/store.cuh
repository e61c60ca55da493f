/*
 * The end of a tile on Hopper GPUs: a warp has 16 rows of all columns, a thread of it pairs of sums
 * beside each other, as wgmma leaves them.
 */
#ifndef SYMM_MATMUL_SM90_SUMS_CUH
#define SYMM_MATMUL_SM90_SUMS_CUH

#include "matmul/kernels/epilogue.cuh"
#include "matmul/kernels/epilogue_smem.cuh"
#include "ptx.cuh"

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
SYMM_DEV void fill(lines &to, int32_t column, const uint32_t (&words)[4])
{
    const int32_t lane = (int32_t)threadIdx.x % 32;
    store_matrices(&to.at[lane % 16][column + lane / 16 * 8], words);
}

/* Whether all tiles of all products end so. */
SYMM_DEV bool all_only_scaled(const symm_product_args &a)
{
    tile t = {};

    while (t.product < a.nb && tile_end(a, t).only_scaled())
        t.product++;
    return t.product == a.nb;
}

/*
 * Sums that only_scaled() ends, in 16 bits: half the registers, in which they wait until there is
 * time to store them, in turns of 64 columns each. At first there are none.
 */
template <int SUMS> struct held_sums {
    enum { COLUMNS = SUMS * 2, TURNS = (COLUMNS + lines::COLUMNS - 1) / lines::COLUMNS };

    uint32_t words[SUMS / 2] = {};
    uint16_t *to = nullptr; /* this thread's first place in D */
    int64_t pitch = 0;
    int32_t rows = 0, columns = 0; /* of the tile, from there on */

    /* Where the next sums will go. */
    SYMM_DEV_IN_CLASS void aim(const tile_end &end)
    {
        const int32_t row = warp_row() + lane() / 8, column = lane() % 8 * 8;

        to = static_cast<uint16_t *>(end.d().data) + end.place(row, column);
        pitch = end.d().row;
        rows = end.t.rows - row;
        columns = end.t.columns - column;
    }

    SYMM_DEV_IN_CLASS void hold(const float (&d)[SUMS], const tile_end &end)
    {
        if (end.d().dtype == SYMM_FLOAT16)
            narrow<symm_f16>(d, end.a.alpha);
        else
            narrow<symm_bf16>(d, end.a.alpha);
    }

    /* A warp. */
    SYMM_DEV_IN_CLASS void put(int32_t turn, lines &p) const
    {
#pragma unroll
        for (int32_t i = 0; i < TURNS; i++) /* whose place among the registers is constant */
            if (i == turn)
                put_columns(i * lines::COLUMNS, p);
    }

    /* This turn and all after it. */
    SYMM_DEV_IN_CLASS void put_rest(int32_t turn, lines &p) const
    {
#pragma unroll
        for (int32_t i = 0; i < TURNS; i++)
            if (i >= turn)
                put_columns(i * lines::COLUMNS, p);
    }

  private:
    SYMM_DEV_IN_CLASS static int32_t lane(void)
    {
        return (int32_t)threadIdx.x % 32;
    }

    /* While this goes on nothing is multiplied: so 1 is not multiplied by. */
    template <typename D> SYMM_DEV_IN_CLASS void narrow(const float (&d)[SUMS], float alpha)
    {
        if (alpha == 1) {
#pragma unroll
            for (int32_t i = 0; i < SUMS; i += 2)
                words[i / 2] = symm_detail::narrow2<D>(d[i], d[i + 1]);
        } else {
#pragma unroll
            for (int32_t i = 0; i < SUMS; i += 2)
                words[i / 2] = symm_detail::narrow2<D>(alpha * d[i], alpha * d[i + 1]);
        }
    }

    SYMM_DEV_IN_CLASS void put_columns(int32_t first, lines &p) const
    {
        constexpr int32_t BLOCK = 16, AT_ONCE = 32 / (lines::COLUMNS / 8);

        __syncwarp();
#pragma unroll
        for (int32_t j = first; j < first + lines::COLUMNS && j < COLUMNS; j += BLOCK)
            fill(p, j - first,
                 {words[j / 4], words[j / 4 + 1], words[j / 4 + 2], words[j / 4 + 3]});
        __syncwarp();
#pragma unroll
        for (int32_t q = 0; q < WARP_ROWS; q += AT_ONCE)
            if (q < rows && first < columns)
                symm_dev_store_bits(
                    to + q * pitch + first,
                    *reinterpret_cast<symm_bits16 *>(&p.at[lane() / 8 + q][lane() % 8 * 8]));
    }
};

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
    if (!end.only_scaled()) {
        put_by_patch(d, p, end);
        return;
    }
    held_sums<SUMS> held;
    held.aim(end);
    held.hold(d, end);
    held.put_rest(0, reinterpret_cast<lines &>(p));
}

} /* namespace sm90 */

#endif
