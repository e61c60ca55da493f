/*
 * The kernels before a run's transfers, and before products of rows that have arrived. Products
 * wait for transfers that wait for these kernels, so they must fit beside products on every SM: one
 * warp, few registers, little shared memory. They wait for other ranks, so they are one block.
 */
#ifndef SYMM_MATMUL_ROUNDS_CUH
#define SYMM_MATMUL_ROUNDS_CUH

#include <symm/device.cuh>
#include "args.h"
#include "matmul/kernels/arrivals.cuh"

/* The polls of a counter on this device after which a wait gives up: some 20 us. */
enum { POLLS = 30 };

/* The channel on which a rank signals that its workspace may be written. */
SYMM_DEV int32_t workspace_channel(const symm_arrival_plan &plan)
{
    return (int32_t)plan.chunks;
}

/*
 * Signals to all ranks that this rank's kernels have finished reading its workspace. All threads of
 * the block.
 */
SYMM_DEV void signal_workspace_free(const symm_view &v, const symm_arrival_plan &plan)
{
    for (int32_t r = (int32_t)threadIdx.x; r < v.nranks; r += (int32_t)blockDim.x)
        if (r != v.rank)
            symm_dev_signal(v, plan.pad, workspace_channel(plan), r);
}

/*
 * Writes the counter value that each chunk's signal will deliver: one more than is sent, or after
 * an abort the unchanged value. All threads of the block.
 */
SYMM_DEV void reserve_signals(const symm_open_round_args &a)
{
    const uint32_t n = symm_dev_aborted(a.view) ? 0 : 1;

    for (uint32_t i = threadIdx.x; i < a.view.nranks * a.chunks; i += blockDim.x) {
        const int32_t r = (int32_t)(i / a.chunks), c = (int32_t)(i % a.chunks);
        if (r != a.view.rank)
            symm_dev_store_one(a.signal_values + i,
                               symm_dev_signal_reserve(a.view, a.arrivals.pad, c, r, n));
    }
}

/*
 * Waits until the product's blocks have started, so that senders get the SMs that these leave free.
 * Returns after POLLS polls in any case: products of other groups may occupy the SMs, and wait for
 * rows that this rank is about to send. A grid of clusters may have one block fewer than a.blocks.
 */
SYMM_DEV void wait_for_product(const symm_open_round_args &a)
{
    for (uint32_t i = 0; i < POLLS && symm_detail::load_relaxed(&a.product->started) + 1 < a.blocks;
         i++)
        symm_detail::pause();
}

SYMM_DEV void open_round(const symm_open_round_args &a)
{
    SYMM_TRACE_BEGIN_BY(begin, threadIdx.x == 0);

    signal_workspace_free(a.view, a.arrivals);
    for (int32_t r = (int32_t)threadIdx.x; r < a.view.nranks; r += (int32_t)blockDim.x)
        if (r != a.view.rank) {
            SYMM_TRACE_BEGIN(waits);
            symm_dev_wait(a.view, a.arrivals.pad, workspace_channel(a.arrivals), r);
            trace_wait(a.view, SYMM_MATMUL_EVENT_WAIT_WORKSPACE, r, 0, waits);
        }
    __syncthreads(); /* if an abort has ended one thread's wait, all threads see the abort */
    if (a.signal_values)
        reserve_signals(a);
    for (uint32_t i = threadIdx.x; a.tickets && i <= (a.view.nranks - 1) * a.chunks;
         i += blockDim.x)
        symm_dev_store_one(a.tickets + i, 0u);
    if (a.product && threadIdx.x == 0)
        wait_for_product(a);
    trace_round(a.view, SYMM_MATMUL_EVENT_OPEN_ROUND, begin);
}

/* The chunks of a rank's rows. */
SYMM_DEV uint32_t chunks_of_rank(const symm_view &v, const symm_arrival_plan &plan, int32_t m,
                                 int32_t l, int32_t rank)
{
    return symm__chunks_of_rows((uint64_t)symm__rows_of_rank(m, v.nranks, rank) * l,
                                plan.strip_rows, plan.k_pieces);
}

/* The last kernel of a run that waits for rows ends the run. */
SYMM_DEV void await_rows(const symm_await_rows_args &a)
{
    const uint32_t chunks = chunks_of_rank(a.view, a.arrivals, a.m, a.l, a.shard),
                   runs = symm_detail::load_relaxed(&a.round->runs);

    for (uint32_t i = threadIdx.x; i < chunks; i += blockDim.x)
        await_chunk(a.view, a.arrivals, (int32_t)i, a.shard, runs);
    __syncthreads();
    if (a.last && threadIdx.x == 0)
        count_run(&a.round->runs);
}

#endif
