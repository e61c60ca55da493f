/*
 * The product by blocks that take one tile after the other. The consumers store a tile while the
 * stages of the next one are loaded or multiplied.
 */
#ifndef SYMM_MATMUL_SM90_PERSISTENT_CUH
#define SYMM_MATMUL_SM90_PERSISTENT_CUH

#include "followers.cuh"
#include "shared_k.cuh"

namespace sm90
{

/* This consumer's boxes. */
template <typename Store, typename Memory>
SYMM_DEV typename Store::boxes_of_rounds &boxes_of(Memory &m)
{
    if constexpr (Store::PASSES)
        return m.parts.stored[consumer()];
    else
        return m.consumers[consumer()].results;
}

/* Passes the tile before, when all of its results are stored. */
template <typename S, typename Store>
SYMM_DEV void pass_if_stored(Store &results, typename S::barriers &bars)
{
    if constexpr (Store::PASSES)
        if (results.is_done())
            pass_tile<S>(bars);
}

/* Stores the rest of the tile before. */
template <typename S, typename Store>
SYMM_DEV void put_rest(const symm_wgmma_args &args, Store &results,
                       typename Store::boxes_of_rounds &boxes, typename S::barriers &bars)
{
    results.put_rest(boxes, args);
    pass_if_stored<S>(results, bars);
}

/* Takes a tile's results, to store them later, or stores them. */
template <typename S, bool DEFER, typename Store>
SYMM_DEV void end_tile(const symm_wgmma_args &args, const work &w,
                       const typename S::accumulators &d, Store &results, typename S::memory &m,
                       const typename S::barriers &bars)
{
    const symm_product_args &a = args.product;

    if (DEFER)
        results.hold(d, w.t, a);
    else
        put_through_smem(d, m.consumers[consumer()].sums, epilogue(a, results_of(w), bars.set));
}

/*
 * A tile whose k the cluster's blocks share. Apart from other tiles: if a branch of their loop
 * changed accumulators, nvcc would serialize all of wgmma. The tile before is stored first, since
 * the registers are needed.
 */
template <typename S, typename T, bool DEFER, typename Store>
SYMM_DEV void consume_shared(const symm_wgmma_args &args, const work &w, Store &results,
                             typename Store::boxes_of_rounds &boxes, typename S::memory &m,
                             typename S::barriers &bars, typename S::ring &at)
{
    typename S::accumulators d;

    if (DEFER) {
        put_rest<S>(args, results, boxes, bars);
        results.aim(args.product, results_of(w), Store::SENDS ? bars.set : 0);
    }
    multiply_shared<S, T>(args, w, m, bars, at, d);
    end_tile<S, DEFER>(args, w, d, results, m, bars);
}

/*
 * DEFER: all epilogues are is_plain_scale(), and a tile is stored by `Store` while the next one is
 * multiplied. The tensor cores are idle between the last step of a tile and the first one of the
 * next tile, so the next work and the place of the results are computed during the last step.
 */
template <typename S, typename T, bool DEFER, typename Store = deferred_store<S::ROWS, S::PANELS>>
SYMM_DEV void consume(const symm_wgmma_args &args, typename S::memory &m,
                      typename S::barriers &bars)
{
    typename S::block_schedule todo(args);
    typename S::ring at;
    typename Store::boxes_of_rounds &boxes = boxes_of<Store>(m);
    Store results;
    work next;
    bool more = todo.next_whole(&next);

    while (more && !todo.was_shared()) {
        const work w = next;
        const int32_t steps = (w.k_end - w.k_begin + DEPTH - 1) / DEPTH;
        SYMM_TRACE_BEGIN_BY(begin, threadIdx.x == WARPGROUP);
        const auto each_step = [&](int32_t step) {
            if (!DEFER)
                return;
            results.put(step, steps, boxes, args);
            pass_if_stored<S>(results, bars);
        };
        const auto at_last = [&] {
            if (DEFER) {
                put_rest<S>(args, results, boxes, bars);
                results.aim(args.product, w.t, Store::SENDS ? bars.set : 0);
            }
            more = todo.next_whole(&next);
        };
        typename S::accumulators d;
        if (b_along_k(args, w.t))
            multiply_stages<S, T, true>(d, steps, m.stages, bars, at, each_step, at_last);
        else
            multiply_stages<S, T, false>(d, steps, m.stages, bars, at, each_step, at_last);
        trace_tile(args.product, w.t, SYMM_MATMUL_ROLE_CONSUMER, begin, threadIdx.x == WARPGROUP);
        end_tile<S, DEFER>(args, w, d, results, m, bars);
    }
    const bool shared = todo.was_shared() && todo.again_shared(&next);
    if (shared)
        consume_shared<S, T, DEFER>(args, next, results, boxes, m, bars, at);
    if (DEFER && Store::PASSES)
        arrive_warp(&bars.drained);
    if constexpr (DEFER && !Store::SENDS)
        if (!shared) /* another block reads its stages */
            results.put_all([&](int32_t i) -> box & { return S::used_box(m.stages, i); });
    if (DEFER)
        put_rest<S>(args, results, boxes, bars);
}

/* The consumers. Results of a product that adds parts are plain: the host sees to it. */
template <typename S, typename T>
SYMM_DEV void consume_tiles(const symm_wgmma_args &args, typename S::memory &m,
                            typename S::barriers &bars)
{
    const symm_product_args &a = args.product;

    if (a.parts.beside)
        consume<S, T, true, boxed_store<S::ROWS, S::PANELS, S::STORED_BOXES>>(args, m, bars);
    else if (!all_plain_scale(a))
        consume<S, T, false>(args, m, bars);
    else if (a.sink == SYMM_TO_D)
        consume<S, T, true>(args, m, bars);
    else
        consume<S, T, true, paced_store<S::ROWS, S::PANELS>>(args, m, bars);
}

/* The producer: one thread. Waits for a piece of the rows just before loading it. */
template <typename S>
SYMM_DEV void produce_tiles(const symm_wgmma_args &args, typename S::memory &m,
                            typename S::barriers &bars)
{
    const symm_product_args &a = args.product;
    typename S::block_schedule todo(args);
    typename S::ring at;
    arrivals rows;
    work w;

    for (uint32_t n = 0; todo.next(&w); n++) {
        if (has_followers(a))
            await_followers<S>(n, bars);
        const int32_t end = min(w.k_end, a.a.k);
        int32_t arrived = rows.needed(a, w) ? w.k_begin : end;
        produce<S>(args, sources(args, w), w.k_begin, w.k_end, m.stages, bars, at, [&](int32_t k) {
            if (k < arrived || k >= end)
                return;
            rows.await(a, k, k + 1, 0, 1);
            fence_async(); /* the arrived rows are visible to TMA */
            arrived = (k / (int32_t)a.arrivals.k_piece + 1) * (int32_t)a.arrivals.k_piece;
        });
    }
    end_arrivals(a);
    await_releases<S>(bars, at);
}

template <typename S> SYMM_DEV void begin(const symm_product_args &a, typename S::barriers &bars)
{
    if (threadIdx.x != 0)
        return;
    count_started(a);
    begin_stages<S>(bars);
    mbarrier_init(&bars.shown, S::WARPS);
    begin_following<S>(a, bars);
    fence_barriers();
}

} /* namespace sm90 */

