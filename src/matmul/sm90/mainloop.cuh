/*
 * The product for Hopper GPUs. In each block one producer thread loads stages of both operands into
 * shared memory by TMA, and two warpgroups, the consumers, multiply them by wgmma. Each consumer
 * has 64 rows of a tile and all of its columns. It stores a tile while the stages of the next one
 * are loaded or multiplied. The blocks of a cluster take tiles below each other; each block loads
 * its share of B's stages for all of them. Schedule and arrivals are those of the portable product.
 */
#ifndef SYMM_MATMUL_SM90_MAINLOOP_CUH
#define SYMM_MATMUL_SM90_MAINLOOP_CUH

#include "matmul/kernels/arrivals.cuh"
#include "followers.cuh"

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

    SYMM_DEV_IN_CLASS sources(const symm_wgmma_args &args, const tile &t)
        : a(&args.own), b(&args.b[t.product]), a_row(row_in_a(args.product, t)), a_batch(0),
          b_column(t.column), b_batch(args.product.b[t.product].batch ? t.batch : 0),
          b_along_k(sm90::b_along_k(args, t))
    {
        const symm_shards &s = args.product.a;
        if (shard_in_a(args.product, t) == s.rank) {
            a_batch = s.own.batch ? t.batch : 0;
            return;
        }
        a = &args.workspace;
        a_row += t.batch * symm__rows_of_rank(s.m, s.nranks, t.shard);
        a_batch = t.shard;
    }
};

/* Loads a box of B, into all blocks of the cluster. */
template <typename S>
SYMM_DEV void load_b(const sources &f, uint16_t *shared, int32_t x, int32_t y, uint64_t *bar)
{
    if constexpr (S::CLUSTER == 1)
        tensor_load(shared, f.b, x, y, f.b_batch, bar);
    else
        tensor_load_all(shared, f.b, x, y, f.b_batch, bar, (1u << S::CLUSTER) - 1);
}

/* Starts to load the stage at k: A's rows of this block, and this block's share of B. */
template <typename S>
SYMM_DEV void load_stage(const sources &f, int32_t k, typename S::stage &s, uint64_t *bar)
{
    constexpr int32_t SHARE = S::COLUMNS / S::CLUSTER;
    const int32_t rank = S::CLUSTER > 1 ? (int32_t)cluster_rank() : 0;

    mbarrier_expect(bar,
                    sizeof s.a + (f.b_along_k ? S::COLUMNS : S::B_COLUMNS) * DEPTH * sizeof *s.b);
    tensor_load(s.a, f.a, k, f.a_row, f.a_batch, bar);
    if (f.b_along_k)
        load_b<S>(f, s.b + rank * SHARE * DEPTH, k, f.b_column + rank * SHARE, bar);
    else
        for (int32_t j = rank * B_BLOCK; j < S::COLUMNS; j += B_BLOCK * S::CLUSTER)
            load_b<S>(f, s.b + j * DEPTH, f.b_column + j, k, bar);
}

/* One thread. Waits for a piece of the rows just before loading it. */
template <typename S>
SYMM_DEV void produce(const symm_wgmma_args &args, typename S::memory &m,
                      typename S::barriers &bars)
{
    const symm_product_args &a = args.product;
    typename S::block_schedule todo(a);
    typename S::ring at;
    arrivals rows;
    work w;

    for (uint32_t n = 0; todo.next(&w); n++) {
        if (has_followers(a))
            await_followers<S>(n, bars);
        const sources from(args, w.t);
        int32_t arrived = rows.needed(a, w) ? w.k_begin : w.k_end;
        for (int32_t k = w.k_begin; k < w.k_end; k += DEPTH) {
            if (k == arrived) {
                rows.await(a, k, k + 1, 0, 1);
                fence_async(); /* the arrived rows are visible to TMA */
                arrived += (int32_t)a.arrivals.k_piece;
            }
            mbarrier_wait(&bars.empty[at.slot], at.parity ^ 1);
            load_stage<S>(from, k, m.stages[at.slot], &bars.full[at.slot]);
            at.next();
        }
    }
}

