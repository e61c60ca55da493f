/*
 * Tiles whose k the blocks of a cluster share: those of the last wave, if there are few. Each block
 * multiplies its part of k. Then the first block adds the other block's part to its own, and has
 * the tile's results.
 */
#ifndef SYMM_MATMUL_SM90_SHARED_K_CUH
#define SYMM_MATMUL_SM90_SHARED_K_CUH

#include "mainloop.cuh"

namespace sm90
{

/* The tile whose results this block has: with no rows if another block has them. */
SYMM_DEV tile results_of(const work &w)
{
    tile t = w.t;

    if (w.part > 0)
        t.rows = 0;
    return t;
}

/* The accumulators of a part of k, in the stages. A thread's packs are its own. */
template <typename S> struct shown_part {
    enum {
        THREADS = S::WARPS * 32,
        WORDS = 4,
        PACKS_OF_PANEL = S::ROWS / 2 / WORDS,
        PACKS = S::PANELS * PACKS_OF_PANEL
    };
    static_assert(PACKS * THREADS * sizeof(float4) <= S::STAGES * sizeof(typename S::stage),
                  "they fit");
    static_assert(S::CLUSTER == 2, "one part is added to the other");

    SYMM_DEV_IN_CLASS static float *pack(typename S::memory &m, int32_t i)
    {
        return reinterpret_cast<float *>(m.stages) +
               (i * THREADS + (int32_t)threadIdx.x - WARPGROUP) * WORDS;
    }
};

/* `at` is behind the last stage. The stages are free when all warps have used that one. */
template <typename S>
SYMM_DEV void show_part_of_k(const typename S::accumulators &d, typename S::ring at,
                             typename S::memory &m, typename S::barriers &bars)
{
    using part = shown_part<S>;

    at.back();
    mbarrier_wait(&bars.empty[at.slot], at.parity);
#pragma unroll
    for (int32_t i = 0; i < part::PACKS; i++) {
        const float *x = &d[i / part::PACKS_OF_PANEL][i % part::PACKS_OF_PANEL * 4];
        *reinterpret_cast<float4 *>(part::pack(m, i)) = {x[0], x[1], x[2], x[3]};
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        mbarrier_release(&bars.shown, 0);
}

template <typename S>
SYMM_DEV void add_part_of_k(typename S::accumulators &d, typename S::memory &m,
                            typename S::barriers &bars)
{
    using part = shown_part<S>;

    mbarrier_acquire(&bars.shown, 0);
#pragma unroll
    for (int32_t i = 0; i < part::PACKS; i++) {
        const float4 x = cluster_load(part::pack(m, i), 1);
        float *sum = &d[i / part::PACKS_OF_PANEL][i % part::PACKS_OF_PANEL * 4];
        sum[0] += x.x;
        sum[1] += x.y;
        sum[2] += x.z;
        sum[3] += x.w;
    }
}

/* A consumer's accumulators of a shared tile: in the first block, of all of k. */
template <typename S, typename T>
SYMM_DEV void multiply_shared(const symm_wgmma_args &args, const work &w, typename S::memory &m,
                              typename S::barriers &bars, typename S::ring &at,
                              typename S::accumulators &d)
{
    if constexpr (S::CLUSTER > 1) {
        const int32_t steps = (w.k_end - w.k_begin) / DEPTH;
        const auto each_step = [](int32_t) {};
        const auto at_last = [] {};
        SYMM_TRACE_BEGIN_BY(begin, threadIdx.x == WARPGROUP);

        if (b_along_k(args, w.t))
            multiply_stages<S, T, true>(d, steps, m.stages, bars, at, each_step, at_last);
        else
            multiply_stages<S, T, false>(d, steps, m.stages, bars, at, each_step, at_last);
        if (w.part > 0)
            show_part_of_k<S>(d, at, m, bars);
        else
            add_part_of_k<S>(d, m, bars);
        trace_tile(args.product, w.t, SYMM_MATMUL_ROLE_CONSUMER, begin, threadIdx.x == WARPGROUP);
    }
}

} /* namespace sm90 */

#endif
