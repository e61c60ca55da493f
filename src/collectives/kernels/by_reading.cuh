/* All-reduce by reading: between two barriers, ranks read the elements of all ranks. */
#ifndef SYMM_BY_READING_CUH
#define SYMM_BY_READING_CUH

#include "parts.cuh"

/* Calls store(i, sum) for this thread's packs from first to last, reduced from all ranks' `in`. */
template <typename Source, typename T, typename Store>
SYMM_DEV void reduce_packs(const symm_view &v, const T *in, uint64_t first, uint64_t last,
                           uint32_t op, const Store &store)
{
    for_packs<Source::AT_ONCE>(first, last, [&](uint64_t i, auto batch) {
        constexpr int U = decltype(batch)::COUNT;
        const uint64_t step = blockDim.x;
        symm_bits16 sum[U];

        Source::reduce(v, in + i * PACK<T>, step * PACK<T>, op, sum);
#pragma unroll
        for (int u = 0; u < U; u++)
            store(i + u * step, sum[u]);
    });
}

/*
 * Reduces n elements at `in`, which is symmetric and aligned. With TO_ALL: this rank's share of
 * them, through the switch to `out` of all ranks, which is symmetric and aligned, too. Else all of
 * them to its own `out`, in any memory. Touches nothing beyond n elements.
 */
template <typename Source, bool TO_ALL, typename T>
SYMM_DEV void reduce_by_reading(const symm_view &v, const T *in, T *out, uint64_t n, uint32_t op)
{
    const uint64_t npacks = ceil_div(n, PACK<T>),
                   share = TO_ALL ? ceil_div(npacks, v.nranks) : npacks;
    const uint64_t first = TO_ALL ? min(v.rank * share, npacks) : 0,
                   last = min(first + share, npacks);
    const uint64_t whole = min(last, n / PACK<T>);

    reduce_packs<Source>(v, in, first, whole, op, [&](uint64_t i, const symm_bits16 &sum) {
        if constexpr (TO_ALL)
            symm_dev_multimem_store_bits(symm_dev_multicast(v, out + i * PACK<T>), sum);
        else
            store_pack(out, i, n, sum);
    });
    /* The incomplete pack, if n has one and it is in this rank's share. */
    if (whole - first < last - first && threadIdx.x == 0) {
        const symm_bits16 x = reduce_ranks<T>(
            v.nranks, op, [&](int r) { return load_pack(symm_dev_peer(v, in, r), whole, n); });
        for (int r = 0; r < v.nranks; r++)
            if (TO_ALL || r == v.rank)
                store_pack(symm_dev_peer(v, out, TO_ALL ? r : v.rank), whole, n, x);
    }
}

/*
 * A barrier, in which the ranks agree whether `in` and `out` can be used in place.
 * In place: reduce, barrier.
 * Else, for each chunk that fits the block's part of the results area: copy in, barrier, reduce,
 * barrier, copy out.
 */
template <typename Source, bool TO_ALL, typename T>
SYMM_DEV void all_reduce_by_reading(const symm_collective_args &a)
{
    const symm_view &v = a.view;
    const int enter = enter_channel(a), leave = leave_channel(a);
    const block_part packs = part_of(a);
    const uint64_t first = min(packs.first * PACK<T>, a.count),
                   n = min(packs.last * PACK<T>, a.count) - first;
    const T *in = static_cast<const T *>(a.in) + first;
    T *out = static_cast<T *>(a.out) + first;

    if (symm_dev_barrier_test_equal(v, a.pad, enter, call_and_place(a)) && a.place) {
        reduce_by_reading<Source, TO_ALL>(v, in, out, n, a.op);
        symm_dev_barrier(v, a.pad, leave);
        return;
    }
    /* All ranks come here, or none: from now on each accesses its own `in` and `out` only. */
    const uint64_t most = a.capacity * PACK<T>; /* elements of a chunk */
    T *staging = reinterpret_cast<T *>(a.results) + blockIdx.x * most;
    for (uint64_t done = 0; done < n; done += most) {
        const uint64_t chunk = min(most, n - done);
        symm_dev_copy(staging, in + done, chunk * sizeof(T));
        if (!symm_dev_barrier_require_equal(v, a.pad, leave, a.call))
            return;
        reduce_by_reading<Source, TO_ALL>(v, staging, TO_ALL ? staging : out + done, chunk, a.op);
        /* All ranks have read this chunk. */
        symm_dev_barrier(v, a.pad, enter);
        if (TO_ALL) {
            symm_dev_copy(out + done, staging, chunk * sizeof(T));
            __syncthreads(); /* the next chunk's copy in may give an element to another thread */
        }
    }
}

#endif
