/* Copies of all ranks' parts of D: their columns, or their rows of the sums. */
#ifndef SYMM_MATMUL_RANK_COPIES_CUH
#define SYMM_MATMUL_RANK_COPIES_CUH

#include "matmul/kernels/destination.cuh"
#include "matmul/kernels/split.h"
#include "packs_of_rows.cuh"

enum { COPIES = 6 /* packs of a thread that are copied together */ };

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

#endif