/* -------------------------------------------------------------------------------- the consumers */

/*
 * The descriptor of a matrix in shared memory for wgmma, in units of 16 bytes: its address (from
 * bit 18 on an address has the block's rank in the cluster), the distance to the next 64 columns if
 * lines are along columns, the distance of 8 lines, and the swizzle of 128 bytes.
 */
SYMM_DEV uint64_t smem_descriptor(const void *p)
{
    return (uint64_t)(in_shared(p) % (1u << 18) >> 4) | (uint64_t)(B_BLOCK * DEPTH * 2 >> 4) << 16 |
           (uint64_t)(8 * 128 >> 4) << 32 | (uint64_t)1 << 62;
}

/* A warp has used a stage. The producers of all blocks wait for it, since each loads a share. */
template <typename S> SYMM_DEV void release_stage(uint64_t *bar)
{
    const uint32_t lane = threadIdx.x % 32;

    if (lane < S::CLUSTER)
        mbarrier_arrive(bar, lane);
}

/*
 * Accumulates a tile in d. While a step is multiplied it calls each_step with the step's number,
 * and in the last step at_last after that.
 */
template <typename S, typename T, bool B_ALONG_K, typename F, typename G>
SYMM_DEV void multiply_stages(float (&d)[S::ACCUMULATORS], int32_t steps,
                              const typename S::stage *stages, typename S::barriers &bars,
                              typename S::ring &at, const F &each_step, const G &at_last)
{
    constexpr int32_t K = 16, NEXT_A = K * 2 / 16, NEXT_B = B_ALONG_K ? NEXT_A : K * 128 / 16;
    const int32_t group = __shfl_sync(~0u, (int32_t)threadIdx.x / WARPGROUP - 1, 0);
    int32_t before = 0;

#pragma unroll 1
    for (int32_t step = 0; step < steps; step++) {
        const typename S::stage &s = stages[at.slot];
        const uint64_t a = smem_descriptor(s.a + group * (GROUP_ROWS * DEPTH)),
                       b = smem_descriptor(s.b);
        mbarrier_wait(&bars.full[at.slot], at.parity);
        wgmma_fence();
#pragma unroll
        for (int32_t k = 0; k < DEPTH / K; k++)
            wgmma<T, B_ALONG_K>(d, a + k * NEXT_A, b + k * NEXT_B, step > 0 || k > 0);
        wgmma_commit();
        wgmma_wait_but_one();
        if (step > 0)
            release_stage<S>(&bars.empty[before]);
        each_step(step);
        before = at.slot;
        at.next();
    }
    at_last();
    wgmma_wait(d);
    release_stage<S>(&bars.empty[before]);
}

/*
 * DEFER: all epilogues are is_plain_scale(), and a tile is stored by `Store` while the next one is
 * multiplied. The tensor cores are idle between the last step of a tile and the first one of the
 * next tile, so the next work and the place of the results are computed during the last step.
 */
