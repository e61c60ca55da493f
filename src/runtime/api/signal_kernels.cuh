/*
 * The bodies of stream-ordered signals, waits and barriers. One block each. Launched by
 * symm_signal(), symm_wait(), symm_barrier(), and by collectives between their copies.
 */
#ifndef SYMM_SIGNAL_KERNELS_CUH
#define SYMM_SIGNAL_KERNELS_CUH

#include <symm/device.cuh>
#include "signal_args.h"

SYMM_DEV void stream_signal(const symm_signal_args &a)
{
    if (threadIdx.x == 0)
        symm_dev_signal(a.view, a.pad, a.channel, a.rank, a.n);
}

SYMM_DEV void stream_wait(const symm_signal_args &a)
{
    if (threadIdx.x == 0)
        symm_dev_wait(a.view, a.pad, a.channel, a.rank, a.n);
}

SYMM_DEV void stream_barrier(const symm_signal_args &a)
{
    symm_dev_barrier(a.view, a.pad, a.channel);
}

/* A barrier that compares a word: if it differs between ranks, the group ends. */
SYMM_DEV void stream_meet(const symm_signal_args &a)
{
    symm_dev_barrier_require_equal(a.view, a.pad, a.channel, a.word);
}

#endif
