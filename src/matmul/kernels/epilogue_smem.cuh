/*
 * A patch: a few rows and 32 columns of a warp's sums in shared memory, by way of which
 * neighbouring threads get what lies side by side in D, whoever has the sums.
 */
#ifndef SYMM_MATMUL_PATCH_CUH
#define SYMM_MATMUL_PATCH_CUH

#include <symm/device.cuh>

enum { PATCH_COLUMNS = 32, PATCH_PITCH = PATCH_COLUMNS + 8 /* keeps rows in different banks */ };

template <int ROWS> struct __align__(16) patch
{
    float at[ROWS][PATCH_PITCH];
};

/* Puts a patch whose first element is at this row and column of the tile. A warp. */
template <int ROWS, typename End>
SYMM_DEV void put_patch(const patch<ROWS> &p, int32_t row, int32_t column, const End &end)
{
    const int32_t lane = (int32_t)threadIdx.x % 32;
    constexpr int32_t PAIRS = PATCH_COLUMNS / 2, EIGHTS = PATCH_COLUMNS / 8;

    if (end.eights()) {
#pragma unroll 1
        for (int32_t e = lane; e < ROWS * EIGHTS; e += 32) {
            const int32_t i = e / EIGHTS, j = e % EIGHTS * 8;
            float x[8];
            *reinterpret_cast<float4 *>(x) = *reinterpret_cast<const float4 *>(&p.at[i][j]);
            *reinterpret_cast<float4 *>(x + 4) = *reinterpret_cast<const float4 *>(&p.at[i][j + 4]);
            end.put_eight(row + i, column + j, x);
        }
        return;
    }
    if (end.down()) {
#pragma unroll 1
        for (int32_t e = lane; e < ROWS * PATCH_COLUMNS; e += 32)
            end.put(row + e % ROWS, column + e / ROWS, p.at[e % ROWS][e / ROWS]);
        return;
    }
#pragma unroll 1
    for (int32_t e = lane; e < ROWS * PAIRS; e += 32) {
        const int32_t i = e / PAIRS, j = e % PAIRS * 2;
        const float2 two = *reinterpret_cast<const float2 *>(&p.at[i][j]);
        end.put_pair(row + i, column + j, two.x, two.y);
    }
}

#endif
