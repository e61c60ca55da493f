/* What is multiplied to get a tile: a [rows, k] and b [k, columns], as they lie. */
#ifndef SYMM_MATMUL_FACTORS_CUH
#define SYMM_MATMUL_FACTORS_CUH

#include <symm/device.cuh>

template <typename T> struct factors {
    const T *a;
    int64_t a_row, a_column;
    const T *b;
    int64_t b_row, b_column;
    int32_t rows, columns, k;
};

/*
 * multiply<T>(factors, end), in tile_mma.cuh for GPUs and in tile_plain.cuh for the emulated
 * driver: every element of the product goes to end.put(row, column, sum) once, by one thread. Whole
 * block. Sums are in fp32, in an order that depends on k alone.
 */

#endif
