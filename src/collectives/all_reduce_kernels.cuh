/*
 * All-reduce on the device. A block is an all-reduce of its own over its slice of the elements;
 * block b meets only the blocks b of the other ranks, on two channels of its own. Every rank has
 * the same grid.
 *
 *     enter   a barrier in which the ranks agree whether `in` and `out` can be used where they are;
 *             if so: reduce, meet
 *     staged  else, for each chunk that fits the block's part of the staging area:
 *             copy in, meet, reduce, meet, copy out
 *
 * one-shot: every rank reduces the whole slice into its own `out`. two-shot: rank r reduces the
 * r-th share of the slice and writes it to every rank. Either adds what it loads from each rank
 * (unicast), or the switch adds (multimem).
 */
#ifndef SYMM_ALL_REDUCE_KERNELS_CUH
#define SYMM_ALL_REDUCE_KERNELS_CUH

#include <symm/device.cuh>
#include "kernel_args.h"

template <typename T> constexpr uint64_t PACK = 16 / sizeof(T); /* elements in 16 bytes */

SYMM_DEV uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* ------------------------------------------------------------------------- where sums come from */

/*
 * Puts x[i], which came from rank q ^ i, where rank i's belongs: swapping pairs for each bit of q.
 * An index that only the device knows would put the array into memory.
 */
template <int R> SYMM_DEV void in_rank_order(symm_bits16 (&x)[R], int q)
{
#pragma unroll
    for (int bit = 1; bit < R; bit *= 2) {
#pragma unroll
        for (int i = 0; i < R; i++) {
            if (i & bit)
                continue;
#pragma unroll
            for (int w = 0; w < 4; w++) {
                const uint32_t low = x[i].w[w], high = x[i | bit].w[w];
                x[i].w[w] = q & bit ? high : low;
                x[i | bit].w[w] = q & bit ? low : high;
            }
        }
    }
}

/*
 * Adds in fp32, in the order of the ranks. R: how many there are, a power of two, or 0 for any
 * number. AT_ONCE packs are worked on together, which makes about eight loads in flight. Each rank
 * begins with its own memory and goes on with another rank than the others do.
 */
template <typename T, int R> struct unicast {
    static constexpr int AT_ONCE = R ? 8 / R : 1;

    /* sum[u]: of the packs at in + u * stride. */
    template <int U>
    SYMM_DEV void add(const symm_view &v, const T *in, uint64_t stride, symm_bits16 (&sum)[U])
    {
        if constexpr (R == 0) {
            for (int u = 0; u < U; u++)
                sum[u] = symm_dev_pack(symm_dev_sum(v, in + u * stride));
        } else {
            symm_bits16 x[U][R];
#pragma unroll
            for (int i = 0; i < R; i++) {
                const T *from = symm_dev_peer(v, in, v.rank ^ i);
#pragma unroll
                for (int u = 0; u < U; u++)
                    x[u][i] = symm_dev_load_bits(from + u * stride);
            }
#pragma unroll
            for (int u = 0; u < U; u++) {
                in_rank_order(x[u], v.rank);
                symm_f32s<T> f = symm_dev_unpack<T>(x[u][0]);
#pragma unroll
                for (int r = 1; r < R; r++)
                    symm_dev_add(f, symm_dev_unpack<T>(x[u][r]));
                sum[u] = symm_dev_pack(f);
            }
        }
    }

    SYMM_DEV void store_all(const symm_view &v, T *out, const symm_bits16 &x)
    {
        if constexpr (R == 0) {
            for (int i = 0; i < v.nranks; i++)
                symm_dev_store_bits(symm_dev_peer(v, out, (v.rank + i) % v.nranks), x);
        } else {
#pragma unroll
            for (int i = 0; i < R; i++)
                symm_dev_store_bits(symm_dev_peer(v, out, v.rank ^ i), x);
        }
    }
};

/* The switch adds, and copies. */
template <typename T> struct multimem {
    static constexpr int AT_ONCE = 4;

    template <int U>
    SYMM_DEV void add(const symm_view &v, const T *in, uint64_t stride, symm_bits16 (&sum)[U])
    {
#pragma unroll
        for (int u = 0; u < U; u++)
            sum[u] = symm_dev_multimem_reduce<SYMM_SUM>(symm_dev_multicast(v, in + u * stride));
    }

    SYMM_DEV void store_all(const symm_view &v, T *out, const symm_bits16 &x)
    {
        symm_dev_multimem_store_bits(symm_dev_multicast(v, out), x);
    }
};

/* --------------------------------------------------------------------------------------- reduce */

/* Stores a pack to this rank's memory, which need not be aligned. */
template <typename T> SYMM_DEV void store_own(T *out, const symm_bits16 &x, bool aligned)
{
    if (aligned) {
        symm_dev_store_bits(out, x);
        return;
    }
    const symm_f32s<T> f = symm_dev_unpack<T>(x);
#pragma unroll
    for (uint64_t e = 0; e < PACK<T>; e++)
        symm_dev_store_one(out + e, symm_dev_narrow<T>(f.e[e]));
}

