/*
 * The epilogue on Hopper GPUs. A warp has 16 rows of all columns of a tile; a thread has pairs of
 * neighbouring accumulators, as wgmma leaves them.
 */
#ifndef SYMM_MATMUL_SM90_STORE_CUH
#define SYMM_MATMUL_SM90_STORE_CUH

#include "matmul/kernels/epilogue.cuh"
#include "matmul/kernels/epilogue_smem.cuh"
#include "ptx.cuh"

namespace sm90
{

enum { WARPGROUP = 128, WARP_ROWS = 16 };

/* The first of this warp's rows in the tile. */
SYMM_DEV int32_t warp_row(void)
{
    return ((int32_t)threadIdx.x - WARPGROUP) / 32 * WARP_ROWS;
}

/* One warp's store buffer: 16 x 64 results of 16 bits, padded against bank conflicts. */
struct store_smem {
    enum { COLUMNS = 64, PITCH = COLUMNS + 8 };
    uint16_t at[WARP_ROWS][PITCH];
};
static_assert(sizeof(store_smem) <= sizeof(epilogue_smem<WARP_ROWS>), "they share the memory");

/*
 * Fills 16 columns. The first 16 threads give the addresses of the left half, the others the right.
 */
SYMM_DEV void fill(store_smem &to, int32_t column, const uint32_t (&words)[4])
{
    const int32_t lane = (int32_t)threadIdx.x % 32;
    stmatrix_x4(&to.at[lane % 16][column + lane / 16 * 8], words);
}

/* Whether the epilogue of every product is_plain_scale(). */
SYMM_DEV bool all_plain_scale(const symm_product_args &a)
{
    tile t = {};

    while (t.product < a.nb && epilogue(a, t).is_plain_scale())
        t.product++;
    return t.product == a.nb;
}

/*
 * The results of a tile whose epilogue is_plain_scale(), as 16-bit values in registers. They are
 * stored later, while the next tile is multiplied, in rounds of 64 columns. Initially empty.
 */
template <int ACCUMULATORS> struct deferred_store {
    enum {
        COLUMNS = ACCUMULATORS * 2,
        ROUNDS = (COLUMNS + store_smem::COLUMNS - 1) / store_smem::COLUMNS
    };

    uint32_t words[ACCUMULATORS / 2] = {};
    uint16_t *to = nullptr; /* this thread's first element of D */
    int64_t pitch = 0;
    int32_t rows = 0, columns = 0; /* of the tile, from there on */

    /* Sets the place of the next results. */
    SYMM_DEV_IN_CLASS void aim(const epilogue &end)
    {
        const int32_t row = warp_row() + lane() / 8, column = lane() % 8 * 8;

        to = static_cast<uint16_t *>(end.to.d.data) + end.to.offset(row, column);
        pitch = end.to.d.row;
        rows = end.to.t.rows - row;
        columns = end.to.t.columns - column;
    }

    /* Takes the results: scales the accumulators and rounds them to 16 bits. */
    SYMM_DEV_IN_CLASS void hold(const float (&d)[ACCUMULATORS], const epilogue &end)
    {
        if (end.to.d.dtype == SYMM_FLOAT16)
            narrow<symm_f16>(d, end.f.a.alpha);
        else
            narrow<symm_bf16>(d, end.f.a.alpha);
    }

    /* Stores the columns of one round; nothing after the last round. A warp. */
    SYMM_DEV_IN_CLASS void put(int32_t round, store_smem &s) const
    {
#pragma unroll
        for (int32_t i = 0; i < ROUNDS; i++) /* constant indices keep the words in registers */
            if (i == round)
                put_columns(i * store_smem::COLUMNS, s);
    }

    /* Stores this round and all later ones. A warp. */
    SYMM_DEV_IN_CLASS void put_rest(int32_t round, store_smem &s) const
    {
#pragma unroll
        for (int32_t i = 0; i < ROUNDS; i++)
            if (i >= round)
                put_columns(i * store_smem::COLUMNS, s);
    }

  private:
    SYMM_DEV_IN_CLASS static int32_t lane(void)
    {
        return (int32_t)threadIdx.x % 32;
    }

    /* The tensor cores are idle meanwhile, so a factor of 1 is left out. */
    template <typename D> SYMM_DEV_IN_CLASS void narrow(const float (&d)[ACCUMULATORS], float alpha)
    {
        if (alpha == 1) {
#pragma unroll
            for (int32_t i = 0; i < ACCUMULATORS; i += 2)
                words[i / 2] = symm_detail::narrow2<D>(d[i], d[i + 1]);
        } else {
#pragma unroll
            for (int32_t i = 0; i < ACCUMULATORS; i += 2)
                words[i / 2] = symm_detail::narrow2<D>(alpha * d[i], alpha * d[i + 1]);
        }
    }

    SYMM_DEV_IN_CLASS void put_columns(int32_t first, store_smem &s) const
    {
        constexpr int32_t BLOCK = 16, UNROLL = 32 / (store_smem::COLUMNS / 8);

        __syncwarp();
#pragma unroll
        for (int32_t j = first; j < first + store_smem::COLUMNS && j < COLUMNS; j += BLOCK)
            fill(s, j - first,
                 {words[j / 4], words[j / 4 + 1], words[j / 4 + 2], words[j / 4 + 3]});
        __syncwarp();
#pragma unroll
        for (int32_t q = 0; q < WARP_ROWS; q += UNROLL)
            if (q < rows && first < columns)
                symm_dev_store_bits(
                    to + q * pitch + first,
                    *reinterpret_cast<symm_bits16 *>(&s.at[lane() / 8 + q][lane() % 8 * 8]));
    }
};

/* Any epilogue: through shared memory in fp32, 32 columns at a time. */
template <int ACCUMULATORS>
SYMM_DEV void put_through_smem(const float (&d)[ACCUMULATORS], epilogue_smem<WARP_ROWS> &s,
                               const epilogue &end)
{
    constexpr int32_t AT_ONCE = SMEM_COLUMNS / 8 * 4;
    const int32_t lane = (int32_t)threadIdx.x % 32;

#pragma unroll 1
    for (int32_t column = 0; column < ACCUMULATORS * 2; column += SMEM_COLUMNS) {
        __syncwarp();
#pragma unroll
        for (int32_t i = 0; i < ACCUMULATORS; i += 2) /* constant indices, as above */
            if (i / AT_ONCE == column / SMEM_COLUMNS)
                *reinterpret_cast<float2 *>(
                    &s.at[lane / 4 + i / 2 % 2 * 8][i % AT_ONCE / 4 * 8 + lane % 4 * 2]) =
                    make_float2(d[i], d[i + 1]);
        __syncwarp();
        put_smem(s, warp_row(), column, end);
    }
}

template <int ACCUMULATORS>
SYMM_DEV void put_accumulators(const float (&d)[ACCUMULATORS], epilogue_smem<WARP_ROWS> &s,
                               const epilogue &end)
{
    if (!end.is_plain_scale()) {
        put_through_smem(d, s, end);
        return;
    }
    deferred_store<ACCUMULATORS> results;
    results.aim(end);
    results.hold(d, end);
    results.put_rest(0, reinterpret_cast<store_smem &>(s));
}

} /* namespace sm90 */

#endif