/* A cluster's blocks begin and end together, because each writes the others' shared memory. */
template <typename T, int ROWS, int COLUMNS, int BLOCKS>
SYMM_DEV void matmul_wgmma(const symm_wgmma_args &args)
{
    using S = sm90::shape<ROWS, COLUMNS, BLOCKS>;
    SYMM_DYNAMIC_SHARED(char, dynamic, 1024);
    __shared__ typename S::barriers bars;
    typename S::memory &m = *reinterpret_cast<typename S::memory *>(dynamic);

    const uint32_t warp = sm90::warp_number();

    sm90::begin<S>(args.product, bars);
    __syncthreads();
    sm90::cluster_meet();
    if (warp < sm90::WARPGROUP / 32) {
        sm90::setmaxnreg_dec<S::PRODUCER_REGISTERS>();
        if (warp == 0) {
            if (sm90::elect_one())
                sm90::produce_tiles<S>(args, m, bars);
        } else if (sm90::has_followers(args.product)) {
            sm90::follow<S>(args, warp, m, bars);
        }
    } else {
        sm90::setmaxnreg_inc<S::CONSUMER_REGISTERS>();
        sm90::consume_tiles<S, T>(args, m, bars);
    }
    __syncwarp();
    sm90::cluster_meet();
}

#endif
