/*
 * The collectives of the switch.
 *
 * all_reduce_multimem           the switch reduces this rank's share and stores it to all ranks.
 * all_reduce_multimem_one_shot  the switch reduces everything, for each rank.
 * reduce_scatter_multimem       the switch reduces this rank's share, in place or in the staging
 *                               areas.
 * all_gather_multimem           one store for all ranks, which the switch copies.
 * broadcast_multimem            the same by the root alone.
 *
 * Compiled for GPUs, run under the emulated driver only.
 */
#ifndef SYMM_MULTIMEM_CUH
#define SYMM_MULTIMEM_CUH

#include "broadcast.cuh"
#include "by_reading.cuh"
#include "staging.cuh"

/*
 * A source of sums: the switch reduces the elements at the same place in the memory of all ranks.
 * It cannot compare floats and doubles. AT_ONCE packs are in flight at a time.
 */
template <typename T> struct multimem {
    static constexpr int AT_ONCE = 8;

    template <int U>
    SYMM_DEV void reduce(const symm_view &v, const T *in, uint64_t stride, uint32_t op,
                         symm_bits16 (&sum)[U])
    {
        const T *at = symm_dev_multicast(v, in);
        if constexpr (!IS_WIDE_FLOAT<T>) {
            if (op == SYMM_MIN)
                return load<SYMM_MIN>(at, stride, sum);
            if (op == SYMM_MAX)
                return load<SYMM_MAX>(at, stride, sum);
        }
        load<SYMM_SUM>(at, stride, sum);
        if (op == SYMM_AVG)
#pragma unroll
            for (int u = 0; u < U; u++) {
                elements<T> x = unpack<T>(sum[u]);
                finish(x, op, v.nranks);
                sum[u] = pack(x);
            }
    }

    template <symm_redop OP, int U>
    SYMM_DEV void load(const T *multicast, uint64_t stride, symm_bits16 (&sum)[U])
    {
#pragma unroll
        for (int u = 0; u < U; u++)
            sum[u] = symm_dev_multimem_reduce<OP>(multicast + u * stride);
    }
};

/* ----------------------------------------------------------------------------------- all-reduce */

template <typename T> SYMM_DEV void all_reduce_multimem(const symm_collective_args &a)
{
    all_reduce_by_reading<multimem<T>, true, T>(a);
}

template <typename T> SYMM_DEV void all_reduce_multimem_one_shot(const symm_collective_args &a)
{
    all_reduce_by_reading<multimem<T>, false, T>(a);
}

/* ------------------------------------------------------------------------------- reduce-scatter */

/* Reduces npacks of this rank's share in `in`, to `out`, which ends after `end` elements. */
template <typename T>
SYMM_DEV void reduce_share_by_switch(const symm_collective_args &a, const T *in, T *out,
                                     uint64_t npacks, uint64_t end)
{
    reduce_packs<multimem<T>>(a.view, in, 0, npacks, a.op, [&](uint64_t i, const symm_bits16 &sum) {
        store_pack(out, i, end, sum);
    });
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
                               block.part.last - block.part.first, a.own - min(first, a.own));
        symm_dev_barrier(v, a.pad, leave_channel(a));
        return;
    }
    /* All ranks come here, or none: from now on each accesses its own `in` and `out` only. */
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
            const uint64_t at = block.part.first + c * a.capacity;
            reduce_share_by_switch(
                a, reinterpret_cast<const T *>(block.slot(block.chunks, c, v.rank)),
                out + at * PACK<T>, min((uint64_t)a.capacity, block.part.last - at),
                a.own - min(at * PACK<T>, a.own));
        });
}

/* ------------------------------------------------------------------------ all-gather, broadcast */

/* Stores a pack at the same place in the memory of all ranks, this one included, by one store. */
struct to_all_by_switch {
    static constexpr bool OWN = true;

    SYMM_DEV void store(const symm_view &v, void *at, const symm_bits16 &x)
    {
        symm_dev_multimem_store_bits(symm_dev_multicast(v, at), x);
    }
};

template <typename T> SYMM_DEV void all_gather_multimem(const symm_collective_args &a)
{
    gather_by_writing<T, to_all_by_switch, 0>(a);
}

template <typename T> SYMM_DEV void broadcast_multimem(const symm_collective_args &a)
{
    gather_by_writing<T, to_all_by_switch, 0, from_root>(a);
}

#endif
