/*
 * The product on Hopper GPUs: one warp brings panels of both factors to shared memory by the tensor
 * copy unit, two warpgroups multiply them by wgmma, each 64 rows of a tile and all of its columns,
 * and end the tile while the panels of the next one come or are multiplied. The blocks of a cluster
 * take tiles one below the other, and each brings its share of the panels of B to all. The order of
 * tiles and the waiting for rows are those of the portable product.
 */
#ifndef SYMM_MATMUL_SM90_PRODUCT_CUH
#define SYMM_MATMUL_SM90_PRODUCT_CUH

#include "matmul/kernels/matmul.def"
#include "store.cuh"

namespace sm90
{

enum {
    ROWS = SYMM_WGMMA_ROWS,
    DEPTH = SYMM_WGMMA_DEPTH,
    CONSUMERS = 2, /* warpgroups, after that of the producer */
    GROUP_ROWS = ROWS / CONSUMERS,
    PRODUCER_REGISTERS = 48,
    CONSUMER_REGISTERS = 216,
    B_BLOCK = SYMM_WGMMA_LINE
};

static_assert(PRODUCER_REGISTERS + CONSUMERS * CONSUMER_REGISTERS ==
                  (1 + CONSUMERS) * SYMM_WGMMA_REGISTERS,
              "what a block begins with");

/* A tile's columns, and the blocks of a cluster. */
template <int N, int BLOCKS> struct shape {
    enum {
        COLUMNS = N,
        SUMS = N / 2,
        CLUSTER = BLOCKS,
        STAGES = N > 192   ? 4
                 : N > 128 ? 5
                 : N > 64  ? 6
                           : 8, /* as many as have room */
        B_COLUMNS = (N + B_BLOCK - 1) / B_BLOCK * B_BLOCK
    };

    /* Lines of 128 bytes, whose chunks of 16 take turns by 8 lines. */
    struct stage {
        uint16_t a[ROWS * DEPTH];      /* along k */
        uint16_t b[B_COLUMNS * DEPTH]; /* along k, or blocks of DEPTH lines along 64 columns */
    };

    struct memory {
        stage stages[STAGES];
        patch<WARP_ROWS> patches[CONSUMERS * WARPGROUP / 32];
    };
    static_assert(sizeof(memory) <= SYMM_WGMMA_SHARED_NBYTES, "the host asks for as much");
    static_assert(
        SYMM_WGMMA_SHARED_NBYTES + 3 * 1024 <= 228 * 1024,
        "1 KiB of barriers, and for this block and one of matmul_turn that of the system");

    /* full: its panels have come. empty: all consumer warps of the cluster have used it. */
    struct barriers {
        uint64_t full[STAGES], empty[STAGES];
    };

    /* Where a side is in the ring of stages. */
    struct ring {
        int32_t slot = 0;
        uint32_t parity = 0;

        SYMM_DEV_IN_CLASS void next(void)
        {
            slot++;
            if (slot < STAGES)
                return;
            slot = 0;
            parity ^= 1;
        }
    };

    /* The tiles of this block: below each other are those of a cluster. */
    struct tiles {
        tile_order<ROWS * BLOCKS, N> order;
        int32_t down;

        SYMM_DEV_IN_CLASS tiles(const symm_product_args &a)
            : order(a, (int32_t)blockIdx.x / BLOCKS), down(BLOCKS > 1 ? cluster_rank() * ROWS : 0)
        {
        }

        /* Some may have no rows: their block brings what the others need. */
        SYMM_DEV_IN_CLASS bool next(tile *t)
        {
            if (!order.next(t, (int32_t)gridDim.x / BLOCKS))
                return false;
            t->row += down;
            t->rows = max(0, min((int32_t)ROWS, t->rows - down));
            return true;
        }
    };
};

SYMM_DEV void await(uint64_t *bar, uint32_t parity)
{
    while (!symm_detail::mbarrier_test(bar, parity))
        ;
}

SYMM_DEV bool b_along_k(const symm_wgmma_args &w, const tile &t)
{
    return w.b_along_k >> t.product & 1;
}

/* -------------------------------------------------------------------------------- the producer */

/* Where a tile's factors are in their tensors. */
struct sources {
    const symm_tensor_map *a, *b;
    int32_t a_row, a_batch, b_column, b_batch;
    bool b_along_k;

