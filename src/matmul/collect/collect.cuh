/*
 * D from the results of all ranks' products. Each kernel begins with a barrier, because the ranks'
 * products must have ended, and ends with one, because the next product overwrites what others
 * read. After an abort the kernels still write to this rank's memory alone.
 */
#ifndef SYMM_MATMUL_COLLECT_CUH
#define SYMM_MATMUL_COLLECT_CUH

#include "args.h"
#include "matmul/kernels/destination.cuh"
#include "matmul/kernels/split.h"
#include "matmul/kernels/transform.cuh"

enum { PACK = 8 /* elements of a row */ };

/* The elements of a row from a column on, at most PACK. */
struct run_of_row {
    int32_t product, batch, row, column;
};

/*
 * Visits all packs of matrices [l, rows, columns[i]]. A grid of the same size visits the same packs
 * of a matrix of the same extents with the same threads.
 */
template <typename F>
SYMM_DEV void for_each_run(const symm_collect_args &a, int32_t rows, const int32_t *columns,
                           const F &visit)
{
    for (int32_t i = 0; i < a.product.nb; i++) {
        const uint32_t packs = (uint32_t)(columns[i] + PACK - 1) / PACK;
        const uint64_t of_batch = (uint64_t)rows * packs, all = of_batch * (uint32_t)a.product.a.l;
        for (uint64_t e = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; e < all;
             e += (uint64_t)gridDim.x * blockDim.x)
            visit(run_of_row{i, (int32_t)(e / of_batch), (int32_t)(e % of_batch / packs),
                             (int32_t)(e % packs) * PACK});
    }
}

SYMM_DEV int64_t offset_of(const symm_matrix &x, int32_t batch, int64_t row, int32_t column)
{
    return batch * x.batch + row * x.row + column * x.column;
}

/* ----------------------------------------------------------------------------------------- sums */

template <typename T>
SYMM_DEV void add_ranks(const symm_view &v, const symm_matrix &partial, int64_t at,
                        float (&x)[PACK])
{
    constexpr int32_t N = 16 / sizeof(T);
#pragma unroll
    for (int32_t i = 0; i < PACK; i += N) {
        const symm_f32s<T> sum = symm_dev_sum(v, static_cast<const T *>(partial.data) + at + i);
#pragma unroll
        for (int32_t j = 0; j < N; j++)
            x[i + j] = sum.e[j];
    }
}

/* The sums of all ranks' partial sums at `at`, in rank order. */
SYMM_DEV void sum_ranks(const symm_view &v, const symm_matrix &partial, int64_t at,
                        float (&x)[PACK])
{
    switch (partial.dtype) {
    case SYMM_FLOAT16:
        return add_ranks<symm_f16>(v, partial, at, x);
    case SYMM_BFLOAT16:
        return add_ranks<symm_bf16>(v, partial, at, x);
    default:
        return add_ranks<float>(v, partial, at, x);
    }
}

SYMM_DEV void store_run(const matrix_destination &to, int32_t column, const float (&x)[PACK])
{
    if (to.has_packs())
        return to.store(0, column, x);
#pragma unroll
    for (int32_t j = 0; j < PACK; j++)
        if (to.has(0, column + j))
            to.store(0, column + j, {x[j]});
}

/* Sums of this rank's rows, which are rows of c from c_row on, to `to`. */
SYMM_DEV void sum_rows(const symm_collect_args &a, const symm_matrix *to, int64_t c_row)
{
    const symm_product_args &p = a.product;
    const int64_t first = symm__first_row_of_rank(p.a.m, a.nranks, a.rank);

    for_each_run(a, symm__rows_of_rank(p.a.m, a.nranks, a.rank), p.n, [&](const run_of_row &r) {
        const tile t = {0, r.batch, r.row, 1, r.product, 0, p.n[r.product]};
        const symm_matrix &partial = a.of_rank[r.product];
        float x[PACK] = {};
        if (p.alpha != 0)
            sum_ranks(p.view, partial, offset_of(partial, r.batch, first + r.row, r.column), x);
        transform{p, t, c_row + r.row}.apply(0, r.column, x);
        store_run({to[r.product], t, r.row, p.n[r.product]}, r.column, x);
    });
}

