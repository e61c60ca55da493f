/*
 * The portable product: any layout, any alignment, every GPU. Blocks stay and take tile after tile;
 * a block waits for a tile's rows just before it needs them, and for nothing else.
 */
#ifndef SYMM_MATMUL_PRODUCT_KERNELS_CUH
#define SYMM_MATMUL_PRODUCT_KERNELS_CUH

#include "matmul/kernels/epilogue.cuh"
#if defined(__CUDA_ARCH__)
#include "tile_mma.cuh"
#else
#include "tile_plain.cuh"
#endif

enum { TILE_ROWS = 128, TILE_COLUMNS = 128 };

template <typename T> SYMM_DEV factors<T> factors_of(const symm_product_args &a, const tile &t)
{
    const symm_matrix &b = a.b[t.product];
    const int64_t next = t.rows > 1 ? row_of<T>(a.a, t.shard, t.batch, t.row + 1) -
                                          row_of<T>(a.a, t.shard, t.batch, t.row)
                                    : 0;
    return {row_of<T>(a.a, t.shard, t.batch, t.row),
            next,
            column_of(a.a, t.shard),
            static_cast<const T *>(b.data) + t.batch * b.batch + t.column * b.column,
            b.row,
            b.column,
            t.rows,
            t.columns,
            a.a.k};
}

template <typename T> SYMM_DEV void matmul_product(const symm_product_args &a)
{
    tile_order<TILE_ROWS, TILE_COLUMNS> order(a, (int32_t)blockIdx.x);
    arrivals here;
    tile t;

    if (threadIdx.x == 0)
        tell_begun(a);
    while (order.next(&t, (int32_t)gridDim.x)) {
        if (here.lack(a, t)) {
            await_pieces(a.view, a.way, here.seen);
            __syncthreads();
        }
        multiply<T>(factors_of<T>(a, t), tile_end(a, t));
    }
}

#endif
