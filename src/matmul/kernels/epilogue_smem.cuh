/*
 * A warp's part of the epilogue in shared memory: a few rows and 32 columns of accumulators.
 * Through it neighbouring threads store neighbouring elements of D.
 */
#ifndef SYMM_MATMUL_EPILOGUE_SMEM_CUH
#define SYMM_MATMUL_EPILOGUE_SMEM_CUH

#include <symm/device.cuh>

enum { SMEM_COLUMNS = 32, SMEM_PITCH = SMEM_COLUMNS + 8 /* avoids bank conflicts between rows */ };

template <int ROWS> struct __align__(16) epilogue_smem
{
    float at[ROWS][SMEM_PITCH];
};

/* Puts the accumulators of s; the first one is at this row and column of the tile. A warp. */
template <int ROWS, typename Epilogue>
SYMM_DEV void put_smem(const epilogue_smem<ROWS> &s, int32_t row, int32_t column,
                       const Epilogue &end)
{
    const int32_t lane = (int32_t)threadIdx.x % 32;
    constexpr int32_t PAIRS = SMEM_COLUMNS / 2, EIGHTS = SMEM_COLUMNS / 8;

    if (end.to.has_packs()) {
#pragma unroll 1
        for (int32_t e = lane; e < ROWS * EIGHTS; e += 32) {
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
        for (int32_t e = lane; e < ROWS * SMEM_COLUMNS; e += 32) {
            float x[] = {s.at[e % ROWS][e / ROWS]};
            end.put(row + e % ROWS, column + e / ROWS, x);
        }
        return;
    }
#pragma unroll 1
    for (int32_t e = lane; e < ROWS * PAIRS; e += 32) {
        const int32_t i = e / PAIRS, j = e % PAIRS * 2;
        float x[2];
        *reinterpret_cast<float2 *>(x) = *reinterpret_cast<const float2 *>(&s.at[i][j]);
        end.put(row + i, column + j, x);
    }
}

#endif
