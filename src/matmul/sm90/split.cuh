/*
 * The product for few tiles. Each tile has a cluster, and each block of it a part of k. A block
 * multiplies its part. Then it adds its share of the tile's accumulators of all parts, in the order
 * of k, and stores the results.
 */
#ifndef SYMM_MATMUL_SM90_SPLIT_CUH
#define SYMM_MATMUL_SM90_SPLIT_CUH

#include "mainloop.cuh"
#include "matmul/kernels/sum_packs.cuh"

namespace sm90
{

template <int R, int N, int NSTAGES> struct split_shape : pipeline<R, N, 1, NSTAGES> {
    using base = pipeline<R, N, 1, NSTAGES>;
    using typename base::stage;
    enum { PITCH = N + 4 /* avoids bank conflicts between rows */ };

    /* The accumulators take the place of the stages. */
    union memory {
        stage stages[NSTAGES];
        float sums[R][PITCH];
    };
    static_assert(sizeof(memory) == SYMM_SPLIT_SHARED_NBYTES(R, N, NSTAGES), "the launch's");

    SYMM_DEV_IN_CLASS static uint32_t rows_loaded(const symm_wgmma_args &args)
    {
        return args.rows_loaded;
    }
};

/* Each cluster has a tile. */
template <typename S> SYMM_DEV work work_of_block(const symm_wgmma_args &args)
{
    const int32_t steps = (args.product.a.k + DEPTH - 1) / DEPTH, k_parts = (int32_t)args.k_parts;
    schedule<S::ROWS, S::COLUMNS> todo(args.product, blockIdx.x / args.k_parts);
    work w = {};

    todo.next(&w, 1);
    w.part = (int32_t)cluster_rank();
    w.nparts = k_parts;
    w.k_begin = steps * w.part / k_parts * DEPTH;
    w.k_end = min(w.k_end, steps * (w.part + 1) / k_parts * DEPTH);
    return w;
}

/*
 * Stages whose B is loaded before the kernel in front of this one has ended: not all, since that
 * one needs the memory, too.
 */
template <typename S> SYMM_DEV int32_t early_stages(const symm_wgmma_args &args, const work &w)
{
    constexpr int32_t MOST = 4;
    static_assert(MOST <= S::STAGES, "each has a place");

    return args.constant_b ? max(0, min(MOST, (w.k_end - w.k_begin + DEPTH - 1) / DEPTH)) : 0;
}

/* Starts to load B of the early stages. One thread, elected. */
template <typename S>
SYMM_DEV void load_early(const symm_wgmma_args &args, const work &w, typename S::stage *stages,
                         typename S::stage_barriers &bars)
{
    const sources from(args, w);

#pragma unroll 1
    for (int32_t i = 0; i < early_stages<S>(args, w); i++)
        load_stage_of_b<S>(args, from, w.k_begin + i * DEPTH, stages[i], &bars.full[i]);
}

/* Loads a block's part: A of the early stages, A and B of all others. */
template <typename S>
SYMM_DEV void load_part(const symm_wgmma_args &args, const work &w, typename S::stage *stages,
                        typename S::stage_barriers &bars)
{
    const sources from(args, w);
    typename S::ring at;
    int32_t k = w.k_begin;

#pragma unroll 1
    for (int32_t i = 0; i < early_stages<S>(args, w); i++, k += DEPTH) {
        load_stage_of_a<S>(from, k, stages[i], &bars.full[i]);
        at.next();
    }
    produce<S>(args, from, k, w.k_end, stages, bars, at, [](int32_t) {});
}

/* A consumer's part of the tile. d: zeros. */
template <typename S, typename T>
SYMM_DEV void multiply_part(const symm_wgmma_args &args, const work &w,
                            const typename S::stage *stages, typename S::stage_barriers &bars,
                            typename S::accumulators &d)
{
    const int32_t steps = (w.k_end - w.k_begin + DEPTH - 1) / DEPTH;
    const auto each_step = [](int32_t) {};
    const auto at_last = [] {};
    typename S::ring at;
    SYMM_TRACE_BEGIN_BY(begin, threadIdx.x == WARPGROUP);

    if (steps <= 0)
        return;
    if (b_along_k(args, w.t))
        multiply_stages<S, T, true>(d, steps, stages, bars, at, each_step, at_last);
    else
        multiply_stages<S, T, false>(d, steps, stages, bars, at, each_step, at_last);
    trace_tile(args.product, w.t, SYMM_MATMUL_ROLE_CONSUMER, begin, threadIdx.x == WARPGROUP);
}

/* Shows a consumer's accumulators to the cluster. */
template <typename S>
SYMM_DEV void show_part(const typename S::accumulators &d, typename S::memory &m)
{
#pragma unroll
    for (int32_t p = 0; p < S::PANELS; p++)
#pragma unroll
        for (int32_t i = 0; i < S::ROWS / 2; i++)
            m.sums[row_of(i)][(consumer() * S::PANELS + p) * PANEL + column_of(i)] = d[p][i];
}

/* Adds a pack of the accumulators of all parts, in the order of k. */
template <typename S>
SYMM_DEV void add_k_parts(const typename S::memory &m, int32_t k_parts, int32_t row, int32_t column,
                          float (&x)[PACK_COLUMNS])
{
    constexpr int32_t AT_ONCE = 4, WORDS = 4, PIECES = PACK_COLUMNS / WORDS;

#pragma unroll
    for (int32_t j = 0; j < PACK_COLUMNS; j++)
        x[j] = 0;
#pragma unroll 1
    for (int32_t first = 0; first < k_parts; first += AT_ONCE) {
        float part[AT_ONCE][PACK_COLUMNS];
#pragma unroll
        for (int32_t p = 0; p < AT_ONCE; p++)
#pragma unroll
            for (int32_t j = 0; j < PIECES; j++)
                if (first + p < k_parts)
                    *reinterpret_cast<float4 *>(&part[p][j * WORDS]) =
                        cluster_load(&m.sums[row][column + j * WORDS], (uint32_t)(first + p));
#pragma unroll
        for (int32_t p = 0; p < AT_ONCE; p++)
#pragma unroll
            for (int32_t j = 0; j < PACK_COLUMNS; j++)
                if (first + p < k_parts)
                    x[j] += part[p][j];
    }
}

/* The paths are loops where they need not be fast: code that is not in the cache costs time. */
SYMM_DEV void put_pack(const epilogue &end, int32_t row, int32_t column, float (&x)[PACK_COLUMNS])
{
    if (end.is_plain_scale()) {
#pragma unroll
        for (int32_t j = 0; j < PACK_COLUMNS; j++)
            x[j] *= end.f.a.alpha;
        return end.to.store(row, column, x);
    }
#pragma unroll 1
    for (int32_t j = 0; j < PACK_COLUMNS; j++) {
        float one[] = {x[0]};
        end.put(row, column + j, one);
#pragma unroll
        for (int32_t i = 0; i + 1 < PACK_COLUMNS; i++)
            x[i] = x[i + 1];
    }
}

/* Calls visit(row, column) for this thread's packs of the block's share of the tile. */
template <typename S, typename F> SYMM_DEV void each_pack(const work &w, const F &visit)
{
    constexpr int32_t ACROSS = S::COLUMNS / PACK_COLUMNS;

#pragma unroll 1
    for (int32_t i = w.part * (int32_t)blockDim.x + (int32_t)threadIdx.x; i < w.t.rows * ACROSS;
         i += w.nparts * (int32_t)blockDim.x) {
        const int32_t row = i / ACROSS, column = i % ACROSS * PACK_COLUMNS;
        if (column < w.t.columns)
            visit(row, column);
    }
}

template <typename S>
SYMM_DEV void put_tile(const symm_wgmma_args &args, const work &w, const typename S::memory &m)
{
    const epilogue end(args.product, w.t);

    each_pack<S>(w, [&](int32_t row, int32_t column) {
        float x[PACK_COLUMNS];
        add_k_parts<S>(m, w.nparts, row, column, x);
        put_pack(end, row, column, x);
    });
}

/*
 * One warp of each block: the rest of the block reads *run behind a barrier. The next kernel takes
 * room, so it may begin when this run needs none any more: when all of its blocks are resident on
 * all ranks. Else runs of two groups might wait for room that the next ones hold. And it may begin
 * when the run before has ended: see sum_packs.cuh.
 */
SYMM_DEV void begin_sums(const pack_sums &sums, pack_run &run)
{
    const bool first = threadIdx.x % 32 == 0;

    if (first)
        run = begin_pack_run(sums.a);
    __syncwarp(); /* all lanes read it */
    const bool tells = __shfl_sync(~0u, first && run.tells, 0);
    if (tells) {
        sums.tell_begin();
        sums.await_begin();
    }
    symm_dev_pdl_wait();
    /* One thread's release is the block's. */
    if (__all_sync(~0u, !tells || !first || count_pack_run(sums.a, run)))
        symm_dev_pdl_release();
}

/* The tile's sums over all ranks. */
template <typename S>
SYMM_DEV void put_sums(const symm_wgmma_args &args, const work &w, const typename S::memory &m,
                       const pack_sums &sums)
{
    const epilogue end(args.product, w.t);
    const auto run_at = [&](int32_t row, int32_t column) {
        return run_of_row{w.t.product, w.t.batch, w.t.row + row, w.t.column + column};
    };

    each_pack<S>(w, [&](int32_t row, int32_t column) {
        float x[PACK_COLUMNS];
        add_k_parts<S>(m, w.nparts, row, column, x);
        sums.send(run_at(row, column), x);
    });
    each_pack<S>(w, [&](int32_t row, int32_t column) {
        float x[PACK_COLUMNS];
        sums.sum(run_at(row, column), x);
        put_pack(end, row, column, x);
    });
}

} /* namespace sm90 */

