/*
 * The portable product: any layout, any alignment, every GPU. Each block takes one tile after the
 * other. Before a tile it waits for the tile's rows, and for nothing else.
 */
#ifndef SYMM_MATMUL_PRODUCT_CUH
#define SYMM_MATMUL_PRODUCT_CUH

#include "matmul/kernels/arrivals.cuh"
#include "matmul/kernels/epilogue.cuh"
#include "matmul/kernels/sum_parts.cuh"
#include "tile.h"
#if defined(__CUDA_ARCH__)
#include "tile_mma.cuh"
#else
#include "tile_plain.cuh"
#endif

template <typename T> SYMM_DEV operands<T> operands_of(const symm_product_args &a, const work &w)
{
    const tile &t = w.t;
    const symm_matrix &b = a.b[t.product];
    const int32_t shard = shard_in_a(a, t), row = row_in_a(a, t);
    const int64_t a_column = column_stride(a.a, shard),
                  a_row = t.rows > 1 ? row_of<T>(a.a, shard, t.batch, row + 1) -
                                           row_of<T>(a.a, shard, t.batch, row)
                                     : 0;
    return {row_of<T>(a.a, shard, t.batch, row) + w.k_begin * a_column,
            a_row,
            a_column,
            static_cast<const T *>(b.data) + t.batch * b.batch + w.k_begin * b.row +
                t.column * b.column,
            b.row,
            b.column,
            t.rows,
            t.columns,
            w.k_end - w.k_begin};
}

template <typename T> SYMM_DEV void matmul_product(const symm_product_args &a)
{
    schedule<TILE_ROWS, TILE_COLUMNS> todo(a, blockIdx.x);
    const int64_t set = set_offset(a.parts);
    arrivals rows;
    work w;

    if (threadIdx.x == 0)
        count_started(a);
    while (todo.next(&w, gridDim.x)) {
        SYMM_TRACE_BEGIN_BY(begin, threadIdx.x == 0);
        if (rows.needed(a, w)) {
            rows.await(a, w.k_begin, w.k_end, threadIdx.x, blockDim.x);
            __syncthreads();
        }
        multiply<T>(operands_of<T>(a, w), epilogue(a, w.t, set));
        trace_tile(a, w.t, SYMM_MATMUL_ROLE_BLOCK, begin, threadIdx.x == 0);
    }
    if (threadIdx.x != 0)
        return;
    if (a.round && a.a.k == 0) /* tiles that multiply nothing have not waited */
        await_all_rows(a);
    end_arrivals(a); /* behind a barrier after each wait of the block */
}

#endif