template <typename S, typename T, bool DEFER, typename Store = deferred_store<S::ACCUMULATORS>>
SYMM_DEV void consume(const symm_wgmma_args &args, typename S::memory &m,
                      typename S::barriers &bars)
{
    constexpr bool SENDS = !DEFER || Store::SENDS, PASSES = DEFER && Store::PASSES;
    const symm_product_args &a = args.product;
    typename S::block_schedule todo(a);
    typename S::ring at;
    const uint32_t warp = threadIdx.x / 32 - WARPGROUP / 32;
    epilogue_smem<WARP_ROWS> &smem = m.warps[warp];
    typename Store::smem &lines = Store::smem::of(m, warp);
    Store results;
    work next;
    const auto pass = [&] {
        if constexpr (PASSES)
            if (results.is_done())
                pass_tile<S>(bars);
    };
    bool more = todo.next(&next);

    while (more) {
        const work w = next;
        const int32_t steps = (w.k_end - w.k_begin + DEPTH - 1) / DEPTH;
        SYMM_TRACE_BEGIN_BY(begin, threadIdx.x == WARPGROUP);
        const auto each_step = [&](int32_t step) {
            if (DEFER) {
                results.put(step, steps, lines, args);
                pass();
            }
        };
        const auto at_last = [&] {
            if (DEFER) {
                results.put_rest(steps, lines, args);
                pass();
            }
            if (DEFER)
                results.aim(a, w.t, SENDS ? bars.set : 0);
            more = todo.next(&next);
        };
        float d[S::ACCUMULATORS];
        if (b_along_k(args, w.t))
            multiply_stages<S, T, true>(d, steps, m.stages, bars, at, each_step, at_last);
        else
            multiply_stages<S, T, false>(d, steps, m.stages, bars, at, each_step, at_last);
        trace_tile(a, w.t, SYMM_MATMUL_ROLE_CONSUMER, begin, threadIdx.x == WARPGROUP);
        if (DEFER)
            results.hold(d, w.t, a);
        else
            put_through_smem(d, smem, epilogue(a, w.t, bars.set));
    }
    if (PASSES)
        arrive_warp(&bars.drained);
    if (DEFER) {
        results.put_rest(0, lines, args);
        pass();
    }
}

/* The consumers. Results of a product that adds parts are plain: the host sees to it. */
template <typename S, typename T>
SYMM_DEV void consume_tiles(const symm_wgmma_args &args, typename S::memory &m,
                            typename S::barriers &bars)
{
    const symm_product_args &a = args.product;

    if constexpr (S::ADDS)
        if (a.parts.beside)
            return consume<S, T, true, boxed_store<S::ACCUMULATORS>>(args, m, bars);
    if (!all_plain_scale(a))
        consume<S, T, false>(args, m, bars);
    else if (a.sink == SYMM_TO_D)
        consume<S, T, true>(args, m, bars);
    else
        consume<S, T, true, paced_store<S::ACCUMULATORS>>(args, m, bars);
}

template <typename S> SYMM_DEV void begin(const symm_product_args &a, typename S::barriers &bars)
{
    if (threadIdx.x != 0)
        return;
    count_started(a);
    for (int32_t i = 0; i < S::STAGES; i++) {
        mbarrier_init(&bars.full[i], 1);
        mbarrier_init(&bars.empty[i], S::CLUSTER * CONSUMERS * WARPGROUP / 32);
    }
    begin_following<S>(a, bars);
    fence_async();
}

} /* namespace sm90 */

/* A cluster's blocks begin and end together, because each writes the others' shared memory. */
template <typename T, int COLUMNS, int CLUSTER>
SYMM_DEV void matmul_wgmma(const symm_wgmma_args &args)
{
    using S = sm90::shape<COLUMNS, CLUSTER>;
    SYMM_DYNAMIC_SHARED(char, dynamic, 1024);
    __shared__ typename S::barriers bars;
    typename S::memory &m = *reinterpret_cast<typename S::memory *>(dynamic);

    sm90::begin<S>(args.product, bars);
    __syncthreads();
    sm90::cluster_sync();
    if (threadIdx.x < sm90::WARPGROUP) {
        sm90::setmaxnreg_dec<sm90::PRODUCER_REGISTERS>();
        if (threadIdx.x == 0)
            sm90::produce<S>(args, m, bars);
        else if (sm90::has_followers(args.product))
            sm90::follow<S>(args, m, bars);
    } else {
        sm90::setmaxnreg_inc<sm90::CONSUMER_REGISTERS>();
        sm90::consume_tiles<S, T>(args, m, bars);
    }
    __syncwarp();
    sm90::cluster_sync();
}

#endif
