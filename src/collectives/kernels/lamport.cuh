/*
 * lamport: packs that are their own flag. Every rank writes each share into the slots of the rank
 * that reduces it; in an all-reduce that rank writes the sums into slots of all ranks. A thread
 * polls a slot until a pack is there, takes it and frees the slot. Any memory.
 *
 * Each block has its own slots, in two sets that its epochs use alternately. An epoch uses a slot
 * at most once. In epoch e a rank sends into the slots of epoch e - 2, which all ranks have freed:
 * each rank tells all others that it has begun epoch e - 1, when it has freed the slots of e - 2;
 * and this rank has waited for that before the end of e - 1. The last warp of a block tells and
 * waits, while the other warps move packs.
 *
 * The message has the call as its word, so that ranks with different calls notice. A rank is at
 * most one epoch ahead of another one, because it needs its packs. So two channels used alternately
 * keep the words of two epochs apart.
 */
#ifndef SYMM_LAMPORT_CUH
#define SYMM_LAMPORT_CUH

#include "parts.cuh"

/* Packs that a thread handles at a time, so that their loads and polls are in flight together. */
template <int R> constexpr int SLOTS_AT_ONCE = R == 2 ? 4 : R == 4 ? 2 : 1;

/*
 * Threads that move packs: all warps but the last one, which tells and waits, since a release takes
 * longer than sending a pack. In a block of one warp all threads do both.
 */
SYMM_DEV uint32_t workers(void)
{
    return blockDim.x > 32 ? blockDim.x - 32 : blockDim.x;
}

/* The first of the two channels of a block. */
SYMM_DEV int lamport_channel(const symm_collective_args &a)
{
    return enter_channel(a) + 2;
}

/*
 * An epoch of a block: n packs of every share, from pack `first` on. U: packs at a time. SCALED:
 * this rank's elements are multiplied by a factor; in one kernel with the other case, but apart,
 * because a test at each load would be noticeable.
 */
