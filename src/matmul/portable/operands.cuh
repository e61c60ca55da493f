/* The operands of a tile: a [rows, k] and b [k, columns], in place. */
#ifndef SYMM_MATMUL_OPERANDS_CUH
#define SYMM_MATMUL_OPERANDS_CUH

#include <symm/device.cuh>

template <typename T> struct operands {
    const T *a;
    int64_t a_row, a_column;
    const T *b;
    int64_t b_row, b_column;
    int32_t rows, columns, k;
};

/*
 * multiply<T>(operands, epilogue), in tile_mma.cuh for GPUs and in tile_plain.cuh for the emulated
 * driver, puts each element of the product once, by one thread. All threads of the block. It
 * accumulates in fp32, in an order that depends only on k.
 */

#endif
