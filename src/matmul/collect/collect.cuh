/*
 * D from the results of all ranks' products. A kernel begins with a barrier, because the ranks'
 * products must have ended. A barrier also follows its last access to results that a rank's next
 * product overwrites: to other ranks' products, or to the slots that other ranks write. After an
 * abort it writes to this rank's memory only.
 */
#ifndef SYMM_MATMUL_COLLECT_CUH
#define SYMM_MATMUL_COLLECT_CUH

#include "matmul/kernels/destination.cuh"
#include "matmul/kernels/split.h"
#include "matmul/kernels/sum_packs.cuh"
#include "matmul/kernels/transform.cuh"
#include "packs_of_rows.cuh"

enum {
    LATE_UNITS = 16,
    AT_ONCE = 2, /* packs of a thread whose loads are in flight together */
    LOADS = 8,   /* of a thread, in flight together if the number of ranks is a constant */
    COPIES = 6   /* packs of a thread that are copied together */
};

/* ----------------------------------------------------------------------------------------- sums */

/*
 * The sums of all ranks' packs, in rank order. Pack k of rank 0, or of this rank if there are no
 * slots, is at at[k]; n of them.
 */
template <typename T>
SYMM_DEV void sum_ranks(const symm_collect_args &a, int32_t i, const T *const (&at)[AT_ONCE],
                        int32_t n, symm_f32s<T> (&sums)[AT_ONCE])
{
    constexpr int32_t RANKS = 4; /* whose loads are in flight together */

#pragma unroll 1
    for (int32_t first = 0; first < a.nranks; first += RANKS) {
        symm_bits16 x[AT_ONCE][RANKS];
#pragma unroll
        for (int32_t r = 0; r < RANKS; r++)
#pragma unroll
            for (int32_t k = 0; k < AT_ONCE; k++)
                if (k < n && first + r < a.nranks)
                    x[k][r] = symm_dev_load_bits(moved(at[k], offset_of_rank(a, i, first + r)));
#pragma unroll
        for (int32_t k = 0; k < AT_ONCE; k++)
#pragma unroll
            for (int32_t r = 0; r < RANKS; r++) {
                if (k < n && first + r == 0)
                    sums[k] = symm_dev_unpack<T>(x[k][r]);
                else if (k < n && first + r < a.nranks)
                    symm_dev_add(sums[k], symm_dev_unpack<T>(x[k][r]));
            }
    }
}

/* The results of product i of rank 0, or of this rank if there are no slots. */
SYMM_DEV const void *results_of(const symm_collect_args &a, int32_t i)
{
    return static_cast<const char *>(a.of_rank[i].data) + set_offset(a.product.parts);
}

/* The first of this rank's rows in of_rank[i]. */
SYMM_DEV int64_t first_row(const symm_collect_args &a, int32_t i)
{
    return a.slot_nbytes[i] ? 0 : symm__first_row_of_rank(a.product.a.m, a.nranks, a.rank);
}

/* The sums of a run: PACK of them. */
template <typename T>
SYMM_DEV void sum_run(const symm_collect_args &a, const run_of_row &r, float (&x)[PACK])
{
    constexpr int32_t N = 16 / sizeof(T);
    static_assert(PACK <= AT_ONCE * N, "a run is summed at once");
    const symm_matrix &partial = a.of_rank[r.product];
    const T *data = static_cast<const T *>(results_of(a, r.product)) +
                    offset_of(partial, r.batch, first_row(a, r.product) + r.row, r.column);
    symm_f32s<T> sums[AT_ONCE] = {};

    sum_ranks(a, r.product, {data, data + N}, PACK / N, sums);
#pragma unroll
    for (int32_t j = 0; j < PACK; j++)
        x[j] = sums[j / N].e[j % N];
}

