/* Waiting for the rows of A that other ranks send. */
#ifndef SYMM_MATMUL_ARRIVALS_CUH
#define SYMM_MATMUL_ARRIVALS_CUH

#include "runs.cuh"
#include "trace.cuh"

/* Waits for a chunk of a rank's rows in the run after `runs` others. Any thread. */
SYMM_DEV void await_chunk(const symm_view &v, const symm_arrival_plan &plan, int32_t chunk,
                          int32_t rank, uint32_t runs)
{
    SYMM_TRACE_BEGIN(begin);

    await_signal(v, plan.pad, chunk, rank, runs);
    trace_wait(v, SYMM_MATMUL_EVENT_WAIT_ROWS, rank, chunk, begin);
}

/* Strips [first, last] of a rank's rows. */
struct strips {
    int32_t shard;
    uint32_t first, last;
};

/* The strips that a thread waits for, one work after the other. */
struct arrivals {
    strips seen = {-1, 0, 0};

    /* Whether rows of w may not have arrived. If so, await() waits for its strips from now on. */
    SYMM_DEV_IN_CLASS bool needed(const symm_product_args &a, const work &w)
    {
        const tile &t = w.t;
        if (a.arrivals.strip_rows == 0 || t.shard == a.a.rank || t.rows == 0 ||
            w.k_begin == w.k_end)
            return false;
        const uint64_t row = (uint64_t)t.batch * symm__rows_of(a.order.rows, t.shard) + t.row;
        const strips s = {t.shard, (uint32_t)(row / a.arrivals.strip_rows),
                          (uint32_t)((row + t.rows - 1) / a.arrivals.strip_rows)};
        /* The work before has waited for the same strips, if it had all of k. */
        if (w.nparts == 1 && s.shard == seen.shard && s.first >= seen.first && s.last <= seen.last)
            return false;
        seen = s;
        return true;
    }

    /*
     * Waits for elements [k_begin, k_end) of the strips' rows. nthreads threads share the waits, of
     * which this is number `thread`.
     */
    SYMM_DEV_IN_CLASS void await(const symm_product_args &a, int32_t k_begin, int32_t k_end,
                                 uint32_t thread, uint32_t nthreads) const
    {
        const symm_arrival_plan &plan = a.arrivals;
        const uint32_t runs = symm_detail::load_relaxed(&a.round->runs);
        const uint32_t first = (uint32_t)k_begin / plan.k_piece,
                       last = (uint32_t)(k_end - 1) / plan.k_piece;

        for (uint32_t s = seen.first; s <= seen.last; s++)
            for (uint32_t p = first + thread; p <= last; p += nthreads)
                await_chunk(a.view, plan, (int32_t)(s * plan.k_pieces + p), seen.shard, runs);
    }
};

/* Waits for all rows of all ranks. One thread. */
SYMM_DEV void await_all_rows(const symm_product_args &a)
{
    const symm_arrival_plan &plan = a.arrivals;
    const uint32_t runs = symm_detail::load_relaxed(&a.round->runs);

    for (int32_t step = 1; step < a.a.nranks; step++) {
        const int32_t shard = shard_of_step(a.a, step);
        const uint64_t rows = (uint64_t)a.a.l * symm__rows_of(a.order.rows, shard);
        const uint32_t chunks = symm__chunks_of_rows(rows, plan.strip_rows, plan.k_pieces);
        for (uint32_t i = 0; i < chunks; i++)
            await_chunk(a.view, plan, (int32_t)i, shard, runs);
    }
}

/*
 * The last block that waits for no more rows ends the run. One thread of each block, after all of
 * its waits, and all blocks together have waited for all rows. The count orders them before what
 * the last one resets.
 */
SYMM_DEV void end_arrivals(const symm_product_args &a)
{
    if (!a.round || symm_detail::fetch_add(&a.round->ended, 1) + 1 != gridDim.x)
        return;
    symm_detail::store_relaxed(&a.round->started, 0u); /* open_round may still poll it */
    symm_dev_store_one(&a.round->ended, 0u);
    count_run(&a.round->runs);
}

#endif
