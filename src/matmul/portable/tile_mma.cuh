/*
 * A tile by the tensor cores of every GPU from sm_80 on: panels of both factors come to shared
 * memory two steps ahead, eight warps have 64 rows and 32 columns each, and add up 16 of k at a
 * time, in order. 256 threads with 48 KiB of shared memory, and so many registers that there is one
 * block to a multiprocessor.
 */
#ifndef SYMM_MATMUL_TILE_MMA_CUH
#define SYMM_MATMUL_TILE_MMA_CUH

#include "operands.cuh"
#include "operand_smem.cuh"
#include "matmul/kernels/epilogue_smem.cuh"

/* The panels of one step. */
struct stage {
    panel_slot a, b;
};

enum {
    STAGES = 3,
    WARPS_ACROSS = 4,
    WARP_ROWS = 64,
    WARP_COLUMNS = PATCH_COLUMNS,
    PATCH_ROWS = 32
};

/* What a thread has of its warp's part of the tile: by 16 rows, by 8 columns. */
struct warp_sums {
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
SYMM_DEV void add_stage(warp_sums &sums, const stage &s)
{
#pragma unroll
    for (int32_t k = 0; k < PANEL_DEPTH; k += 16) {
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
                multiply_add<T>(sums.of[i][j], a, b[j / 2][j % 2], b[j / 2][j % 2 + 2]);
        }
    }
}

/* The stages must not be in use; they are when this ends. */
template <typename T, bool A_ALONG_K, bool B_ALONG_K>
SYMM_DEV void add_panels(warp_sums &sums, stage *stages, const factors<T> &f)
{
    panel<A_ALONG_K> a(f.a, f.a_row, f.a_column, f.rows, f.k);
    panel<B_ALONG_K> b(f.b, f.b_column, f.b_row, f.columns, f.k);
    const int32_t steps = (f.k + PANEL_DEPTH - 1) / PANEL_DEPTH;
    int32_t slot = 0;

#pragma unroll 1
    for (int32_t step = 1 - STAGES; step < steps; step++) {
        if (step >= 0) {
            copies_wait<STAGES - 2>();
            __syncthreads(); /* and what was in the slot has been used by all */
        }
        if (step + STAGES - 1 < steps) {
            a.bring(stages[slot].a);
            b.bring(stages[slot].b);
        }
        copies_commit();
        slot = slot + 1 < STAGES ? slot + 1 : 0; /* the one that was filled the longest ago */
        if (step >= 0)
            add_stage<T, A_ALONG_K, B_ALONG_K>(sums, stages[slot]);
    }
}

/* --------------------------------------------------------------------------- the end of a tile */

/* Each warp has a patch of its own: it is filled with 32 rows at a time. */
template <typename End>
SYMM_DEV void put_sums(const warp_sums &sums, patch<PATCH_ROWS> &p, const End &end)
{
    const int32_t lane = (int32_t)threadIdx.x % 32;

#pragma unroll
    for (int32_t row = 0; row < WARP_ROWS; row += PATCH_ROWS) {
        __syncwarp();
#pragma unroll
        for (int32_t i = 0; i < PATCH_ROWS; i += 8)
#pragma unroll
            for (int32_t j = 0; j < WARP_COLUMNS / 8; j++) {
                const float *two = sums.of[(row + i) / 16][j] + i / 8 % 2 * 2;
                *reinterpret_cast<float2 *>(&p.at[i + lane / 4][j * 8 + lane % 4 * 2]) =
                    make_float2(two[0], two[1]);
            }
        __syncwarp();
        put_patch(p, warp_row() + row, warp_column(), end);
    }
}

template <typename T, typename End> SYMM_DEV void multiply(const factors<T> &f, const End &end)
{
    __shared__ union {
        stage stages[STAGES];
        patch<PATCH_ROWS> patches[PANEL_THREADS / 32];
    } shared;
    const bool a_along_k = f.a_column == 1 || f.a_row != 1,
               b_along_k = f.b_row == 1 || f.b_column != 1;
    warp_sums sums = {};

    __syncthreads(); /* the tile before is put */
    if (a_along_k && b_along_k)
        add_panels<T, true, true>(sums, shared.stages, f);
    else if (a_along_k)
        add_panels<T, true, false>(sums, shared.stages, f);
    else if (b_along_k)
        add_panels<T, false, true>(sums, shared.stages, f);
    else
        add_panels<T, false, false>(sums, shared.stages, f);
    __syncthreads();
    put_sums(sums, shared.patches[threadIdx.x / 32], end);
}

#endif
