/*
 * Reduce-scatter by loads and stores: rank r reduces share r of all ranks' `in`.
 *
 * low_latency  every rank sends each share as packets to the rank that reduces it. Any memory; no
 *              barrier.
 * one_shot     every rank writes each share into the staging area of the rank that reduces it. Any
 *              memory.
 */
#ifndef SYMM_REDUCE_SCATTER_KERNELS_CUH
#define SYMM_REDUCE_SCATTER_KERNELS_CUH

#include "packets.cuh"
#include "staging.cuh"

template <typename T, int R> SYMM_DEV void reduce_scatter_low_latency(const symm_collective_args &a)
{
    exchange_packets<reduce_shares<T, R, false>>(a);
}

template <typename T, int R> SYMM_DEV void reduce_scatter_one_shot(const symm_collective_args &a)
{
    typedef staged<T, R, R == 2 ? 2 : R == 4 ? 1 : 0> staged_shares;
    const staged_shares block(a);
    T *const out = static_cast<T *>(a.out);

    if (block.nchunks() == 0)
        return;
    exchange(
        block, [&](uint64_t c) { block.scatter(c); },
        [&](uint64_t c) {
            if constexpr (staged_shares::HAS_ALIGNED)
                if (a.aligned) {
                    symm_bits16 *const to =
                        block.aligned_at(c, reinterpret_cast<symm_bits16 *>(out), 0);
                    return block.sums_aligned(c, [&](uint32_t i, const symm_bits16 &y) {
                        symm_dev_store_bits(to + i, y);
                    });
                }
            block.each_pack(
                c, [&](uint32_t i, uint64_t p) { store_pack(out, p, a.own, block.sum(c, i, p)); });
        });
}

#endif
