/* Sums of all ranks' results: this rank's rows of them, in rank order, with the transform of D. */
#ifndef SYMM_MATMUL_RANK_SUMS_CUH
#define SYMM_MATMUL_RANK_SUMS_CUH

#include "matmul/kernels/destination.cuh"
#include "matmul/kernels/transform.cuh"
#include "packs_of_rows.cuh"

enum {
    AT_ONCE = 2, /* packs of a thread whose loads are in flight together */
    LOADS = 8    /* of a thread, in flight together if the number of ranks is a constant */
};

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

#endif
