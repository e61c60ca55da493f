/*
 * The product on Hopper GPUs: one warp brings panels of both factors to shared memory by the tensor
 * copy unit, two warpgroups multiply them by wgmma, each 64 rows and 256 columns of a tile, and end
 * the tile while the panels of the next one come. The order of tiles and the waiting for rows are
 * those of the portable product.
 */
#ifndef SYMM_MATMUL_SM90_PRODUCT_CUH
#define SYMM_MATMUL_SM90_PRODUCT_CUH

#include "epilogue.cuh"
#include "patch.cuh"
#include "sm90_cuda.cuh"

namespace sm90
{

enum {
    ROWS = SYMM_WGMMA_ROWS,
    COLUMNS = SYMM_WGMMA_COLUMNS,
    DEPTH = SYMM_WGMMA_DEPTH,
    STAGES = SYMM_WGMMA_STAGES,
    WARPGROUP = 128,
    CONSUMERS = 2, /* warpgroups, after that of the producer */
    GROUP_ROWS = ROWS / CONSUMERS,
    WARP_ROWS = 16,
    PRODUCER_REGISTERS = 56,
    CONSUMER_REGISTERS = 224 /* 504 altogether, which is 168 for each of 3 warpgroups */
};

/* Lines of 128 bytes, whose chunks of 16 take turns by 8 lines. */
struct stage {
    uint16_t a[ROWS * DEPTH];    /* along k */
    uint16_t b[COLUMNS * DEPTH]; /* along k, or blocks of DEPTH lines along 64 columns */
};
enum { B_BLOCK = 64, B_BLOCK_NBYTES = B_BLOCK * DEPTH * 2 };

struct memory {
    stage stages[STAGES];
    patch<WARP_ROWS> patches[CONSUMERS * WARPGROUP / 32];
};
static_assert(sizeof(memory) <= SYMM_WGMMA_SHARED_NBYTES, "the host asks for as much");

/* full: its panels have come. empty: all consumer warps have used it. */
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

SYMM_DEV void bring(const symm_wgmma_args &w, const tile &t, int32_t k, stage &s, uint64_t *bar)
{
    const symm_product_args &a = w.product;
    symm_detail::mbarrier_expect(bar, sizeof s);
    if (t.shard == a.a.rank)
        tensor_load(s.a, &w.own, k, t.row, a.a.own.batch ? t.batch : 0, bar);
    else
        tensor_load(s.a, &w.workspace, k, t.batch * rows_of(a.a.m, a.a.nranks, t.shard) + t.row,
                    t.shard, bar);
    const int32_t batch = a.b[t.product].batch ? t.batch : 0;
    const symm_tensor_map *b = &w.b[t.product];
    if (b_along_k(w, t)) {
        tensor_load(s.b, b, k, t.column, batch, bar);
        return;
    }
    for (int32_t block = 0; block < COLUMNS / B_BLOCK; block++)
        tensor_load(s.b + block * (B_BLOCK * DEPTH), b, t.column + block * B_BLOCK, k, batch, bar);
}

/* One warp, the block's first; one thread of it brings. */
SYMM_DEV void produce(const symm_wgmma_args &w, memory &m, barriers &bars)
{
    const symm_product_args &a = w.product;
    tile_order<ROWS, COLUMNS> order(a, (int32_t)blockIdx.x);
    seen_chunks seen;
    tile t;
    ring at;

    while (order.next(&t, (int32_t)gridDim.x)) {
        if (const uint32_t n = seen.missing(a, t)) {
            await_chunks(a.view, a.way, t.shard, n);
            __syncwarp();
            symm_detail::fence_async(); /* what was seen to come is there for the copy unit */
        }
        if (threadIdx.x == 0)
            for (int32_t k = 0; k < a.a.k; k += DEPTH) {
                await(&bars.empty[at.slot], at.parity ^ 1);
                bring(w, t, k, m.stages[at.slot], &bars.full[at.slot]);
                at.next();
            }
        __syncwarp();
    }
}

/* ------------------------------------------------------------------------------- the consumers */

/*
 * Shared memory as wgmma is told of it, in 16 bytes: where it begins, the distance to the next 64
 * columns where lines are along them, the distance of 8 lines, and that chunks take turns in lines
 * of 128 bytes.
 */
SYMM_DEV uint64_t described(const void *p)
{
    return (uint64_t)(symm_detail::in_shared(p) >> 4) | (uint64_t)(B_BLOCK_NBYTES >> 4) << 16 |
           (uint64_t)(8 * 128 >> 4) << 32 | (uint64_t)1 << 62;
}

template <typename T, bool B_ALONG_K>
SYMM_DEV void add_stages(float (&d)[SUMS], int32_t steps, const stage *stages, barriers &bars,
                         ring &at)
{
    constexpr int32_t K = 16, NEXT_A = K * 2 / 16, NEXT_B = B_ALONG_K ? NEXT_A : K * 128 / 16;
    const int32_t group = (int32_t)threadIdx.x / WARPGROUP - 1, lane = (int32_t)threadIdx.x % 32;
    int32_t before = 0;

#pragma unroll 1
    for (int32_t step = 0; step < steps; step++) {
        const stage &s = stages[at.slot];
        const uint64_t a = described(s.a + group * (GROUP_ROWS * DEPTH)), b = described(s.b);
        await(&bars.full[at.slot], at.parity);
        wgmma_fence();
#pragma unroll
        for (int32_t k = 0; k < DEPTH / K; k++)
            wgmma<T, B_ALONG_K>(d, a + k * NEXT_A, b + k * NEXT_B, step > 0 || k > 0);
        wgmma_commit();
        wgmma_wait_but_one();
        if (step > 0 && lane == 0)
            mbarrier_arrive(&bars.empty[before]);
        before = at.slot;
        at.next();
    }
    wgmma_wait(d);
    if (lane == 0)
        mbarrier_arrive(&bars.empty[before]);
}

/* A warp has 16 rows of all columns, and puts 32 columns at a time. */
SYMM_DEV void put_sums(const float (&d)[SUMS], patch<WARP_ROWS> &p, const tile_end &end)
{
    constexpr int32_t AT_ONCE = PATCH_COLUMNS / 8 * 4;
    const int32_t lane = (int32_t)threadIdx.x % 32,
                  row = (int32_t)threadIdx.x / 32 * WARP_ROWS - WARPGROUP / 32 * WARP_ROWS;

#pragma unroll 1
    for (int32_t column = 0; column < COLUMNS; column += PATCH_COLUMNS) {
        __syncwarp();
#pragma unroll
        for (int32_t i = 0; i < SUMS; i += 2) /* whose place among the registers is constant */
            if (i / AT_ONCE == column / PATCH_COLUMNS)
                *reinterpret_cast<float2 *>(
                    &p.at[lane / 4 + i / 2 % 2 * 8][i % AT_ONCE / 4 * 8 + lane % 4 * 2]) =
                    make_float2(d[i], d[i + 1]);
        __syncwarp();
        put_patch(p, row, column, end);
    }
}

template <typename T> SYMM_DEV void consume(const symm_wgmma_args &w, memory &m, barriers &bars)
{
    const symm_product_args &a = w.product;
    const int32_t steps = (a.a.k + DEPTH - 1) / DEPTH;
    tile_order<ROWS, COLUMNS> order(a, (int32_t)blockIdx.x);
    tile t;
    ring at;

    while (order.next(&t, (int32_t)gridDim.x)) {
        float d[SUMS];
        if (b_along_k(w, t))
            add_stages<T, true>(d, steps, m.stages, bars, at);
        else
            add_stages<T, false>(d, steps, m.stages, bars, at);
        put_sums(d, m.patches[threadIdx.x / 32 - WARPGROUP / 32], tile_end(a, t));
    }
}

} /* namespace sm90 */

template <typename T> SYMM_DEV void matmul_wgmma(const symm_wgmma_args &w)
{
    extern __shared__ __align__(1024) char dynamic[];
    __shared__ sm90::barriers bars;
    sm90::memory &m = *reinterpret_cast<sm90::memory *>(dynamic);

    if (threadIdx.x == 0) {
        for (int32_t i = 0; i < sm90::STAGES; i++) {
            sm90::mbarrier_init(&bars.full[i], 1);
            sm90::mbarrier_init(&bars.empty[i], sm90::CONSUMERS * sm90::WARPGROUP / 32);
        }
        symm_detail::fence_async();
    }
    __syncthreads();
    if (threadIdx.x < sm90::WARPGROUP) {
        sm90::registers_give<sm90::PRODUCER_REGISTERS>();
        if (threadIdx.x < 32)
            sm90::produce(w, m, bars);
    } else {
        sm90::registers_take<sm90::CONSUMER_REGISTERS>();
        sm90::consume<T>(w, m, bars);
    }
}

#endif
