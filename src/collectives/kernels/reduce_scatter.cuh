/*
 * Reduce-scatter on the device: rank r reduces share r of everyone's `in`.
 *
 * low_latency  every rank sends each share as packets to the rank that reduces it. Any memory; no
 *              barrier.
 * one_shot     every rank writes each share into the staging area of the rank that reduces it. Any
 *              memory.
 * multimem     the switch reduces, where the shares lie or in the staging areas.
 */
#ifndef SYMM_REDUCE_SCATTER_KERNELS_CUH
#define SYMM_REDUCE_SCATTER_KERNELS_CUH

#include "packets.cuh"
#include "staging.cuh"
#include "switch.cuh"

template <typename T, int R> SYMM_DEV void reduce_scatter_low_latency(const symm_collective_args &a)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
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
            if constexpr (staged_shares::WHOLE)
                if (a.whole) {
                    symm_bits16 *const to =
                        block.whole_at(c, reinterpret_cast<symm_bits16 *>(out), 0);
                    return block.sums_whole(c, [&](uint32_t i, const symm_bits16 &y) {
                        symm_dev_store_bits(to + i, y);
                    });
                }
            block.each_pack(c, [&](uint32_t i, uint64_t p) {
                store_pack(out, p, a.stride, block.sum(c, i, p));
            });
        });
}

/* ------------------------------------------------------------------------------- by the switch */

/* Packs of this rank's share in `in`, to `out`. */
template <typename T>
SYMM_DEV void reduce_share_by_switch(const symm_collective_args &a, const T *in, T *out,
                                     uint64_t npacks, uint64_t end)
{
    constexpr int U = multimem<T>::AT_ONCE;
    const uint64_t step = blockDim.x;
    const auto packs = [&](uint64_t i, auto &sum) {
        multimem<T>::reduce(a.view, in + i * PACK<T>, step * PACK<T>, a.op, sum);
#pragma unroll
        for (int u = 0; u < (int)(sizeof sum / sizeof sum[0]); u++)
            store_pack(out, i + u * step, end, sum[u]);
    };

    uint64_t i = threadIdx.x;
    for (; i + (U - 1) * step < npacks; i += U * step) {
        symm_bits16 sum[U];
        packs(i, sum);
    }
    for (; i < npacks; i += step) {
        symm_bits16 sum[1];
        packs(i, sum);
    }
}

template <typename T> SYMM_DEV void reduce_scatter_multimem(const symm_collective_args &a)
{
    const staged<T, 0> block(a);
    const symm_view &v = a.view;
    const T *const in = static_cast<const T *>(a.in);
    T *const out = static_cast<T *>(a.out);

    if (block.nchunks() == 0)
        return;
    if (symm_dev_barrier_test_equal(v, a.pad, enter_channel(a), call_and_place(a)) && a.place) {
        const uint64_t first = block.part.first * PACK<T>;
        reduce_share_by_switch(a, share_of(a, in, v.rank).first + first, out + first,
                               block.part.last - block.part.first, a.stride - first);
        symm_dev_barrier(v, a.pad, leave_channel(a));
        return;
    }
    /* Every rank comes here if one does: no access to `in` and `out` but this rank's own. */
    exchange(
        block,
        [&](uint64_t c) {
            block.each_pack(c, [&](uint32_t i, uint64_t p) {
                for (int r = 0; r < v.nranks; r++) {
                    const share<const T> s = share_of(a, in, r);
                    symm_dev_store_bits(block.slot(block.chunks, c, r) + i,
                                        load_pack(s.first, p, s.count));
                }
            });
        },
        [&](uint64_t c) {
            const uint64_t at = block.part.first + c * a.room;
            reduce_share_by_switch(a,
                                   reinterpret_cast<const T *>(block.slot(block.chunks, c, v.rank)),
                                   out + at * PACK<T>, min((uint64_t)a.room, block.part.last - at),
                                   a.stride - at * PACK<T>);
        });
}

#endif
