/* Every kind of function of version 1, round after round; counts what comes out wrong. */
#include <symm/device.cuh>
#include "kernels.h"

/* What rank r stores in a round: whole numbers, so that every sum is exact. */
SYMM_DEV float number(int r, int round, int e)
{
    return (float)(r * 16 + round % 8 + e);
}

SYMM_DEV float count_wrong(const symm_f32s<float> &got, const symm_f32s<float> &want)
{
    float wrong = 0;
    for (int e = 0; e < 4; e++)
        wrong += got.e[e] != want.e[e];
    return wrong;
}

/* Sums over the ranks, between barriers. */
SYMM_DEV float sums(const abi_args &a, int round, int i)
{
    const symm_view &v = a.view;
    symm_f32s<float> mine, want;
    symm_f32s<symm_bf16> half, halves;
    float wrong = 0;

    for (int e = 0; e < 4; e++) {
        mine.e[e] = number(v.rank, round, e);
        want.e[e] = 0;
        for (int r = 0; r < v.nranks; r++)
            want.e[e] += number(r, round, e);
    }
    for (int e = 0; e < 8; e++)
        half.e[e] = (float)(v.rank + e);
    symm_dev_store(a.summed + 4 * i, mine);
    symm_dev_store(a.halves + 8 * i, half);
    symm_dev_barrier(v, a.pad, blockIdx.x);
    wrong += count_wrong(symm_dev_sum(v, a.summed + 4 * i), want);
    halves = symm_dev_sum(v, a.halves + 8 * i);
    for (int e = 0; e < 8; e++)
        wrong += halves.e[e] != (float)(v.nranks * (v.nranks - 1) / 2 + v.nranks * e);
    if (symm_dev_has_multicast(v))
        wrong += count_wrong(symm_dev_multimem_sum(symm_dev_multicast(v, a.summed + 4 * i)), want);
    symm_dev_arrive(v, a.pad, blockIdx.x);
    symm_dev_wait_all(v, a.pad, blockIdx.x);
    return wrong;
}

/* A pack for the next rank, with a signal behind it, and one back when it has been read. */
SYMM_DEV float gives(const abi_args &a, int round, int i)
{
    const symm_view &v = a.view;
    const int next = (v.rank + 1) % v.nranks, before = (v.rank + v.nranks - 1) % v.nranks;
    const int channel = (int)(gridDim.x + blockIdx.x);
    symm_f32s<float> mine, want;
    float wrong = 0;

    for (int e = 0; e < 4; e++) {
        mine.e[e] = number(v.rank, round, e);
        want.e[e] = number(before, round, e);
    }
    if (!symm_dev_aborted(v))
        symm_dev_store(symm_dev_peer(v, a.given + 4 * i, next), mine);
    __syncthreads();
    if (threadIdx.x == 0) {
        symm_dev_signal(v, a.pad, channel, next, 2);
        symm_dev_wait_peek(v, a.pad, channel, before, 2);
        symm_dev_wait(v, a.pad, channel, before);
        symm_dev_wait(v, a.pad, channel, before);
    }
    __syncthreads();
    wrong = count_wrong(symm_dev_load(a.given + 4 * i), want);
    symm_dev_barrier(v, a.pad, blockIdx.x);
    return wrong;
}

/* One rank's pack for all of them, and words that all ranks bring or that differ. */
SYMM_DEV float spreads(const abi_args &a, int round, int i)
{
    const symm_view &v = a.view;
    const int from = round % v.nranks, channel = (int)(2 * gridDim.x + blockIdx.x);
    float *const spread = a.spread + 4 * i;
    symm_f32s<float> pack;
    float wrong = 0;

    for (int e = 0; e < 4; e++)
        pack.e[e] = number(from, round, e);
    if (v.rank == from && symm_dev_has_multicast(v))
        symm_dev_multimem_store(symm_dev_multicast(v, spread), pack);
    else if (v.rank == from)
        symm_dev_store_all(v, spread, pack);
    wrong += !symm_dev_barrier_agree(v, a.pad, channel, (uint32_t)round);
    wrong += count_wrong(symm_dev_load(spread), pack);
    symm_dev_barrier(v, a.pad, blockIdx.x);
    wrong += symm_dev_barrier_agree(v, a.pad, channel, (uint32_t)v.rank) != (v.nranks == 1);
    symm_dev_barrier(v, a.pad, blockIdx.x);
    return wrong;
}

SYMM_KERNEL(abi_exercise, abi_args, a, 64)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    float wrong = 0;

    for (int round = 0; round < a.rounds; round++)
        wrong += sums(a, round, i) + gives(a, round, i) + spreads(a, round, i);
    wrong = symm_dev_block_sum(wrong);
    if (threadIdx.x == 0)
        a.wrong[blockIdx.x] += (int32_t)wrong;
}
