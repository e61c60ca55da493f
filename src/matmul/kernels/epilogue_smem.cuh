/*
 * A part of the epilogue in shared memory: a few rows and columns of accumulators. Through it
 * neighbouring threads store neighbouring elements of D.
 */
#ifndef SYMM_MATMUL_EPILOGUE_SMEM_CUH
#define SYMM_MATMUL_EPILOGUE_SMEM_CUH

#include <symm/device.cuh>

/* PAD: elements between rows, which avoid bank conflicts. THREADS put them together. */
template <int ROWS, int COLUMNS, int PAD, int THREADS> struct __align__(16) epilogue_smem
{
    float at[ROWS][COLUMNS + PAD];
};

/* Puts the accumulators of s; the first one is at this row and column of the tile. */
template <int ROWS, int COLUMNS, int PAD, int THREADS, typename Epilogue>
SYMM_DEV void put_smem(const epilogue_smem<ROWS, COLUMNS, PAD, THREADS> &s, int32_t row,
                       int32_t column, const Epilogue &end)
{
    const int32_t thread = (int32_t)threadIdx.x % THREADS;
    constexpr int32_t PAIRS = COLUMNS / 2, EIGHTS = COLUMNS / 8;

    if (end.to.has_packs()) {
#pragma unroll 1
        for (int32_t e = thread; e < ROWS * EIGHTS; e += THREADS) {
            const int32_t i = e / EIGHTS, j = e % EIGHTS * 8;
            float x[8];
            *reinterpret_cast<float4 *>(x) = *reinterpret_cast<const float4 *>(&s.at[i][j]);
            *reinterpret_cast<float4 *>(x + 4) = *reinterpret_cast<const float4 *>(&s.at[i][j + 4]);
            end.put(row + i, column + j, x);
        }
        return;
    }
    if (end.to.is_column_major()) {
#pragma unroll 1
        for (int32_t e = thread; e < ROWS * COLUMNS; e += THREADS) {
            float x[] = {s.at[e % ROWS][e / ROWS]};
            end.put(row + e % ROWS, column + e / ROWS, x);
        }
        return;
    }
#pragma unroll 1
    for (int32_t e = thread; e < ROWS * PAIRS; e += THREADS) {
        const int32_t i = e / PAIRS, j = e % PAIRS * 2;
        float x[2];
        *reinterpret_cast<float2 *>(x) = *reinterpret_cast<const float2 *>(&s.at[i][j]);
        end.put(row + i, column + j, x);
    }
}

#endif
