/*
 * Copies of rows on this device: this rank's rows to its slab, or all of A to one matrix.
 */
#ifndef SYMM_MATMUL_COPY_ROWS_CUH
#define SYMM_MATMUL_COPY_ROWS_CUH

#include "args.h"
#include "matmul/kernels/shards.cuh"

/* Up to `most` elements from `begin` on of row `row` of batch b. All threads of the block. */
SYMM_DEV void copy_piece(const symm_copy_rows_args &a, int32_t b, int32_t row, int32_t begin,
                         int32_t most)
{
    const symm_shards &f = a.from;
    int32_t shard = 0;
    while (row >= symm__first_row_of_rank(f.m, f.nranks, shard + 1))
        shard++;
    const uint16_t *from =
        row_of<uint16_t>(f, shard, b, row - symm__first_row_of_rank(f.m, f.nranks, shard));
    const int64_t column = column_stride(f, shard);
    const int32_t n = min(most, f.k - begin);
    uint16_t *to = static_cast<uint16_t *>(a.to.data) + b * a.to.batch + row * a.to.row;

    if (column == 1 && a.to.column == 1)
        symm_dev_copy(to + begin, from + begin, (size_t)n * sizeof *to);
    else
        for (int32_t j = begin + (int32_t)threadIdx.x; j < begin + n; j += (int32_t)blockDim.x)
            symm_dev_store_one(to + j * a.to.column, symm_dev_load_one(from + j * column));
}

/* A block takes one piece of a row at a time, so that few long rows use many blocks. */
SYMM_DEV void copy_all_rows(const symm_copy_rows_args &a)
{
    const uint32_t pieces = ((uint32_t)a.from.k + SYMM_COPY_PIECE - 1) / SYMM_COPY_PIECE;
    const uint64_t units = (uint64_t)a.from.m * pieces;

    for (int32_t b = 0; b < a.from.l; b++)
        for (uint64_t i = blockIdx.x; i < units; i += gridDim.x)
            copy_piece(a, b, (int32_t)(i / pieces), (int32_t)(i % pieces) * SYMM_COPY_PIECE,
                       SYMM_COPY_PIECE);
}

#endif
