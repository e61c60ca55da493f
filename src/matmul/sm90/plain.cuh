/*
 * The plain product: one matrix times one matrix, all rows present, and D gets alpha times the sums
 * in whole packs. It waits for no other rank, signals nothing, and has no parts, batches or shared
 * tiles. So a block finds its tiles sooner than one of persistent.cuh.
 */
#ifndef SYMM_MATMUL_SM90_PLAIN_CUH
#define SYMM_MATMUL_SM90_PLAIN_CUH

#include "mainloop.cuh"

namespace sm90
{

/* As many stages as fit, up to 8, beside two boxes of each consumer. */
constexpr int plain_stages_of(int rows, int columns)
{
    const int boxes = SYMM_WGMMA_CONSUMERS(columns) * (int)sizeof(round_boxes<2>),
              fit = (SYMM_PLAIN_SHARED_NBYTES - boxes) / ((rows + columns) * DEPTH * 2);

    return fit < 8 ? fit : 8;
}

template <int R, int N, int BLOCKS>
struct plain_shape : pipeline<R, N, BLOCKS, plain_stages_of(R, N)> {
    using base = pipeline<R, N, BLOCKS, plain_stages_of(R, N)>;
    using base::CONSUMERS, base::STAGES;
    using typename base::stage;

    enum {
        PRODUCER_REGISTERS = CONSUMERS == 3 ? 32 : 24,
        CONSUMER_REGISTERS = CONSUMERS == 3 ? 160 : 240,
        OVERLAPS = R * N <= SYMM_PLAIN_OVERLAPPED /* a tile is stored during the next one */
    };
    static_assert(PRODUCER_REGISTERS + CONSUMERS * CONSUMER_REGISTERS ==
                      (1 + CONSUMERS) * SYMM_PLAIN_REGISTERS(N),
                  "setmaxnreg shares the registers that the block is launched with");

    struct memory {
        stage stages[STAGES];
        round_boxes<2> results[CONSUMERS];
    };
    static_assert(sizeof(stage) * STAGES % 1024 == 0, "the swizzle's pattern");
    static_assert(sizeof(memory) <= SYMM_PLAIN_SHARED_NBYTES, "the launch asks for that much");

