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

enum {
    PACK_COLUMNS = 8,
    ROUND_COLUMNS = SYMM_WGMMA_LINE /* columns that a warp stores together */
};

/* One warp's store buffer: 16 x 64 results of 16 bits, padded against bank conflicts. */
struct store_smem {
    uint16_t at[WARP_ROWS][ROUND_COLUMNS + PACK_COLUMNS];

    SYMM_DEV_IN_CLASS uint16_t *pack(int32_t row, int32_t column)
    {
        return &at[row][column];
    }

    template <typename Memory> SYMM_DEV_IN_CLASS static store_smem &of(Memory &m, uint32_t warp)
    {
        return reinterpret_cast<store_smem &>(m.warps[warp]);
    }

    /* This lane has filled its rows. */
    SYMM_DEV_IN_CLASS void filled(void) const
    {
    }
};
static_assert(sizeof(store_smem) <= sizeof(epilogue_smem<WARP_ROWS>), "they share the memory");

/*
 * Fills 16 columns. The first 16 threads give the addresses of the left half, the others the right.
 */
template <typename Smem> SYMM_DEV void fill(Smem &to, int32_t column, const uint32_t (&words)[4])
{
    const int32_t lane = (int32_t)threadIdx.x % 32;
    stmatrix_x4(to.pack(lane % 16, column + lane / 16 * PACK_COLUMNS), words);
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
        SENDS = false,  /* to slots */
        PASSES = false, /* stored tiles to followers */
        COLUMNS = ACCUMULATORS * 2,
        ROUNDS = (COLUMNS + ROUND_COLUMNS - 1) / ROUND_COLUMNS
    };
    using smem = store_smem;

    uint32_t words[ACCUMULATORS / 2] = {};
    uint16_t *to = nullptr; /* this thread's first element of D */
    int64_t pitch = 0;
    int32_t rows = 0, columns = 0; /* of the tile, from there on */

    /* Sets the place of the next results. set: see set_offset(). */
    SYMM_DEV_IN_CLASS void aim(const symm_product_args &a, const tile &t, int64_t set)
    {
        const epilogue end(a, t, set);
        const int32_t row = warp_row() + lane() / 8, column = lane() % 8 * 8;

        to = static_cast<uint16_t *>(end.to.data) + end.to.offset(row, column);
        pitch = end.to.d.row;
        rows = end.to.t.rows - row;
        columns = end.to.t.columns - column;
    }

    /* Takes the results: scales the accumulators and rounds them to 16 bits. */
    SYMM_DEV_IN_CLASS void hold(const float (&d)[ACCUMULATORS], const tile &t,
                                const symm_product_args &a)
    {
        if (a.d[t.product].dtype == SYMM_FLOAT16)
            narrow<symm_f16>(d, a.alpha);
        else
            narrow<symm_bf16>(d, a.alpha);
    }

    /* Step `step` of the next tile: stores the columns of one round. A warp. */
    SYMM_DEV_IN_CLASS void put(int32_t step, int32_t, store_smem &s, const symm_wgmma_args &) const
    {
#pragma unroll
        for (int32_t i = 0; i < ROUNDS; i++) /* constant indices keep the words in registers */
            if (i == step)
                put_columns(i * ROUND_COLUMNS, s);
    }

    /* After that many steps: stores the rest. A warp. */
    SYMM_DEV_IN_CLASS void put_rest(int32_t steps, store_smem &s, const symm_wgmma_args &) const
    {
#pragma unroll
        for (int32_t i = 0; i < ROUNDS; i++)
            if (i >= steps)
                put_columns(i * ROUND_COLUMNS, s);
    }

  protected:
    enum { ROWS_AT_ONCE = 32 / (ROUND_COLUMNS / 8) /* of a warp's store */ };

    SYMM_DEV_IN_CLASS static int32_t lane(void)
    {
        return (int32_t)threadIdx.x % 32;
    }

    template <typename Smem> SYMM_DEV_IN_CLASS void fill_columns(int32_t first, Smem &s) const
    {
        constexpr int32_t BLOCK = 16;

        __syncwarp();
#pragma unroll
        for (int32_t j = first; j < first + ROUND_COLUMNS && j < COLUMNS; j += BLOCK)
            fill(s, j - first,
                 {words[j / 4], words[j / 4 + 1], words[j / 4 + 2], words[j / 4 + 3]});
        s.filled();
        __syncwarp();
    }

    template <typename Smem> SYMM_DEV_IN_CLASS void fill_round(int32_t round, Smem &s) const
    {
#pragma unroll
        for (int32_t i = 0; i < ROUNDS; i++) /* constant indices, as above */
            if (i == round)
                fill_columns(i * ROUND_COLUMNS, s);
    }

    /* This thread's pack of the rows from q on. */
    SYMM_DEV_IN_CLASS static symm_bits16 pack_of(const store_smem &s, int32_t q)
    {
        return *reinterpret_cast<const symm_bits16 *>(&s.at[lane() / 8 + q][lane() % 8 * 8]);
    }

  private:
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
        fill_columns(first, s);