    SYMM_DEV_IN_CLASS sources(const symm_wgmma_args &w, const tile &t)
        : a(&w.own), b(&w.b[t.product]), a_row(t.row), a_batch(0), b_column(t.column),
          b_batch(w.product.b[t.product].batch ? t.batch : 0), b_along_k(sm90::b_along_k(w, t))
    {
        const symm_shards &s = w.product.a;
        if (t.shard == s.rank) {
            a_batch = s.own.batch ? t.batch : 0;
            return;
        }
        a = &w.workspace;
        a_row += t.batch * rows_of(s.m, s.nranks, t.shard);
        a_batch = t.shard;
    }
};

/* A box of B: to this block, or where it is one of several to all. */
template <typename S>
SYMM_DEV void bring_b(const sources &f, uint16_t *shared, int32_t x, int32_t y, uint64_t *bar)
{
    if constexpr (S::CLUSTER == 1)
        tensor_load(shared, f.b, x, y, f.b_batch, bar);
    else
        tensor_load_all(shared, f.b, x, y, f.b_batch, bar, (1u << S::CLUSTER) - 1);
}

template <typename S>
SYMM_DEV void bring(const sources &f, int32_t k, typename S::stage &s, uint64_t *bar)
{
    constexpr int32_t SHARE = S::COLUMNS / S::CLUSTER;
    const int32_t rank = S::CLUSTER > 1 ? (int32_t)cluster_rank() : 0;

    symm_detail::mbarrier_expect(bar, sizeof s.a + (f.b_along_k ? S::COLUMNS : S::B_COLUMNS) *
                                                       DEPTH * sizeof *s.b);
    tensor_load(s.a, f.a, k, f.a_row, f.a_batch, bar);
    if (f.b_along_k)
        bring_b<S>(f, s.b + rank * SHARE * DEPTH, k, f.b_column + rank * SHARE, bar);
    else
        for (int32_t j = rank * B_BLOCK; j < S::COLUMNS; j += B_BLOCK * S::CLUSTER)
            bring_b<S>(f, s.b + j * DEPTH, f.b_column + j, k, bar);
}

/* Waits for the piece of the strips that begins at k; where the one behind it begins. */
SYMM_DEV int32_t await_piece(const symm_product_args &a, const strips &s, int32_t k)
{
    const symm_rows_way &way = a.way;

    for (uint32_t i = s.first; i <= s.last; i++)
        symm_dev_wait_peek(a.view, way.pad, (int)(i * way.pieces + (uint32_t)k / way.piece),
                           s.shard, 1);
    symm_detail::fence_async(); /* what was seen to come is there for the copy unit */
    return k + (int32_t)way.piece;
}

/* One thread. It waits for a piece of the rows when it wants to bring it, and no sooner. */
template <typename S>
SYMM_DEV void produce(const symm_wgmma_args &w, typename S::memory &m, typename S::barriers &bars)
{
    const symm_product_args &a = w.product;
    typename S::tiles tiles(a);
    typename S::ring at;
    arrivals here;
    tile t;

    while (tiles.next(&t)) {
        const sources from(w, t);
        int32_t there = here.lack(a, t) ? 0 : a.a.k;
        for (int32_t k = 0; k < a.a.k; k += DEPTH) {
            if (k == there)
                there = await_piece(a, here.seen, k);
            await(&bars.empty[at.slot], at.parity ^ 1);
            bring<S>(from, k, m.stages[at.slot], &bars.full[at.slot]);
            at.next();
        }
    }
}

/* ------------------------------------------------------------------------------- the consumers */

/*
 * Shared memory as wgmma is told of it, in 16 bytes: where it begins (in the block: above 2^18 an
 * address says which block of a cluster), the distance to the next 64 columns where lines are along
 * them, the distance of 8 lines, and that chunks take turns in lines of 128 bytes.
 */
SYMM_DEV uint64_t described(const void *p)
{
    return (uint64_t)(symm_detail::in_shared(p) % (1u << 18) >> 4) |
           (uint64_t)(B_BLOCK * DEPTH * 2 >> 4) << 16 | (uint64_t)(8 * 128 >> 4) << 32 |
           (uint64_t)1 << 62;
}

/* A warp has used a stage: the producers of all blocks wait for it, as each brings a share. */
template <typename S> SYMM_DEV void used(uint64_t *bar)
{
    const uint32_t lane = threadIdx.x % 32;

    if (lane < S::CLUSTER)
        mbarrier_arrive(bar, lane);
}

/*
 * What else there is to do while a step is multiplied: each_step, which is given its number, and
 * after that in the last one at_last.
 */
template <typename S, typename T, bool B_ALONG_K, typename F, typename G>
SYMM_DEV void add_stages(float (&d)[S::SUMS], int32_t steps, const typename S::stage *stages,
                         typename S::barriers &bars, typename S::ring &at, const F &each_step,
                         const G &at_last)
{
    constexpr int32_t K = 16, NEXT_A = K * 2 / 16, NEXT_B = B_ALONG_K ? NEXT_A : K * 128 / 16;
    const int32_t group = __shfl_sync(~0u, (int32_t)threadIdx.x / WARPGROUP - 1, 0);
    int32_t before = 0;

#pragma unroll 1
    for (int32_t step = 0; step < steps; step++) {
        const typename S::stage &s = stages[at.slot];
        const uint64_t a = described(s.a + group * (GROUP_ROWS * DEPTH)), b = described(s.b);
        await(&bars.full[at.slot], at.parity);
        wgmma_fence();
#pragma unroll
        for (int32_t k = 0; k < DEPTH / K; k++)
            wgmma<T, B_ALONG_K>(d, a + k * NEXT_A, b + k * NEXT_B, step > 0 || k > 0);
        wgmma_commit();
        wgmma_wait_but_one();
        if (step > 0)
            used<S>(&bars.empty[before]);
        each_step(step);
        before = at.slot;
        at.next();
    }
    at_last();
    wgmma_wait(d);
    used<S>(&bars.empty[before]);
}

/*
 * HOLD: all ends are only_scaled(), and stored while the next tile is multiplied. Between the last
 * step of a tile and the first of the next one the tensor cores rest: what can be done before is.
 */
template <typename S, typename T, bool HOLD>
SYMM_DEV void consume(const symm_wgmma_args &w, typename S::memory &m, typename S::barriers &bars)
{
    const symm_product_args &a = w.product;
    const int32_t steps = (a.a.k + DEPTH - 1) / DEPTH;
    typename S::tiles tiles(a);
    typename S::ring at;
    patch<WARP_ROWS> &p = m.patches[threadIdx.x / 32 - WARPGROUP / 32];
    lines &l = reinterpret_cast<lines &>(p);
    held_sums<S::SUMS> held;
    tile next;
    bool more = tiles.next(&next);

    while (more) {
        const tile t = next;
        const tile_end end(a, t);
        const auto each_step = [&](int32_t step) {
            if (HOLD)
                held.put(step, l);
        };
        const auto at_last = [&] {
            more = tiles.next(&next);
            if (HOLD) {
                held.put_rest(steps, l);
                held.aim(end);
            }
        };
        float d[S::SUMS];
        if (b_along_k(w, t))
            add_stages<S, T, true>(d, steps, m.stages, bars, at, each_step, at_last);
        else
            add_stages<S, T, false>(d, steps, m.stages, bars, at, each_step, at_last);
        if (HOLD)
            held.hold(d, end);
        else
            put_sums(d, p, end);
    }
    if (HOLD)
        held.put_rest(0, l);
}

template <typename S> SYMM_DEV void begin(const symm_product_args &a, typename S::barriers &bars)
{
    if (threadIdx.x != 0)
        return;
    tell_begun(a);
    for (int32_t i = 0; i < S::STAGES; i++) {
        mbarrier_init(&bars.full[i], 1);
        mbarrier_init(&bars.empty[i], S::CLUSTER * CONSUMERS * WARPGROUP / 32);
    }
    symm_detail::fence_async();
}

} /* namespace sm90 */

/* A cluster's blocks begin and end together: each writes the others' shared memory. */
template <typename T, int COLUMNS, int CLUSTER> SYMM_DEV void matmul_wgmma(const symm_wgmma_args &w)
{
    using S = sm90::shape<COLUMNS, CLUSTER>;
    extern __shared__ __align__(1024) char dynamic[];
    __shared__ typename S::barriers bars;
    typename S::memory &m = *reinterpret_cast<typename S::memory *>(dynamic);

    sm90::begin<S>(w.product, bars);
    __syncthreads();
    sm90::cluster_sync();
    if (threadIdx.x < sm90::WARPGROUP) {
        sm90::registers_give<sm90::PRODUCER_REGISTERS>();
        if (threadIdx.x == 0)
            sm90::produce<S>(w, m, bars);
    } else {
        sm90::registers_take<sm90::CONSUMER_REGISTERS>();
        if (sm90::all_only_scaled(w.product))
            sm90::consume<S, T, true>(w, m, bars);
        else
            sm90::consume<S, T, false>(w, m, bars);
    }
    __syncwarp();
    sm90::cluster_sync();
}

#endif
