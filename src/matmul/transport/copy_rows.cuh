/*
 * Copies of rows on this device: this rank's rows to its slab, or all of A to one matrix.
 */
#ifndef SYMM_MATMUL_COPY_ROWS_CUH
#define SYMM_MATMUL_COPY_ROWS_CUH

#include "args.h"
#include "matmul/kernels/shards.cuh"

/* This thread's share of row `row` of batch b, as thread `index` of `nthreads`. */
SYMM_DEV void copy_row(const symm_copy_rows_args &a, int32_t b, int32_t row, uint32_t index,
                       uint32_t nthreads)
{
    const symm_shards &f = a.from;
    int32_t shard = 0;
    while (row >= symm__first_row_of_rank(f.m, f.nranks, shard + 1))
        shard++;
    const uint16_t *from =
        row_of<uint16_t>(f, shard, b, row - symm__first_row_of_rank(f.m, f.nranks, shard));
    const int64_t column = column_stride(f, shard);
    uint16_t *to = static_cast<uint16_t *>(a.to.data) + b * a.to.batch + row * a.to.row;

    if (column == 1 && a.to.column == 1)
        symm_detail::copy(to, from, (size_t)f.k * sizeof *to, index, nthreads);
    else
        for (uint32_t j = index; j < (uint32_t)f.k; j += nthreads)
            symm_dev_store_one(to + j * a.to.column, symm_dev_load_one(from + j * column));
}

/* a.row_blocks blocks share a row, so that few long rows use many blocks. */
SYMM_DEV void copy_all_rows(const symm_copy_rows_args &a)
{
    const uint32_t nthreads = a.row_blocks * blockDim.x,
                   index = blockIdx.x % a.row_blocks * blockDim.x + threadIdx.x;

    for (int32_t b = 0; b < a.from.l; b++)
        for (uint32_t row = blockIdx.x / a.row_blocks; row < (uint32_t)a.from.m;
             row += gridDim.x / a.row_blocks)
            copy_row(a, b, (int32_t)row, index, nthreads);
}

#endif