/*
 * Reduces n elements at `in`, which is symmetric and aligned. TO_ALL: this rank's share of them, to
 * all ranks' `out`, symmetric and aligned; else all of them to its own `out`, any memory. Nothing
 * is touched beyond n elements: the last ones, if they fill no pack, go one by one.
 */
template <typename Source, bool TO_ALL, typename T>
SYMM_DEV void reduce(const symm_view &v, const T *in, T *out, uint64_t n)
{
    constexpr int U = Source::AT_ONCE;
    const uint64_t npacks = ceil_div(n, PACK<T>),
                   share = TO_ALL ? ceil_div(npacks, v.nranks) : npacks;
    const uint64_t first = TO_ALL ? min(v.rank * share, npacks) : 0,
                   last = min(first + share, npacks);
    const uint64_t whole = min(last, n / PACK<T>), step = blockDim.x;
    const bool aligned = TO_ALL || reinterpret_cast<uintptr_t>(out) % 16 == 0;

    /* The packs i, i + step, ... */
    const auto packs = [&](uint64_t i, auto &sum) {
        Source::add(v, in + i * PACK<T>, step * PACK<T>, sum);
#pragma unroll
        for (int u = 0; u < (int)(sizeof sum / sizeof sum[0]); u++) {
            if constexpr (TO_ALL)
                Source::store_all(v, out + (i + u * step) * PACK<T>, sum[u]);
            else
                store_own(out + (i + u * step) * PACK<T>, sum[u], aligned);
        }
    };
    uint64_t i = first + threadIdx.x;
    for (; i + (U - 1) * step < whole; i += U * step) {
        symm_bits16 sum[U];
        packs(i, sum);
    }
    for (; i < whole; i += step) {
        symm_bits16 sum[1];
        packs(i, sum);
    }
    /* The pack that is not whole is another rank's, or there is none. */
    if (first == last || last == whole)
        return;
    for (uint64_t e = whole * PACK<T> + threadIdx.x; e < n; e += step) {
        float sum = symm_dev_widen(symm_dev_load_one(symm_dev_peer(v, in + e, 0)));
        for (int r = 1; r < v.nranks; r++)
            sum += symm_dev_widen(symm_dev_load_one(symm_dev_peer(v, in + e, r)));
        for (int r = 0; r < v.nranks; r++)
            if (TO_ALL || r == v.rank)
                symm_dev_store_one(symm_dev_peer(v, out + e, TO_ALL ? r : v.rank),
                                   symm_dev_narrow<T>(sum));
    }
}

/* ----------------------------------------------------------------------------------- the kernel */

/* What ranks compare on entry: the call, and where the data lie if they can be used there. */
SYMM_DEV uint32_t call_and_place(uint32_t call, uint32_t place)
{
    return (call ^ place * 0x9e3779b1u) * 0x85ebca6bu;
}

template <typename Source, bool TO_ALL, typename T>
SYMM_DEV void all_reduce(const symm_all_reduce_args &a)
{
    const symm_view &v = a.view;
    const int enter = a.channel + 2 * (int)blockIdx.x, leave = enter + 1;
    const uint64_t slice = ceil_div(ceil_div(a.count, PACK<T>), gridDim.x) * PACK<T>;
    const uint64_t first = min(blockIdx.x * slice, a.count), n = min(slice, a.count - first);
    const T *in = static_cast<const T *>(a.in) + first;
    T *out = static_cast<T *>(a.out) + first;

    if (symm_dev_barrier_agree(v, a.pad, enter, call_and_place(a.call, a.place)) && a.place) {
        reduce<Source, TO_ALL>(v, in, out, n);
        symm_dev_barrier(v, a.pad, leave);
        return;
    }
    /* Every rank comes here if one does: no access to `in` and `out` but this rank's own. */
    const uint64_t part = a.staging_nbytes / gridDim.x / 16 * PACK<T>;
    T *staging = reinterpret_cast<T *>(a.staging) + blockIdx.x * part;
    for (uint64_t done = 0; done < n; done += part) {
        const uint64_t chunk = min(part, n - done);
        symm_dev_copy(staging, in + done, chunk * sizeof(T));
        if (!symm_dev_barrier_insist(v, a.pad, leave, a.call))
            return;
        reduce<Source, TO_ALL>(v, staging, TO_ALL ? staging : out + done, chunk);
        /* Nobody needs this chunk in another rank's staging area any more. */
        symm_dev_barrier(v, a.pad, enter);
        if (TO_ALL) {
            symm_dev_copy(out + done, staging, chunk * sizeof(T));
            __syncthreads(); /* the next chunk's copy in may give an element to another thread */
        }
    }
}

template <typename T, int R> SYMM_DEV void all_reduce_one_shot(const symm_all_reduce_args &a)
{
    all_reduce<unicast<T, R>, false, T>(a);
}

template <typename T, int R> SYMM_DEV void all_reduce_two_shot(const symm_all_reduce_args &a)
{
    all_reduce<unicast<T, R>, true, T>(a);
}

template <typename T> SYMM_DEV void all_reduce_multimem(const symm_all_reduce_args &a)
{
    all_reduce<multimem<T>, true, T>(a);
}

template <typename T> SYMM_DEV void all_reduce_multimem_one_shot(const symm_all_reduce_args &a)
{
    all_reduce<multimem<T>, false, T>(a);
}

#endif