SYMM_DEV void sum_run(const symm_collect_args &a, const run_of_row &r, float (&x)[PACK])
{
    switch (a.of_rank[r.product].dtype) {
    case SYMM_FLOAT16:
        return sum_run<symm_f16>(a, r, x);
    case SYMM_BFLOAT16:
        return sum_run<symm_bf16>(a, r, x);
    default:
        return sum_run<float>(a, r, x);
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

/*
 * Sums of product i with any transform and types. sum(run, x) adds a run; c_row: the row of c of
 * d's first row.
 */
template <typename F>
SYMM_DEV void transform_sums(const symm_collect_args &a, int32_t i, int32_t rows,
                             const symm_matrix &d, int64_t c_row, const F &sum)
{
    const symm_product_args &p = a.product;

    for_each_runs<1>(a, i, rows, p.n[i], [&](const run_of_row(&runs)[1], int32_t) {
        const run_of_row &r = runs[0];
        const tile t = {0, r.batch, r.row, 1, i, 0, p.n[i]};
        float x[PACK] = {};
        sum(r, x);
        transform{p, t, c_row + r.row}.apply(0, r.column, x);
        store_run({d, d.data, t, r.row, p.n[i], p}, r.column, x);
    });
}

/* Whether d gets alpha times the sums of product i, in their type and in whole packs. */
SYMM_DEV bool are_plain(const symm_collect_args &a, int32_t i, const symm_matrix &d)
{
    const tile t = {0, 0, 0, 1, i, 0, a.product.n[i]};

    return transform{a.product, t, 0}.is_plain_scale() && a.product.alpha != 0 &&
           d.dtype == a.of_rank[i].dtype && d.dtype != SYMM_FLOAT32 &&
           matrix_destination{d, d.data, t, 0, a.product.n[i], a.product}.has_packs();
}

/*
 * Calls f(k, sum) with the sum of each of n packs, of RANKS ranks; 0: of a.nranks. Packs past the
 * n-th are valid, too: without branches, loads take less time.
 */
template <int32_t RANKS, typename T, int32_t N, typename F>
SYMM_DEV void for_each_sum(const symm_collect_args &a, int32_t i, const T *const (&at)[N],
                           int32_t n, const F &f)
{
    if constexpr (RANKS == 0) {
        symm_f32s<T> sums[N] = {};
        sum_ranks(a, i, at, n, sums);
#pragma unroll
        for (int32_t k = 0; k < N; k++)
            if (k < n)
                f(k, sums[k]);
    } else {
        symm_bits16 x[N][RANKS];
#pragma unroll
        for (int32_t r = 0; r < RANKS; r++)
#pragma unroll
            for (int32_t k = 0; k < N; k++)
                x[k][r] = symm_dev_load_bits(moved(at[k], offset_of_rank(a, i, r)));
#pragma unroll
        for (int32_t k = 0; k < N; k++) {
            symm_f32s<T> sum = symm_dev_unpack<T>(x[k][0]);
#pragma unroll
            for (int32_t r = 1; r < RANKS; r++)
                symm_dev_add(sum, symm_dev_unpack<T>(x[k][r]));
            if (k < n)
                f(k, sum);
        }
    }
}

template <typename T, int32_t RANKS, int32_t N>
SYMM_DEV void scale_sums_of(const symm_collect_args &a, int32_t i, int32_t rows,
                            const symm_matrix &d)
{
    const symm_matrix &partial = a.of_rank[i];
    const T *data = static_cast<const T *>(results_of(a, i));
    const int64_t first = first_row(a, i);

    for_each_runs<N>(a, i, rows, a.product.n[i], [&](const run_of_row(&runs)[N], int32_t n) {
        const T *at[N];
#pragma unroll
        for (int32_t k = 0; k < N; k++)
            at[k] = data + offset_of(partial, runs[k].batch, first + runs[k].row, runs[k].column);
        for_each_sum<RANKS>(a, i, at, n, [&](int32_t k, symm_f32s<T> &sum) {
#pragma unroll
            for (int32_t j = 0; j < PACK; j++)
                sum.e[j] *= a.product.alpha;
            symm_dev_store(static_cast<T *>(d.data) +
                               offset_of(d, runs[k].batch, runs[k].row, runs[k].column),
                           sum);
        });
    });
}

template <typename T>
SYMM_DEV void scale_sums(const symm_collect_args &a, int32_t i, int32_t rows, const symm_matrix &d)
{
    switch (a.nranks) {
    case 2:
        return scale_sums_of<T, 2, LOADS / 2>(a, i, rows, d);
    case 4:
        return scale_sums_of<T, 4, LOADS / 4>(a, i, rows, d);
    case 8:
        return scale_sums_of<T, 8, LOADS / 8>(a, i, rows, d);
    default:
        return scale_sums_of<T, 0, AT_ONCE>(a, i, rows, d);
    }
}

/* This rank's sums, of rows of c from c_row on, to `to`. */
SYMM_DEV void sum_rows(const symm_collect_args &a, const symm_matrix *to, int64_t c_row)
{
    const int32_t rows = rows_of_owner(a.product, a.rank);

    for (int32_t i = 0; i < a.product.nb; i++) {
        if (!are_plain(a, i, to[i]))
            transform_sums(a, i, rows, to[i], c_row, [&](const run_of_row &r, float(&x)[PACK]) {
                if (a.product.alpha != 0)
                    sum_run(a, r, x);
            });
        else if (to[i].dtype == SYMM_FLOAT16)
            scale_sums<symm_f16>(a, i, rows, to[i]);
        else
            scale_sums<symm_bf16>(a, i, rows, to[i]);
    }
}

/* --------------------------------------------------------------------------------------- copies */

/* Rank r's part of product i's D: columns of its product, or its rows of the sums. */
struct part_of_rank {
    const symm_matrix &x;
    int64_t offset; /* of rank r's part from this rank's, or from the first slot */
    int32_t rows, columns, first_row, first_column;
};

template <bool BY_COLUMNS>
SYMM_DEV part_of_rank part_of(const symm_collect_args &a, int32_t i, int32_t r)
{
    const int32_t m = a.product.a.m, all = a.d_columns[i];

    if (BY_COLUMNS)
        return {a.of_rank[i],
                offset_of_rank(a, i, r),
                m,
                symm__rows_of_rank(all, a.nranks, r),
                0,
                symm__first_row_of_rank(all, a.nranks, r)};
    return {a.sums[i],
            a.product.view.peer[r],
            symm__rows_of_rank(m, a.nranks, r),
            all,
            symm__first_row_of_rank(m, a.nranks, r),
            0};
}

/* Copies packs of 16 bytes; T has the size of d's elements. */
template <typename T>
SYMM_DEV void copy_packs(const symm_collect_args &a, int32_t i, const part_of_rank &part,
                         const symm_matrix &d)
{
    constexpr int32_t N = 16 / sizeof(T), PIECES = PACK / N;

    for_each_runs<COPIES>(
        a, i, part.rows, part.columns, [&](const run_of_row(&runs)[COPIES], int32_t n) {
            symm_bits16 x[COPIES][PIECES];
#pragma unroll
            for (int32_t k = 0; k < COPIES; k++)
#pragma unroll
                for (int32_t j = 0; j < PIECES; j++)
                    if (k < n)
                        x[k][j] = symm_dev_load_bits(moved(
                            static_cast<const T *>(part.x.data) +
                                offset_of(part.x, runs[k].batch, runs[k].row, runs[k].column) +
                                j * N,
                            part.offset));
#pragma unroll
            for (int32_t k = 0; k < COPIES; k++)
#pragma unroll
                for (int32_t j = 0; j < PIECES; j++)
                    if (k < n)
                        symm_dev_store_bits(static_cast<T *>(d.data) +
                                                offset_of(d, runs[k].batch,
                                                          part.first_row + runs[k].row,
                                                          part.first_column + runs[k].column) +
                                                j * N,
                                            x[k][j]);
        });
}

template <typename T>
SYMM_DEV void copy_elements(const symm_collect_args &a, int32_t i, const part_of_rank &part,
                            const symm_matrix &d)
{
    for_each_runs<1>(a, i, part.rows, part.columns, [&](const run_of_row(&runs)[1], int32_t) {
        const run_of_row &r = runs[0];
        const T *from =
            moved(static_cast<const T *>(part.x.data) + offset_of(part.x, r.batch, r.row, r.column),
                  part.offset);
        T *to = static_cast<T *>(d.data) +
                offset_of(d, r.batch, part.first_row + r.row, part.first_column + r.column);
        for (int32_t j = 0; j < PACK && r.column + j < part.columns; j++)
            symm_dev_store_one(to + j * d.column, symm_dev_load_one(from + j));
    });
}

template <typename T, bool BY_COLUMNS>
SYMM_DEV void copy_part(const symm_collect_args &a, int32_t i, int32_t r)
{
    const symm_matrix &d = a.product.d[i];
    const part_of_rank part = part_of<BY_COLUMNS>(a, i, r);
    const tile t = {0, 0, 0, 1, i, part.first_column, part.columns};

    if (matrix_destination{d, d.data, t, 0, part.columns, a.product}.has_packs() &&
        part.first_column % PACK == 0)
        copy_packs<T>(a, i, part, d);
    else
        copy_elements<T>(a, i, part, d);
}

/* Copies all ranks' parts, beginning with this rank's own. */
template <bool BY_COLUMNS> SYMM_DEV void copy_parts(const symm_collect_args &a)
{
    for (int32_t k = 0; k < a.nranks; k++)
        for (int32_t i = 0; i < a.product.nb; i++)
            if (a.product.d[i].dtype == SYMM_FLOAT32)
                copy_part<uint32_t, BY_COLUMNS>(a, i, (a.rank + k) % a.nranks);
            else
                copy_part<uint16_t, BY_COLUMNS>(a, i, (a.rank + k) % a.nranks);
}

/* ------------------------------------------------------------------ parts that a product adds */

/* Signals all parts of this rank, which its product has stored. The whole grid. */
SYMM_DEV void signal_parts(const symm_product_args &p)
{
    const int32_t owner = other_rank(p.view);

    for (int32_t i = (int32_t)(blockIdx.x * blockDim.x + threadIdx.x); i < tiles_of_owner(p, owner);
         i += (int32_t)(gridDim.x * blockDim.x))
        symm_dev_signal(p.view, p.parts.pad, i, owner);
}

/* Waits for all parts of this rank's sums. Whole block. */
SYMM_DEV void await_parts(const symm_product_args &p)
{
    const uint32_t runs = runs_of(p.parts);

    for (int32_t i = (int32_t)threadIdx.x; i < tiles_of_owner(p, p.view.rank);
         i += (int32_t)blockDim.x)
        await_part(p, i, runs);
    __syncthreads();
}

/* Some rows of a tile, which a block adds: part `unit` of LATE_UNITS. */
SYMM_DEV symm_part_tile late_rows(const symm_parts &s, const symm_part_tile &t, uint32_t unit)
{
    const int32_t rows = s.rows / LATE_UNITS, first = (int32_t)unit * rows;
    symm_part_tile some = t;

    some.row += first;
    some.rows = min(rows, t.rows - first);
    return some;
}

SYMM_DEV void add_late(const symm_product_args &p, const symm_part_tile &t, uint32_t runs)
{
    await_part(p, channel_of_part(p, t), runs); /* each thread reads the part */
    if (p.d[t.product].dtype == SYMM_FLOAT16)
        add_late_tile<symm_f16>(p, t, set_offset(p.parts, runs));
    else
        add_late_tile<symm_bf16>(p, t, set_offset(p.parts, runs));
}

/* Adds the parts that the product has left, if any, and ends the run. Blocks of one warp. */
SYMM_DEV void collect_late_parts(const symm_collect_args &a)
{
    const symm_product_args &p = a.product;

    symm_dev_pdl_wait();
    const uint32_t runs = runs_of(p.parts),
                   n = symm_dev_load_one(&p.parts.state->nlate) * LATE_UNITS;
    for (uint32_t i = blockIdx.x; i < n; i += gridDim.x)
        add_late(p, late_rows(p.parts, late_tiles(p.parts)[i / LATE_UNITS], i % LATE_UNITS), runs);
    if (n > 0)
        end_run(p.parts.state);
    else if (blockIdx.x == 0 && threadIdx.x == 0)
        count_run(&p.parts.state->runs);
}

/* All sums, after a product that has added none. */
SYMM_DEV void collect_parts(const symm_collect_args &a)
{
    signal_parts(a.product);
    await_parts(a.product);
    sum_rows(a, a.product.d, 0);
    end_run(a.product.parts.state);
}

/* -------------------------------------------------------------------------------------- packs */

/* All sums, after a product that has sent none. */
SYMM_DEV void collect_packs(const symm_collect_args &a)
{
    const symm_product_args &p = a.product;
    __shared__ pack_run run;
    const pack_sums sums = {p, run};

    if (threadIdx.x == 0)
        run = begin_pack_run(p);
    __syncthreads();
    if (run.tells && threadIdx.x < 32)
        sums.tell_begin();
    for (int32_t i = 0; i < p.nb; i++)
        for_each_runs<1>(a, i, p.a.m, p.n[i],
                         [&](const run_of_row(&runs)[1], int32_t) { sums.send(runs[0]); });
    for (int32_t i = 0; i < p.nb; i++)
        transform_sums(a, i, p.a.m, p.d[i], 0,
                       [&](const run_of_row &r, float(&x)[PACK]) { sums.sum(r, x); });
    if (run.tells && threadIdx.x < 32)
        sums.await_begin();
    if (run.tells && threadIdx.x == 0)
        count_pack_run(p, run);
}

/* ------------------------------------------------------------------------------------ the kinds */

SYMM_DEV void collect_reduce_scatter(const symm_collect_args &a)
{
    if (a.product.parts.pad)
        return collect_parts(a);
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
    if (a.product.parts.sums == SYMM_SUMS_PACKS)
        return collect_packs(a);
    if (a.product.parts.pad)
        return collect_parts(a);
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
