/*
 * Sums of an all-reduce by the switch, beside the product. All ranks' results lie in their own
 * workspaces. A block waits until this rank's product has stored a band's tiles, meets the other
 * ranks' blocks of its number, lets the switch add this rank's share of the rows, and stores the
 * sums to all ranks by the switch. Then it copies the band before to D: the barrier said that the
 * other ranks have stored their shares of that one.
 *
 * Signals do not order accesses by multicast addresses, hence a barrier for each band.
 *
 * Blocks wait for other ranks, on SMs that the product leaves free. The product waits for nothing.
 */
#ifndef SYMM_MATMUL_SUM_BANDS_CUH
#define SYMM_MATMUL_SUM_BANDS_CUH

#include "collect.cuh"

enum { BAND_AT_ONCE = 4 /* packs of a thread whose loads are in flight together */ };

/* The tiles of a band of rows in one column of tiles. */
struct band {
    int32_t product, batch, row, rows, column, columns;
};

/* Bands in the order in which products store them. */
struct bands {
    const symm_product_args &p;
    int32_t across, down;

    SYMM_DEV_IN_CLASS explicit bands(const symm_product_args &args)
        : p(args), across(columns_of_tiles(args, args.nb)),
          down((args.a.m + args.parts.band_rows - 1) / args.parts.band_rows)
    {
    }

    SYMM_DEV_IN_CLASS int32_t count(void) const
    {
        return p.a.l * down * across;
    }

    SYMM_DEV_IN_CLASS band at(int32_t index) const
    {
        const int32_t row = index / across % down * p.parts.band_rows;
        int32_t column = index % across, product = 0;

        for (int32_t wide;
             column >= (wide = columns_of_tiles(p, product + 1) - columns_of_tiles(p, product));
             product++)
            column -= wide;
        column *= p.parts.columns;
        return {product, index / across / down,
                row,     min(p.parts.band_rows, p.a.m - row),
                column,  min(p.parts.columns, p.n[product] - column)};
    }
};

/* Waits until this rank's product has stored the band's tiles. Whole block. */
SYMM_DEV void await_tiles(const symm_product_args &p, const band &b, uint32_t runs)
{
    for (int32_t i = (int32_t)threadIdx.x; i * p.parts.rows < b.rows; i += (int32_t)blockDim.x) {
        const int32_t channel =
            channel_of_tile(p, p.view.rank, b.product, b.batch, b.row + i * p.parts.rows, b.column);
        if (!p.parts.beside) /* the product has ended */
            symm_dev_signal(p.view, p.parts.pad, channel, p.view.rank);
        await_part(p, channel, runs);
    }
}

/*
 * Visits the packs of rows of a band, some of a thread at a time: load(k, row, pack) of each, so
 * that the loads are in flight together, then store(k, row, pack). Whole block.
 */
template <typename Load, typename Store>
SYMM_DEV void for_packs_of_band(int32_t rows, int32_t across, const Load &load, const Store &store)
{
    const int32_t n = rows * across, step = (int32_t)blockDim.x;

    for (int32_t i = (int32_t)threadIdx.x; i < n; i += BAND_AT_ONCE * step) {
#pragma unroll
        for (int32_t k = 0; k < BAND_AT_ONCE; k++)
            if (i + k * step < n)
                load(k, (i + k * step) / across, (i + k * step) % across);
#pragma unroll
        for (int32_t k = 0; k < BAND_AT_ONCE; k++)
            if (i + k * step < n)
                store(k, (i + k * step) / across, (i + k * step) % across);
    }
}

/* The sum of all ranks' 16 bytes at `from`. Thread. */
template <typename T> SYMM_DEV symm_bits16 sum_of_all(const symm_product_args &p, const T *from)
{
    if (p.parts.by_switch)
        return symm_dev_multimem_reduce<SYMM_SUM>(symm_dev_multicast(p.view, from));
    return symm_dev_pack(symm_dev_sum(p.view, from));
}

/* Stores 16 bytes to all ranks. Thread. */
template <typename T>
SYMM_DEV void store_to_all(const symm_product_args &p, T *to, const symm_bits16 &x)
{
    if (p.parts.by_switch)
        symm_dev_multimem_store_bits(symm_dev_multicast(p.view, to), x);
    else
        symm_dev_store_all(p.view, to, symm_dev_unpack<T>(x));
}