template <typename T, int R, bool TO_ALL, int U, bool SCALED, typename Data> struct lamport_epoch {
    static constexpr bool PAIR = R == 2; /* slots for the other rank alone */

    const symm_collective_args &a;
    const Data &d;
    const symm_view &v;
    const uint64_t first;
    const uint32_t n;
    symm_packet *set = nullptr;
    uint32_t epoch = 0;
    bool live = true; /* false: this thread has heard of an abort, and sends nothing more */
    typename accumulator<T>::type factor = 1;

    SYMM_DEV_IN_CLASS lamport_epoch(const symm_collective_args &args, const Data &data, uint64_t at,
                                    uint32_t count)
        : a(args), d(data), v(args.view), first(at), n(count)
    {
        if (SCALED)
            factor = factor_of<T>(a.scale);
    }

    /* Slot i for packs of rank `from`: its contributions (0), or its sums (1). */
    SYMM_DEV_IN_CLASS symm_packet *slot(int phase, int from, uint32_t i) const
    {
        const int place = PAIR ? phase : phase * v.nranks + from;
        return set + (uint32_t)place * a.capacity + i;
    }

    /* Pack i of `rank`'s share, scaled. */
    SYMM_DEV_IN_CLASS symm_bits16 load(int rank, uint32_t i) const
    {
        const symm_bits16 x = load_unscaled(rank, i);
        return SCALED ? times<T>(x, factor) : x;
    }

    SYMM_DEV_IN_CLASS symm_bits16 load_unscaled(int rank, uint32_t i) const
    {
        if (d.aligned)
            return symm_dev_load_bits(static_cast<const symm_bits16 *>(d.in) + rank * a.share +
                                      first + i);
        const share<const T> s = share_of(d, static_cast<const T *>(d.in), rank);
        return load_pack(s.first, first + i, s.count);
    }

    SYMM_DEV_IN_CLASS void store(int rank, uint32_t i, const symm_bits16 &x) const
    {
        T *const out = static_cast<T *>(d.out);
        if (d.aligned)
            return symm_dev_store_bits(reinterpret_cast<symm_bits16 *>(out) +
                                           (TO_ALL ? rank * a.share : 0) + first + i,
                                       x);
        const share<T> s = TO_ALL ? share_of(d, out, rank) : share<T>{out, a.own};
        store_pack(s.first, first + i, s.count, x);
    }

    /*
     * Calls f(place, number in the batch) for this thread's packs from place i on, U of them at
     * most, a block's threads apart.
     */
    template <typename F> SYMM_DEV_IN_CLASS void each_of(uint32_t i, const F &f) const
    {
#pragma unroll
        for (int u = 0; u < U; u++)
            if (i + u * workers() < n)
                f(i + u * workers(), u);
    }

    /* Begins the epoch: takes its set of slots. */
    SYMM_DEV_IN_CLASS void begin()
    {
        epoch = symm_dev_epoch(v, a.pad, lamport_channel(a));
        set = a.slots + (uint64_t)blockIdx.x * a.block_slots + (epoch & 1) * (a.block_slots / 2);
        live = epoch != 0;
    }

    /* In the last warp: tells all other ranks that the epoch has begun, and waits for the same. */
    SYMM_DEV_IN_CLASS void meet()
    {
        const int channel = lamport_channel(a) + (int)(epoch & 1), step = min(32, (int)blockDim.x),
                  mine = (int)threadIdx.x - ((int)blockDim.x - step);

        for (int r = mine; r >= 0 && r < v.nranks; r += step)
            if (r != v.rank)
                symm_dev_epoch_begun(v, a.pad, channel, epoch, a.call, r);
        for (int r = mine; r >= 0 && r < v.nranks; r += step)
            if (r != v.rank)
                live = symm_dev_await_epoch(v, a.pad, channel, epoch, a.call, r) && live;
    }

    /* Loads a batch of contributions: x[u][k] to rank v.rank ^ k. */
    SYMM_DEV_IN_CLASS void load_others(uint32_t i, symm_bits16 (&x)[U][R ? R : 1]) const
    {
        each_of(i, [&](uint32_t p, int u) {
#pragma unroll
            for (int k = 1; k < R; k++)
                x[u][k] = load(v.rank ^ k, p);
        });
    }

    /* Sends a batch of contributions: x, or for any number of ranks (R = 0) packs loaded here. */
    SYMM_DEV_IN_CLASS void send_others(uint32_t i, const symm_bits16 (&x)[U][R ? R : 1]) const
    {
        if (!live)
            return;
        each_of(i, [&](uint32_t p, [[maybe_unused]] int u) {
#pragma unroll
            for (int k = 1; k < R; k++)
                symm_dev_send_pack(v, slot(0, v.rank, p), symm_dev_sendable(x[u][k]), v.rank ^ k);
            if constexpr (R == 0)
                for_others<R>(v, [&](int r) {
                    symm_dev_send_pack(v, slot(0, v.rank, p), symm_dev_sendable(load(r, p)), r);
                });
        });
    }

    /* Takes a pack of every other rank for each of a batch: x[u][k] from rank v.rank ^ k. */
    SYMM_DEV_IN_CLASS void take(int phase, uint32_t i, symm_bits16 (&x)[U][R])
    {
        constexpr int N = U * (R - 1);
        symm_packet *slots[N];
        symm_bits16 got[N];
        int from[N];
#pragma unroll
        for (int u = 0; u < U; u++) {
            const uint32_t p = i + u * workers();
#pragma unroll
            for (int k = 1; k < R; k++) {
                from[u * (R - 1) + k - 1] = v.rank ^ k;
                slots[u * (R - 1) + k - 1] = slot(phase, v.rank ^ k, p < n ? p : i);
            }
        }
        live = symm_dev_take_packs(v, slots, from, got) && live;
#pragma unroll
        for (int u = 0; u < U; u++) {
#pragma unroll
            for (int k = 1; k < R; k++)
                x[u][k] = got[u * (R - 1) + k - 1];
        }
    }

    SYMM_DEV_IN_CLASS symm_bits16 take_one(int phase, uint32_t p, int from)
    {
        symm_bits16 x[1];
        live = symm_dev_take_packs<1>(v, {slot(phase, from, p)}, {from}, x) && live;
        return x[0];
    }

    /* Stores a sum, and sends it to all ranks. */
    SYMM_DEV_IN_CLASS void give(uint32_t p, const symm_bits16 &sum) const
    {
        const symm_bits16 y = TO_ALL ? symm_dev_sendable(sum) : sum;
        const int nranks = R ? R : v.nranks;

        if (TO_ALL && live) {
#pragma unroll
            for (int k = 1; k < nranks; k++)
                symm_dev_send_pack(v, slot(1, v.rank, p), y, other_rank<R>(v, k));
        }
        store(v.rank, p, y);
    }

    /* Reduces a batch of this rank's share. */
    SYMM_DEV_IN_CLASS void reduce(uint32_t i)
    {
        if constexpr (R > 0) {
            symm_bits16 x[U][R] = {};
            each_of(i, [&](uint32_t p, int u) { x[u][0] = load(v.rank, p); });
            take(0, i, x);
            each_of(i, [&](uint32_t p, int u) { give(p, reduce_all<T>(x[u], v.rank, a.op)); });
        } else {
            give(i, reduce_ranks<T>(v.nranks, a.op, v.rank, load(v.rank, i),
                                    [&](int r) { return take_one(0, i, r); }));
        }
    }

    /* Stores a batch of the other ranks' sums. */
    SYMM_DEV_IN_CLASS void collect(uint32_t i)
    {
        if constexpr (R > 0) {
            symm_bits16 x[U][R] = {};
            take(1, i, x);
            each_of(i, [&](uint32_t p, int u) {
#pragma unroll
                for (int k = 1; k < R; k++)
                    store(v.rank ^ k, p, x[u][k]);
            });
        } else {
            for_others<R>(v, [&](int r) { store(r, i, take_one(1, i, r)); });
        }
    }

    SYMM_DEV_IN_CLASS void run()
    {
        const uint32_t step = U * workers(), begins = threadIdx.x < workers() ? threadIdx.x : n;
        symm_bits16 x[U][R ? R : 1] = {};

        load_others(begins, x); /* while the epoch comes */
        begin();
        meet();
        for (uint32_t i = begins; i < n; i += step) {
            if (i != begins)
                load_others(i, x);
            send_others(i, x);
        }
        for (uint32_t i = begins; i < n; i += step)
            reduce(i);
        for (uint32_t i = begins; TO_ALL && i < n; i += step)
            collect(i);
    }
};