template <typename T, int ROWS, int COLUMNS, int STAGES>
SYMM_DEV void matmul_split(const symm_wgmma_args &args)
{
    using S = sm90::split_shape<ROWS, COLUMNS, STAGES>;
    SYMM_DYNAMIC_SHARED(char, dynamic, 1024);
    __shared__ typename S::stage_barriers bars;
    typename S::memory &m = *reinterpret_cast<typename S::memory *>(dynamic);
    __shared__ pack_run run;
    static_assert(2 * (sizeof(m) + sizeof(bars) + sizeof(run) + 1024) <= 228 * 1024,
                  "two blocks fit on an SM; 1 KiB of each is the system's");
    const pack_sums sums = {args.product, run};
    const bool packs = args.product.parts.sums == SYMM_SUMS_PACKS;
    const uint32_t warp = sm90::warp_number();
    typename S::accumulators d = {};

    if (threadIdx.x == 0) {
        sm90::begin_stages<S>(bars);
        sm90::fence_barriers();
    }
    const work w = sm90::work_of_block<S>(args);
    if (threadIdx.x == 0) {
        sm90::tensor_prefetch(&args.own);
        sm90::tensor_prefetch(&args.b[w.t.product]);
    }
    __syncthreads();
    if (warp == 0) {
        if (sm90::elect_one())
            sm90::load_early<S>(args, w, m.stages, bars);
    } else if (warp == 1 && packs) {
        sm90::begin_sums(sums, run);
    }
    symm_dev_pdl_wait();
    if (!packs)
        symm_dev_pdl_release();
    if (warp == 0) {
        if (sm90::elect_one())
            sm90::load_part<S>(args, w, m.stages, bars);
    } else if (warp >= sm90::WARPGROUP / 32) {
        sm90::multiply_part<S, T>(args, w, m.stages, bars, d);
    }
    __syncthreads(); /* the stages have been used */
    if (warp >= sm90::WARPGROUP / 32)
        sm90::show_part<S>(d, m);
    sm90::cluster_sync();
    if (packs)
        sm90::put_sums<S>(args, w, m, sums);
    else
        sm90::put_tile<S>(args, w, m);
    sm90::cluster_meet(); /* all blocks have read this block's part */
}

#endif