#pragma unroll
        for (int32_t q = 0; q < WARP_ROWS; q += this->ROWS_AT_ONCE)
            if (q < rows && first < columns)
                symm_dev_store_bits(to + q * pitch + first, pack_of(s, q));
    }
};

/*
 * The same for results that cross a link, or several: they are stored during all of the next tile,
 * a few rows for one rank at a time, because the tensor cores stand still while a link is full.
 */
template <int ACCUMULATORS> struct paced_store : deferred_store<ACCUMULATORS> {
    using base = deferred_store<ACCUMULATORS>;
    enum {
        SENDS = true,
        PARTS_OF_ROUND = WARP_ROWS / base::ROWS_AT_ONCE,
        PARTS = base::ROUNDS * PARTS_OF_ROUND
    };

    int32_t part = PARTS;
    int32_t receiver = 0; /* the next ones; receivers count from this rank */

    SYMM_DEV_IN_CLASS void aim(const symm_product_args &a, const tile &t, int64_t set)
    {
        base::aim(a, t, set);
        part = receiver = 0;
    }

    SYMM_DEV_IN_CLASS void put(int32_t step, int32_t steps, store_smem &s,
                               const symm_wgmma_args &args)
    {
        const int32_t n = receivers(args.product);

#pragma unroll 1
        while (part < PARTS && (part * n + receiver) * steps <= step * PARTS * n)
            put_part(n, s, args.product);
    }

    SYMM_DEV_IN_CLASS void put_rest(int32_t, store_smem &s, const symm_wgmma_args &args)
    {
#pragma unroll 1
        while (part < PARTS)
            put_part(receivers(args.product), s, args.product);
    }

  private:
    SYMM_DEV_IN_CLASS static int32_t receivers(const symm_product_args &a)
    {
        return a.sink == SYMM_TO_ALL ? a.view.nranks : 1;
    }

    SYMM_DEV_IN_CLASS void put_part(int32_t n, store_smem &s, const symm_product_args &a)
    {
        const int32_t first = part / PARTS_OF_ROUND * ROUND_COLUMNS,
                      q = part % PARTS_OF_ROUND * base::ROWS_AT_ONCE;

        if (q == 0 && receiver == 0)
            this->fill_round(part / PARTS_OF_ROUND, s);
        if (q < this->rows && first < this->columns) {
            uint16_t *there = this->to + q * this->pitch + first;
            if (a.sink == SYMM_TO_ALL)
                there = symm_dev_peer(a.view, there, (a.view.rank + receiver) % n);
            symm_dev_store_bits(there, base::pack_of(s, q));
        }
        if (++receiver == n) {
            receiver = 0;
            part++;
        }
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

} /* namespace sm90 */

#endif