    SYMM_DEV_IN_CLASS static uint32_t rows_loaded(const symm_wgmma_args &)
    {
        return R;
    }
};

/* A thread's way through the tiles of its block. A cluster takes tiles below each other. */
template <typename S> struct plain_tiles {
    const symm_product_args &a;
    uint32_t place; /* of the cluster's next tiles */

    SYMM_DEV_IN_CLASS plain_tiles(const symm_product_args &args)
        : a(args), place(blockIdx.x / S::CLUSTER)
    {
    }

    /* A tile may have no rows: its block still loads its share of B for the other blocks. */
    SYMM_DEV_IN_CLASS bool next(tile *t)
    {
        constexpr int32_t ROWS = S::ROWS * S::CLUSTER;
        const int32_t down = (a.a.m + ROWS - 1) / ROWS;

        if (place >= (uint32_t)(down * a.order.across))
            return false;
        const tile_place at = place_in_bands(a.order, a.order.last[0], down, place);
        const int32_t below = S::CLUSTER > 1 ? (int32_t)cluster_rank() * S::ROWS : 0,
                      row = at.row * ROWS + below, column = at.column * S::COLUMNS;
        place += gridDim.x / S::CLUSTER;
        *t = {0,
              0,
              row,
              max(0, min((int32_t)S::ROWS, a.a.m - row)),
              0,
              column,
              min((int32_t)S::COLUMNS, a.n[0] - column)};
        return true;
    }
};

template <typename S>
SYMM_DEV void produce_plain(const symm_wgmma_args &args, typename S::memory &m,
                            typename S::stage_barriers &bars)
{
    plain_tiles<S> todo(args.product);
    typename S::ring at;
    tile t;

    while (todo.next(&t))
        produce<S>(args, sources(args, t), 0, args.product.a.k, m.stages, bars, at, [](int32_t) {});
    await_releases<S>(bars, at);
}

/* Where a tile's results go. */
template <typename S> SYMM_DEV result_place place_of(const symm_wgmma_args &args, const tile &t)
{
    const symm_matrix &d = args.product.d[0];
    result_place place;

    place.aim(static_cast<uint16_t *>(d.data) + t.row * d.row + t.column, d.row, t, S::PANELS);
    return place;
}

/* Results that are stored during the next tile, and those of the last tile at once. */
template <typename S, typename T> struct overlapped_store {
    const symm_wgmma_args &args;
    typename S::memory &m;
    deferred_store<S::ROWS, S::PANELS> held;

    SYMM_DEV_IN_CLASS overlapped_store(const symm_wgmma_args &a, typename S::memory &memory)
        : args(a), m(memory)
    {
    }

    SYMM_DEV_IN_CLASS void put(int32_t step, int32_t steps)
    {
        held.put(step, steps, m.results[consumer()], args);
    }

    /* In the tile's last step. */
    SYMM_DEV_IN_CLASS void aim(const tile &t)
    {
        held.put_rest(m.results[consumer()], args);
        held.aim(place_of<S>(args, t));
    }

    SYMM_DEV_IN_CLASS void take(const typename S::accumulators &d, bool)
    {
        held.template hold<T>(d, args.product.alpha);
    }

    SYMM_DEV_IN_CLASS void end(void)
    {
        held.put_all([&](int32_t i) -> box & { return S::used_box(m.stages, i); });
    }
};

/* Results that go to D from the accumulators: no registers are left to hold them. */
template <typename S, typename T> struct direct_store {
    const symm_wgmma_args &args;
    typename S::memory &m;
    result_place place;
    enum { ROUNDS_OF_PANEL = S::ROWS / ROUND_ROWS, ROUNDS = S::PANELS * ROUNDS_OF_PANEL };

    SYMM_DEV_IN_CLASS direct_store(const symm_wgmma_args &a, typename S::memory &memory)
        : args(a), m(memory)
    {
    }

    SYMM_DEV_IN_CLASS void put(int32_t, int32_t)
    {
    }

    SYMM_DEV_IN_CLASS void aim(const tile &t)
    {
        place = place_of<S>(args, t);
    }

    /* The stages of the last tile are free. */
    SYMM_DEV_IN_CLASS void take(const typename S::accumulators &d, bool more)
    {
        if (more) {
#pragma unroll
            for (int32_t i = 0; i < ROUNDS; i++) {
                box &x = m.results[consumer()].of[i % 2];
                fill(x, d, i);
                consumer_meet();
                store(x, i);
            }
            return;
        }
        consumer_meet();
#pragma unroll
        for (int32_t i = 0; i < ROUNDS; i++)
            fill(S::used_box(m.stages, i), d, i);
        consumer_meet();
#pragma unroll
        for (int32_t i = 0; i < ROUNDS; i++)
            store(S::used_box(m.stages, i), i);
    }

    SYMM_DEV_IN_CLASS void end(void)
    {
    }

  private:
    SYMM_DEV_IN_CLASS void fill(box &x, const typename S::accumulators &d, int32_t round) const
    {
        const float *of = &d[round / ROUNDS_OF_PANEL][round % ROUNDS_OF_PANEL * 8];
        const float alpha = args.product.alpha;
        uint32_t words[4];

#pragma unroll
        for (int32_t i = 0; i < 4; i++)
            words[i] = symm_detail::narrow2<T>(alpha * of[2 * i], alpha * of[2 * i + 1]);
        x.fill(words);
    }

    SYMM_DEV_IN_CLASS void store(box &x, int32_t round) const
    {
        if (uint16_t *to =
                place.pack(round % ROUNDS_OF_PANEL * ROUND_ROWS, round / ROUNDS_OF_PANEL * PANEL))
            symm_dev_store_bits(to, x.pack());
    }
};

/* The next tile, and the place of results, are computed while a tile's last step is multiplied. */
template <typename S, typename T, typename Store>
SYMM_DEV void consume_plain(const symm_wgmma_args &args, typename S::memory &m,
                            typename S::stage_barriers &bars)
{
    const int32_t steps = (args.product.a.k + DEPTH - 1) / DEPTH;
    plain_tiles<S> todo(args.product);
    Store results(args, m);
    typename S::ring at;
    tile next;
    bool more = todo.next(&next);

    while (more) {
        const tile t = next;
        SYMM_TRACE_BEGIN_BY(begin, threadIdx.x == WARPGROUP);
        const auto each_step = [&](int32_t step) { results.put(step, steps); };
        const auto at_last = [&] {
            results.aim(t);
            more = todo.next(&next);
        };
        typename S::accumulators d;
        if (args.b_along_k & 1)
            multiply_stages<S, T, true>(d, steps, m.stages, bars, at, each_step, at_last);
        else
            multiply_stages<S, T, false>(d, steps, m.stages, bars, at, each_step, at_last);
        trace_tile(args.product, t, SYMM_MATMUL_ROLE_CONSUMER, begin, threadIdx.x == WARPGROUP);
        results.take(d, more);
    }
    results.end();
}

template <typename S, typename T>
SYMM_DEV void consume_plain(const symm_wgmma_args &args, typename S::memory &m,
                            typename S::stage_barriers &bars)
{
    if constexpr (S::OVERLAPS)
        consume_plain<S, T, overlapped_store<S, T>>(args, m, bars);
    else
        consume_plain<S, T, direct_store<S, T>>(args, m, bars);
}

} /* namespace sm90 */

/* A cluster's blocks begin and end together, because each writes the others' shared memory. */
template <typename T, int ROWS, int COLUMNS, int BLOCKS>
SYMM_DEV void matmul_plain(const symm_wgmma_args &args)
{
    using S = sm90::plain_shape<ROWS, COLUMNS, BLOCKS>;
    SYMM_DYNAMIC_SHARED(char, dynamic, 1024);
    __shared__ typename S::stage_barriers bars;
    typename S::memory &m = *reinterpret_cast<typename S::memory *>(dynamic);
    const uint32_t warp = sm90::warp_number();

    if (threadIdx.x == 0) {
        sm90::begin_stages<S>(bars);
        sm90::fence_barriers();
    }
    __syncthreads();
    if (BLOCKS > 1)
        sm90::cluster_meet();
    if (warp < sm90::WARPGROUP / 32) {
        sm90::setmaxnreg_dec<S::PRODUCER_REGISTERS>();
        if (warp == 0 && sm90::elect_one())
            sm90::produce_plain<S>(args, m, bars);
    } else {
        sm90::setmaxnreg_inc<S::CONSUMER_REGISTERS>();
        sm90::consume_plain<S, T>(args, m, bars);
    }
    __syncwarp();
    if (BLOCKS > 1)
        sm90::cluster_meet();
}

#endif