/* This rank's share of the band's rows. Whole block. */
template <typename T> SYMM_DEV void sum_share(const symm_collect_args &a, const band &b)
{
    constexpr int32_t N = 16 / sizeof(T);
    const symm_matrix &from = a.of_rank[b.product], &sums = a.sums[b.product];
    const int32_t first = b.row + symm__first_row_of_rank(b.rows, a.nranks, a.rank),
                  rows = symm__rows_of_rank(b.rows, a.nranks, a.rank);
    symm_bits16 x[BAND_AT_ONCE];

    for_packs_of_band(
        rows, (b.columns + N - 1) / N,
        [&](int32_t k, int32_t row, int32_t pack) {
            x[k] = sum_of_all(a.product,
                              static_cast<const T *>(from.data) +
                                  offset_of(from, b.batch, first + row, b.column + pack * N));
        },
        [&](int32_t k, int32_t row, int32_t pack) {
            store_to_all(a.product,
                         static_cast<T *>(sums.data) +
                             offset_of(sums, b.batch, first + row, b.column + pack * N),
                         x[k]);
        });
}

SYMM_DEV void sum_share(const symm_collect_args &a, const band &b)
{
    switch (a.of_rank[b.product].dtype) {
    case SYMM_FLOAT16:
        return sum_share<symm_f16>(a, b);
    case SYMM_BFLOAT16:
        return sum_share<symm_bf16>(a, b);
    default:
        return sum_share<float>(a, b);
    }
}

/* Stores the columns of a pack that the band has, up to N of them. */
template <typename T, int32_t N>
SYMM_DEV void store_columns(T *to, int64_t step, int32_t columns, const symm_bits16 &x)
{
    T elements[N];

    __builtin_memcpy(elements, &x, sizeof x);
#pragma unroll
    for (int32_t j = 0; j < N; j++)
        if (j < columns)
            symm_dev_store_one(to + j * step, elements[j]);
}

/* Copies the band's sums, which all ranks have stored here, to D. Whole block. */
template <typename T> SYMM_DEV void copy_band(const symm_collect_args &a, const band &b)
{
    constexpr int32_t N = 16 / sizeof(T);
    const symm_product_args &p = a.product;
    const symm_matrix &sums = a.sums[b.product], &d = p.d[b.product];
    const tile t = {0, b.batch, b.row, b.rows, b.product, b.column, b.columns};
    const bool packs = matrix_destination{d, d.data, t, 0, p.n[b.product], p}.has_packs();
    symm_bits16 x[BAND_AT_ONCE];

    for_packs_of_band(
        b.rows, (b.columns + N - 1) / N,
        [&](int32_t k, int32_t row, int32_t pack) {
            x[k] = symm_dev_load_bits(static_cast<const T *>(sums.data) +
                                      offset_of(sums, b.batch, b.row + row, b.column + pack * N));
        },
        [&](int32_t k, int32_t row, int32_t pack) {
            T *to =
                static_cast<T *>(d.data) + offset_of(d, b.batch, b.row + row, b.column + pack * N);
            if (packs)
                symm_dev_store_bits(to, x[k]);
            else
                store_columns<T, N>(to, d.column, b.columns - pack * N, x[k]);
        });
}

SYMM_DEV void copy_band(const symm_collect_args &a, const band &b)
{
    if (a.product.d[b.product].dtype == SYMM_FLOAT32)
        copy_band<uint32_t>(a, b);
    else
        copy_band<uint16_t>(a, b);
}

/* After an abort it stores nothing to other ranks. */
SYMM_DEV void sum_bands(const symm_collect_args &a)
{
    const symm_product_args &p = a.product;
    const bands all(p);
    const uint32_t runs = runs_of(p.parts);
    const int32_t channel = tiles_of_owner(p, a.rank) + (int32_t)blockIdx.x;
    int32_t last = -1;

    for (int32_t i = (int32_t)blockIdx.x; i < all.count(); i += (int32_t)gridDim.x) {
        const band b = all.at(i);
        await_tiles(p, b, runs);
        symm_dev_barrier(p.view, a.pad, channel);
        if (symm_dev_aborted(p.view))
            return;
        sum_share(a, b);
        if (last >= 0)
            copy_band(a, all.at(last));
        last = i;
    }
    if (last >= 0) {
        symm_dev_barrier(p.view, a.pad, channel);
        copy_band(a, all.at(last));
    }
    symm_dev_pdl_wait(); /* the product, too, has ended when this kernel has */
    end_run(p.parts.state);
}

#endif
