/*
 * The product for Hopper GPUs. In each block one producer thread loads stages of both operands into
 * shared memory by TMA, and warpgroups, the consumers, multiply them by wgmma. Each consumer has
 * panels of 64 columns of a tile and all of its rows: a panel of B is the left operand, whose lines
 * are 64, and A is the right one, so a tile may have any number of rows that 8 divides. The blocks
 * of a cluster take tiles below each other; each block loads its share of B's stages for all of
 * them.
 */
#ifndef SYMM_MATMUL_SM90_MAINLOOP_CUH
#define SYMM_MATMUL_SM90_MAINLOOP_CUH

#include "matmul/kernels/arrivals.cuh"
#include "ptx.cuh"
#include "shape.cuh"

namespace sm90
{

SYMM_DEV bool b_along_k(const symm_wgmma_args &args, const tile &t)
{
    return args.b_along_k >> t.product & 1;
}

/* --------------------------------------------------------------------------------- the producer */

/* The tensors of a tile's operands, and the tile's coordinates in them. */
struct sources {
    const symm_tensor_map *a, *b;
    int32_t a_row, a_batch, b_column, b_batch;
    bool b_along_k;
    bool alone; /* no other block needs this part of B */

    SYMM_DEV_IN_CLASS sources(const symm_wgmma_args &args, const work &w)
        : a(&args.own), b(&args.b[w.t.product]), a_row(row_in_a(args.product, w.t)), a_batch(0),
          b_column(w.t.column), b_batch(args.product.b[w.t.product].batch ? w.t.batch : 0),
          b_along_k(sm90::b_along_k(args, w.t)), alone(w.nparts > 1)
    {
        const symm_shards &s = args.product.a;
        const tile &t = w.t;
        if (shard_in_a(args.product, t) == s.rank) {
            a_batch = s.own.batch ? t.batch : 0;
            return;
        }
        a = &args.workspace;
        a_row += t.batch * symm__rows_of(args.product.order.rows, t.shard);
        a_batch = t.shard;
    }