/* --------------------------------------------------------------------------------------- copies */

/* One run from a peer's row of packs. */
template <typename T>
SYMM_DEV void copy_run(T *to, int64_t column, const T *from, int32_t n, bool packs)
{
    if (packs) {
#pragma unroll
        for (int32_t j = 0; j < PACK; j += 16 / (int32_t)sizeof(T))
            symm_dev_store_bits(to + j, symm_dev_load_bits(from + j));
        return;
    }
    for (int32_t j = 0; j < n && j < PACK; j++)
        symm_dev_store_one(to + j * column, symm_dev_load_one(from + j));
}

/* `from`, of rank r, to rows and columns of d from these on. */
SYMM_DEV void copy_from(const symm_collect_args &a, const symm_matrix *from, int32_t r,
                        int32_t rows, const int32_t *columns, int64_t d_row,
                        const int32_t *d_column)
{
    const symm_product_args &p = a.product;

    for_each_run(a, rows, columns, [&](const run_of_row &run) {
        const symm_matrix &x = from[run.product], &d = p.d[run.product];
        const int32_t n = columns[run.product];
        const tile whole = {0, run.batch, 0, 1, run.product, d_column[run.product], n};
        const matrix_destination to = {d, whole, d_row + run.row, n};
        const int64_t x_at = offset_of(x, run.batch, run.row, run.column),
                      d_at = to.offset(0, run.column);
        const bool packs = to.has_packs() && d_column[run.product] % PACK == 0;
        if (d.dtype == SYMM_FLOAT32)
            copy_run(static_cast<uint32_t *>(d.data) + d_at, d.column,
                     symm_dev_peer(p.view, static_cast<const uint32_t *>(x.data) + x_at, r),
                     n - run.column, packs);
        else
            copy_run(static_cast<uint16_t *>(d.data) + d_at, d.column,
                     symm_dev_peer(p.view, static_cast<const uint16_t *>(x.data) + x_at, r),
                     n - run.column, packs);
    });
}

/* ------------------------------------------------------------------------------------- the kinds */

SYMM_DEV void collect_reduce_scatter(const symm_collect_args &a)
{
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
    sum_rows(a, a.product.d, 0);
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
}

/*
 * The second barrier says that the sums are there, and that the partial sums have been read. The
 * next run writes sums after its first barrier, when all ranks have ended this kernel.
 */
SYMM_DEV void collect_all_reduce(const symm_collect_args &a)
{
    const int32_t m = a.product.a.m, none[SYMM_MATMUL_MAX_B] = {};

    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
    sum_rows(a, a.sums, symm__first_row_of_rank(m, a.nranks, a.rank));
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
    for (int32_t i = 0; i < a.nranks; i++) {
        const int32_t r = (a.rank + i) % a.nranks;
        copy_from(a, a.sums, r, symm__rows_of_rank(m, a.nranks, r), a.product.n,
                  symm__first_row_of_rank(m, a.nranks, r), none);
    }
}

SYMM_DEV void collect_all_scatter(const symm_collect_args &a)
{
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
    for (int32_t i = 0; i < a.nranks; i++) {
        const int32_t r = (a.rank + i) % a.nranks;
        int32_t n[SYMM_MATMUL_MAX_B], first[SYMM_MATMUL_MAX_B];
        for (int32_t j = 0; j < a.product.nb; j++) {
            n[j] = symm__rows_of_rank(a.d_columns[j], a.nranks, r);
            first[j] = symm__first_row_of_rank(a.d_columns[j], a.nranks, r);
        }
        copy_from(a, a.of_rank, r, a.product.a.m, n, 0, first);
    }
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
}

#endif
