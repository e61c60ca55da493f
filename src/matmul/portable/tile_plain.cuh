/*
 * A tile in plain arithmetic, for the emulated driver: each thread computes some of its elements.
 */
#ifndef SYMM_MATMUL_TILE_PLAIN_CUH
#define SYMM_MATMUL_TILE_PLAIN_CUH

#include "operands.cuh"

template <typename T, typename Epilogue>
SYMM_DEV void multiply(const operands<T> &f, const Epilogue &end)
{
    for (int32_t e = (int32_t)threadIdx.x; e < f.rows * f.columns; e += (int32_t)blockDim.x) {
        const int32_t i = e / f.columns, j = e % f.columns;
        float sum[] = {0};
        for (int32_t k = 0; k < f.k; k++)
            sum[0] += symm_dev_widen(symm_dev_load_one(f.a + i * f.a_row + k * f.a_column)) *
                      symm_dev_widen(symm_dev_load_one(f.b + k * f.b_row + j * f.b_column));
        end.put(i, j, sum);
    }
}

#endif