    /* Of a plain product. */
    SYMM_DEV_IN_CLASS sources(const symm_wgmma_args &args, const tile &t)
        : a(&args.own), b(&args.b[0]), a_row(t.row), a_batch(0), b_column(t.column), b_batch(0),
          b_along_k(args.b_along_k & 1), alone(false)
    {
    }
};

/* Loads a box of B, into all blocks of the cluster that multiply it. */
template <typename S>
SYMM_DEV void load_b(const sources &f, uint16_t *shared, int32_t x, int32_t y, uint64_t *bar)
{
    if (S::CLUSTER == 1 || f.alone)
        tensor_load(shared, f.b, x, y, f.b_batch, bar);
    else
        tensor_load_all(shared, f.b, x, y, f.b_batch, bar, (1u << S::CLUSTER) - 1);
}

/* Loads one block's share of a stage's B. */
template <typename S>
SYMM_DEV void load_share_of_b(const sources &f, int32_t share, int32_t k, typename S::stage &s,
                              uint64_t *bar)
{
    constexpr int32_t SHARE = S::COLUMNS / S::CLUSTER;

    if (f.b_along_k)
        load_b<S>(f, s.b + share * SHARE * DEPTH, k, f.b_column + share * SHARE, bar);
    else
        for (int32_t j = share * PANEL; j < S::COLUMNS; j += PANEL * S::CLUSTER)
            load_b<S>(f, s.b + j * DEPTH, f.b_column + j, k, bar);
}

/* Expects all of a stage, and starts to load B at k: this block's share, or alone all shares. */
template <typename S>
SYMM_DEV void load_stage_of_b(const symm_wgmma_args &args, const sources &f, int32_t k,
                              typename S::stage &s, uint64_t *bar)
{
    const uint32_t lines = S::rows_loaded(args) + S::COLUMNS;

    mbarrier_expect(bar, lines * DEPTH * (uint32_t)sizeof *s.b);
    if (S::CLUSTER == 1 || !f.alone)
        load_share_of_b<S>(f, S::CLUSTER > 1 ? (int32_t)cluster_rank() : 0, k, s, bar);
    else
        for (int32_t share = 0; share < S::CLUSTER; share++)
            load_share_of_b<S>(f, share, k, s, bar);
}

/* Starts to load this block's rows of A at k. */
template <typename S>
SYMM_DEV void load_stage_of_a(const sources &f, int32_t k, typename S::stage &s, uint64_t *bar)
{
    tensor_load(s.a, f.a, k, f.a_row, f.a_batch, bar);
}

/*
 * Loads the stages of [k_begin, k_end) of a tile. Calls before(k) ahead of the stage at k. One
 * thread, elected, since the copy unit takes its operands in uniform registers.
 */
template <typename S, typename F>
SYMM_DEV void produce(const symm_wgmma_args &args, const sources &from, int32_t k_begin,
                      int32_t k_end, typename S::stage *stages, typename S::stage_barriers &bars,
                      typename S::ring &at, const F &before)
{
#pragma unroll 1
    for (int32_t k = k_begin; k < k_end; k += DEPTH) {
        before(k);
        mbarrier_wait(&bars.empty[at.slot], at.parity ^ 1);
        load_stage_of_b<S>(args, from, k, stages[at.slot], &bars.full[at.slot]);
        load_stage_of_a<S>(from, k, stages[at.slot], &bars.full[at.slot]);
        at.next();
    }
}

/*
 * The producer, behind the last stage: all blocks have used the stages and told this block so. If
 * it ended earlier, their arrivals would find no barrier. `at` is behind the last stage.
 */
template <typename S>
SYMM_DEV void await_releases(typename S::stage_barriers &bars, typename S::ring &at)
{
    if constexpr (S::CLUSTER > 1)
#pragma unroll 1
        for (int32_t i = 0; i < S::STAGES; i++, at.next())
            mbarrier_wait(&bars.empty[at.slot], at.parity ^ 1);
}

/* The number of this thread's warp, as a value that is the same in all of its threads. */
SYMM_DEV uint32_t warp_number(void)
{
    return __shfl_sync(~0u, threadIdx.x / 32, 0);
}

/* -------------------------------------------------------------------------------- the consumers */

/*
 * The descriptor of a matrix in shared memory for wgmma, in units of 16 bytes: its address (from
 * bit 18 on an address has the block's rank in the cluster), the distance of 8 lines, and the
 * swizzle of 128 bytes.
 */
SYMM_DEV uint64_t smem_descriptor(const void *p)
{
    return (uint64_t)(in_shared(p) % (1u << 18) >> 4) | (uint64_t)(8 * 128 >> 4) << 32 |
           (uint64_t)1 << 62;
}

/* A warp has used a stage. The producers of all blocks that share B wait for it. */
template <typename S> SYMM_DEV void release_stage(uint64_t *bar)
{
    const uint32_t lane = threadIdx.x % 32;

    if (S::CLUSTER == 1 && lane == 0)
        mbarrier_arrive_here(bar);
    else if (S::CLUSTER > 1 && lane < S::CLUSTER)
        mbarrier_arrive(bar, lane);
}

/*
 * Accumulates a tile in d. While a step is multiplied it calls each_step with the step's number,
 * and in the last step at_last after that.
 */
template <typename S, typename T, bool B_ALONG_K, typename F, typename G>
SYMM_DEV void multiply_stages(typename S::accumulators &d, int32_t steps,
                              const typename S::stage *stages, typename S::stage_barriers &bars,
                              typename S::ring &at, const F &each_step, const G &at_last)
{
    constexpr int32_t K = 16, NEXT_A = K * 2 / 16, NEXT_B = B_ALONG_K ? NEXT_A : K * 128 / 16,
                      NEXT_PANEL = PANEL * DEPTH * 2 / 16;
    const int32_t panel = __shfl_sync(~0u, consumer(), 0) * S::PANELS;
    int32_t before = 0;

#pragma unroll 1
    for (int32_t step = 0; step < steps; step++) {
        const typename S::stage &s = stages[at.slot];
        const uint64_t a = smem_descriptor(s.a), b = smem_descriptor(s.b + panel * (PANEL * DEPTH));
        mbarrier_wait(&bars.full[at.slot], at.parity);
        wgmma_fence();
#pragma unroll
        for (int32_t k = 0; k < DEPTH / K; k++)
#pragma unroll
            for (int32_t p = 0; p < S::PANELS; p++)
                wgmma<T, B_ALONG_K>(d[p], b + p * NEXT_PANEL + k * NEXT_B, a + k * NEXT_A,
                                    step > 0 || k > 0);
        wgmma_commit();
        wgmma_wait_but_one();
        if (step > 0)
            release_stage<S>(&bars.empty[before]);
        each_step(step);
        before = at.slot;
        at.next();
    }
    at_last();
#pragma unroll
    for (int32_t p = 0; p < S::PANELS; p++)
        wgmma_wait(d[p]);
    release_stage<S>(&bars.empty[before]);
}

/* One thread, before any other. */
template <typename S> SYMM_DEV void begin_stages(typename S::stage_barriers &bars)
{
    for (int32_t i = 0; i < S::STAGES; i++) {
        mbarrier_init(&bars.full[i], 1);
        mbarrier_init(&bars.empty[i], S::CLUSTER * S::WARPS);
    }
}

} /* namespace sm90 */

#endif
