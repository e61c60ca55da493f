/* A user's kernels, for the tests: they see the device header and nothing else. */
#include <symm/device.cuh>
#include "kernels.h"

SYMM_KERNEL(test_signal_and_wait, test_signal_args, a, 64)
{
    if (threadIdx.x == 0) {
        symm_dev_signal(a.view, a.pad, a.channel, a.peer, a.signals);
        symm_dev_wait_peek(a.view, a.pad, a.channel, a.peer, a.waits);
        symm_dev_wait(a.view, a.pad, a.channel, a.peer, a.waits);
    }
}

/*
 * Every thread writes to the next rank, meets all the others, and looks into its own cells, which
 * are written again only when all have looked: `planted` leaves that second barrier out.
 */
SYMM_KERNEL(test_ring, test_ring_args, a, 128)
{
    const symm_view &v = a.view;
    float *const cells = a.cells + 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    const int before = (v.rank + v.nranks - 1) % v.nranks;
    float wrong = 0;

    for (int round = 0; round < a.rounds; round++) {
        symm_f32s<float> mine;
        for (int e = 0; e < 4; e++)
            mine.e[e] = (float)(v.rank * 1000 + round + e);
        symm_dev_store(symm_dev_peer(v, cells, (v.rank + 1) % v.nranks), mine);
        symm_dev_barrier(v, a.pad, blockIdx.x);
        const symm_f32s<float> got = symm_dev_load(cells);
        for (int e = 0; e < 4; e++)
            wrong += got.e[e] != (float)(before * 1000 + round + e);
        if (!a.planted)
            symm_dev_barrier(v, a.pad, blockIdx.x);
    }
    const float sum = symm_dev_block_sum(wrong);
    if (threadIdx.x == 0)
        a.wrong[blockIdx.x] += (int32_t)sum;
}

/*
 * Rank 0 hands a pack a thread to rank 1. With `planted` the flag is a relaxed store:
 * on x86 the data are right all the same, and only ThreadSanitizer can tell.
 */
SYMM_KERNEL(test_hand_over, test_hand_over_args, a, 64)
{
    const symm_view &v = a.view;
    float *const cells = a.cells + 4 * threadIdx.x;
    float wrong = 0;

    if (v.rank == 0) {
        symm_f32s<float> mine;
        for (int e = 0; e < 4; e++)
            mine.e[e] = (float)(a.round + e);
        symm_dev_store(symm_dev_peer(v, cells, 1), mine);
        __syncthreads();
        uint32_t *const flag = symm_dev_peer(v, a.flag, 1);
        if (threadIdx.x == 0 && a.planted)
            symm_detail::store_relaxed(flag, a.round);
        else if (threadIdx.x == 0)
            symm_detail::store_release(flag, a.round);
    } else {
        while (threadIdx.x == 0 && symm_detail::load_acquire(a.flag) != a.round)
            symm_detail::pause();
        __syncthreads();
        const symm_f32s<float> got = symm_dev_load(cells);
        for (int e = 0; e < 4; e++)
            wrong += got.e[e] != (float)(a.round + e);
        const float sum = symm_dev_block_sum(wrong);
        if (threadIdx.x == 0)
            *a.wrong += (int32_t)sum;
    }
}
