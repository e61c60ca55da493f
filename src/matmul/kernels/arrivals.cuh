/* Waiting for the rows of A that other ranks send. */
#ifndef SYMM_MATMUL_ARRIVALS_CUH
#define SYMM_MATMUL_ARRIVALS_CUH

#include "trace.cuh"

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
     * Waits for elements [k_begin, k_end) of the strips' rows; takes no signal. nthreads threads
     * share the waits, of which this is number `thread`.
     */
    SYMM_DEV_IN_CLASS void await(const symm_product_args &a, int32_t k_begin, int32_t k_end,
                                 uint32_t thread, uint32_t nthreads) const
    {
        const symm_arrival_plan &plan = a.arrivals;
        const uint32_t first = (uint32_t)k_begin / plan.k_piece,
                       last = (uint32_t)(k_end - 1) / plan.k_piece;

        for (uint32_t s = seen.first; s <= seen.last; s++)
            for (uint32_t p = first + thread; p <= last; p += nthreads) {
                const int32_t chunk = (int32_t)(s * plan.k_pieces + p);
                SYMM_TRACE_BEGIN(begin);
                symm_dev_wait_peek(a.view, plan.pad, chunk, seen.shard, 1);
                trace_wait(a.view, SYMM_MATMUL_EVENT_WAIT_ROWS, seen.shard, chunk, begin);
            }
    }
};

#endif