/* A block's part, in as many epochs as its slots need. */
template <typename T, int R, bool TO_ALL, bool SCALED, typename Data>
SYMM_DEV void exchange_packs(const symm_collective_args &a, const Data &data,
                             const block_part &part)
{
    constexpr int U = SLOTS_AT_ONCE<R>;

    for (uint64_t at = part.first; at < part.last; at += a.capacity) {
        const uint32_t n = (uint32_t)min((uint64_t)a.capacity, part.last - at);
        if (U > 1 && (SCALED || n > workers())) /* less code for the rarer case */
            lamport_epoch<T, R, TO_ALL, U, SCALED, Data>(a, data, at, n).run();
        else
            lamport_epoch<T, R, TO_ALL, 1, SCALED, Data>(a, data, at, n).run();
    }
}

template <typename T, int R, bool TO_ALL>
SYMM_DEV void reduce_lamport(const symm_collective_args &a)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    /* The scaled case has loops over the ranks, unless they are a pair: less code. */
    if (__builtin_expect(a.scale.on, 0))
        exchange_packs<T, R == 2 ? 2 : 0, TO_ALL, true>(a, a, part_of(a));
    else
        exchange_packs<T, R, TO_ALL, false>(a, a, part_of(a));
}

template <typename T, int R> SYMM_DEV void all_reduce_lamport(const symm_collective_args &a)
{
    reduce_lamport<T, R, true>(a);
}

template <typename T, int R> SYMM_DEV void reduce_scatter_lamport(const symm_collective_args &a)
{
    reduce_lamport<T, R, false>(a);
}

#endif
