/*
 * A tile by the tensor cores of sm_80 and newer. Stages of both operands are loaded to shared
 * memory two steps ahead. Eight warps have 64 rows and 32 columns each, and accumulate 16 of k at a
 * time, in order. 256 threads, 48 KiB of shared memory, and registers for one block an SM.
 */
#ifndef SYMM_MATMUL_TILE_MMA_CUH
#define SYMM_MATMUL_TILE_MMA_CUH

#include "operands.cuh"
#include "operand_smem.cuh"
#include "matmul/kernels/epilogue_smem.cuh"

/* Both operands of one step. */
struct stage {
    operand_smem a, b;
};

enum {
    STAGES = 3,
    WARPS_ACROSS = 4,
    WARP_ROWS = 64,
    WARP_COLUMNS = 32,
    SMEM_ROWS = 32 /* of a warp's rows, at a time */
};

/* A thread's accumulators of its warp's part of the tile: by 16 rows, by 8 columns. */
struct warp_accumulators {
    float of[WARP_ROWS / 16][WARP_COLUMNS / 8][4];
};

SYMM_DEV int32_t warp_row(void)
{
    return (int32_t)threadIdx.x / 32 / WARPS_ACROSS * WARP_ROWS;
}

SYMM_DEV int32_t warp_column(void)
{
    return (int32_t)threadIdx.x / 32 % WARPS_ACROSS * WARP_COLUMNS;
}

template <typename T, bool A_ALONG_K, bool B_ALONG_K>
SYMM_DEV void multiply_stage(warp_accumulators &d, const stage &s)
{
#pragma unroll
    for (int32_t k = 0; k < STAGE_DEPTH; k += 16) {
        uint32_t b[WARP_COLUMNS / 16][4];
#pragma unroll
        for (int32_t j = 0; j < WARP_COLUMNS / 16; j++)
            load_fragment<B_ALONG_K>(b[j], s.b, warp_column() + 16 * j, k);
#pragma unroll
        for (int32_t i = 0; i < WARP_ROWS / 16; i++) {
            uint32_t a[4];
            load_fragment<A_ALONG_K>(a, s.a, warp_row() + 16 * i, k);
#pragma unroll
            for (int32_t j = 0; j < WARP_COLUMNS / 8; j++)
                mma_m16n8k16<T>(d.of[i][j], a, b[j / 2][j % 2], b[j / 2][j % 2 + 2]);
        }
    }
}

/* No thread may be using the stages; other threads may be using them when this returns. */
template <typename T, bool A_ALONG_K, bool B_ALONG_K>
SYMM_DEV void multiply_stages(warp_accumulators &d, stage *stages, const operands<T> &f)
{
    operand_loader<A_ALONG_K> a(f.a, f.a_row, f.a_column, f.rows, f.k);
    operand_loader<B_ALONG_K> b(f.b, f.b_column, f.b_row, f.columns, f.k);
    const int32_t steps = (f.k + STAGE_DEPTH - 1) / STAGE_DEPTH;
    int32_t slot = 0;

#pragma unroll 1
    for (int32_t step = 1 - STAGES; step < steps; step++) {
        if (step >= 0) {
            cp_async_wait<STAGES - 2>();
            __syncthreads(); /* and all threads have used the stage that is loaded next */
        }
        if (step + STAGES - 1 < steps) {
            a.load_stage(stages[slot].a);
            b.load_stage(stages[slot].b);
        }
        cp_async_commit();
        slot = slot + 1 < STAGES ? slot + 1 : 0; /* the stage that was loaded first */
        if (step >= 0)
            multiply_stage<T, A_ALONG_K, B_ALONG_K>(d, stages[slot]);
    }
}

/* --------------------------------------------------------------------------------- the epilogue */

/* Each warp has shared memory for 32 rows at a time. */
using warp_smem = epilogue_smem<SMEM_ROWS, WARP_COLUMNS, 8, 32>;

template <typename Epilogue>
SYMM_DEV void put_accumulators(const warp_accumulators &d, warp_smem &s, const Epilogue &end)
{
    const int32_t lane = (int32_t)threadIdx.x % 32;

#pragma unroll
    for (int32_t row = 0; row < WARP_ROWS; row += SMEM_ROWS) {
        __syncwarp();
#pragma unroll
        for (int32_t i = 0; i < SMEM_ROWS; i += 8)
#pragma unroll
            for (int32_t j = 0; j < WARP_COLUMNS / 8; j++) {
                const float *two = d.of[(row + i) / 16][j] + i / 8 % 2 * 2;
                *reinterpret_cast<float2 *>(&s.at[i + lane / 4][j * 8 + lane % 4 * 2]) =
                    make_float2(two[0], two[1]);
            }
        __syncwarp();
        put_smem(s, warp_row() + row, warp_column(), end);
    }
}

template <typename T, typename Epilogue>
SYMM_DEV void multiply(const operands<T> &f, const Epilogue &end)
{
    __shared__ union {
        stage stages[STAGES];
        warp_smem warps[STAGE_THREADS / 32];
    } shared;
    const bool a_along_k = f.a_column == 1 || f.a_row != 1,
               b_along_k = f.b_row == 1 || f.b_column != 1;
    warp_accumulators d = {};

    __syncthreads(); /* all warps have put the tile before */
    if (a_along_k && b_along_k)
        multiply_stages<T, true, true>(d, shared.stages, f);
    else if (a_along_k)
        multiply_stages<T, true, false>(d, shared.stages, f);
    else if (b_along_k)
        multiply_stages<T, false, true>(d, shared.stages, f);
    else
        multiply_stages<T, false, false>(d, shared.stages, f);
    __syncthreads();
    put_accumulators(d, shared.warps[threadIdx.x / 32], end);
}

#endif
