/*
 * D from the results of all ranks' products. A kernel begins with a barrier, because the ranks'
 * products must have ended. A barrier also follows its last access to other ranks' products,
 * because the next product overwrites them. After an abort it writes to this rank's memory only.
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
 * Visits all packs of matrices [l, rows, columns(i)]. A grid of the same size visits the same packs
 * of a matrix of the same extents with the same threads.
 */
template <typename Columns, typename F>
SYMM_DEV void for_each_run(const symm_collect_args &a, int32_t rows, const Columns &columns,
                           const F &visit)
{
    for (int32_t i = 0; i < a.product.nb; i++) {
        const uint32_t packs = (uint32_t)(columns(i) + PACK - 1) / PACK;
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
    const auto columns = [&](int32_t i) { return p.n[i]; };

    for_each_run(a, symm__rows_of_rank(p.a.m, a.nranks, a.rank), columns, [&](const run_of_row &r) {
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

/* Copies one run of x, of rank r, to row and column of d. `packs`: d has packs there. */
SYMM_DEV void copy_run_of_rank(const symm_view &v, const symm_matrix &x, int64_t x_at, int32_t r,
                               const symm_matrix &d, int64_t d_at, int32_t n, bool packs)
{
    if (d.dtype == SYMM_FLOAT32)
        copy_run(static_cast<uint32_t *>(d.data) + d_at, d.column,
                 symm_dev_peer(v, static_cast<const uint32_t *>(x.data) + x_at, r), n, packs);
    else
        copy_run(static_cast<uint16_t *>(d.data) + d_at, d.column,
                 symm_dev_peer(v, static_cast<const uint16_t *>(x.data) + x_at, r), n, packs);
}

/* Copies rank r's part of D from its workspace: its columns, or its rows. */
template <bool BY_COLUMNS> SYMM_DEV void copy_part(const symm_collect_args &a, int32_t r)
{
    const symm_product_args &p = a.product;
    const int32_t m = p.a.m, rows = BY_COLUMNS ? m : symm__rows_of_rank(m, a.nranks, r);
    const int64_t first_row = BY_COLUMNS ? 0 : symm__first_row_of_rank(m, a.nranks, r);
    const auto columns = [&](int32_t i) {
        return BY_COLUMNS ? symm__rows_of_rank(a.d_columns[i], a.nranks, r) : p.n[i];
    };

    for_each_run(a, rows, columns, [&](const run_of_row &run) {
        const int32_t i = run.product, n = columns(i),
                      first = BY_COLUMNS ? symm__first_row_of_rank(a.d_columns[i], a.nranks, r) : 0;
        const symm_matrix &x = BY_COLUMNS ? a.of_rank[i] : a.sums[i], &d = p.d[i];
        const tile part = {0, run.batch, 0, 1, i, first, n};
        const matrix_destination to = {d, part, first_row + run.row, n};
        copy_run_of_rank(p.view, x, offset_of(x, run.batch, run.row, run.column), r, d,
                         to.offset(0, run.column), n - run.column,
                         to.has_packs() && first % PACK == 0);
    });
}

/* Copies all ranks' parts, beginning with this rank's own. */
template <bool BY_COLUMNS> SYMM_DEV void copy_parts(const symm_collect_args &a)
{
    for (int32_t i = 0; i < a.nranks; i++)
        copy_part<BY_COLUMNS>(a, (a.rank + i) % a.nranks);
}

/* ------------------------------------------------------------------------------------ the kinds */

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
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
    sum_rows(a, a.sums, symm__first_row_of_rank(a.product.a.m, a.nranks, a.rank));
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
    copy_parts<false>(a);
}

SYMM_DEV void collect_all_scatter(const symm_collect_args &a)
{
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
    copy_parts<true>(a);
    symm_dev_barrier(a.product.view, a.pad, (int)blockIdx.x);
}

#endif
