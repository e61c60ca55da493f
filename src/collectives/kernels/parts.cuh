/*
 * How elements are divided among ranks, blocks and threads. A block runs its own collective over
 * its part of the elements: block b synchronizes with the blocks b of the other ranks only, on its
 * own channels. Every rank has the same grid. In a buffer of all shares, share r begins at
 * r * a.stride.
 */
#ifndef SYMM_PARTS_CUH
#define SYMM_PARTS_CUH

#include "arithmetic.cuh"
#include "args.h"

/* This block's units of a share. */
struct block_part {
    uint64_t first, last;
};

SYMM_DEV block_part part_of(const symm_collective_args &a)
{
    const uint64_t first = min(blockIdx.x * a.block_units, a.share);
    return {first, min(first + a.block_units, a.share)};
}

/* The number of packs that a call of for_packs' function handles. */
template <int N> struct packs {
    static constexpr int COUNT = N;
};

/*
 * Calls f(i, packs<U>) for this thread's packs i, i + blockDim.x, ... from first to last, U of them
 * at a time, and f(i, packs<1>) for each of the rest.
 */
template <int U, typename F> SYMM_DEV void for_packs(uint64_t first, uint64_t last, const F &f)
{
    const uint64_t step = blockDim.x;

    uint64_t i = first + threadIdx.x;
    if constexpr (U > 1)
        for (; i + (U - 1) * step < last; i += U * step)
            f(i, packs<U>());
    for (; i < last; i += step)
        f(i, packs<1>());
}

/* Two of the four channels of this block; lamport.cuh has the others. */
SYMM_DEV int enter_channel(const symm_collective_args &a)
{
    return a.channel + 4 * (int)blockIdx.x;
}

SYMM_DEV int leave_channel(const symm_collective_args &a)
{
    return enter_channel(a) + 1;
}

/*
 * The elements of one rank's share. The last shares may have fewer. Data: in, out, count, stride
 * and `aligned` of a block's collective: the arguments, or those of a block's rows.
 */
template <typename T> struct share {
    T *first;
    uint64_t count;
};

template <typename Data, typename T> SYMM_DEV share<T> share_of(const Data &a, T *all, int rank)
{
    const uint64_t off = min(rank * a.stride, a.count);
    return {all + off, min(a.count - off, a.stride)};
}

/*
 * The k-th rank in this rank's order of all ranks, which begins with itself. Each rank has another
 * order, so that they do not all send to one rank at a time. R: the number of ranks, a power of
 * two, or 0 for any number.
 */
template <int R> SYMM_DEV int other_rank(const symm_view &v, int k)
{
    return R ? v.rank ^ k : (v.rank + k) % v.nranks;
}

/* Calls f(rank) for every other rank, in that order. */
template <int R, typename F> SYMM_DEV void for_others(const symm_view &v, const F &f)
{
#pragma unroll 1 /* registers matter more */
    for (int k = 1; k < v.nranks; k++)
        f(other_rank<R>(v, k));
}

/* The word that ranks compare on entry: the call, and the place of the data. */
SYMM_DEV uint32_t call_and_place(const symm_collective_args &a)
{
    return (a.call ^ a.place * 0x9e3779b1u) * 0x85ebca6bu;
}

#endif
