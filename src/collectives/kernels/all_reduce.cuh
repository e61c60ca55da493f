/*
 * All-reduce on the device.
 *
 * low_latency           every rank sends all of its elements to all others as packets, and reduces
 *                       what comes. Any memory; no barrier.
 * low_latency_two_shot  the same by shares: rank r reduces share r and sends what it comes to.
 * one_shot              every rank reads everyone's elements in place, between two barriers.
 * two_shot              every rank writes each share into the staging area of the rank that reduces
 *                       it, which writes the results into everyone's `out`.
 * multimem              one_shot and two_shot by reading, with the switch reducing.
 */
#ifndef SYMM_ALL_REDUCE_KERNELS_CUH
#define SYMM_ALL_REDUCE_KERNELS_CUH

#include "packets.cuh"
#include "staging.cuh"
#include "switch.cuh"

/* ---------------------------------------------------------------------------------- low latency */

/* Everything to everyone, as a Step of exchange_packets(). */
template <typename T, int R> struct reduce_everything {
    static constexpr int AT_ONCE = 1; /* more polls would hold up what they wait for */
    typedef symm_bits12 held;

    const symm_collective_args &a;
    const payloads<const T> in;
    const payloads<T> out;

    SYMM_DEV_IN_CLASS reduce_everything(const symm_collective_args &args, uint64_t at, uint32_t n)
        : a(args), in(payloads_at(static_cast<const T *>(args.in), args.count, at, n)),
          out(payloads_at(static_cast<T *>(args.out), args.count, at, n))
    {
    }

    template <int U> SYMM_DEV_IN_CLASS void load(const packet_batch &b, held (&own)[U]) const
    {
#pragma unroll
        for (int u = 0; u < U; u++)
            own[u] = load_payload(in, b.at(u));
    }

    template <int U> SYMM_DEV_IN_CLASS void load_own(const packet_batch &b, held (&own)[U]) const
    {
        load(b, own);
    }

    template <int U>
    SYMM_DEV_IN_CLASS void send(const packet_slots &s, const packet_batch &b,
                                const held (&own)[U]) const
    {
#pragma unroll
        for (int u = 0; u < U; u++)
            if (b.has(u))
                send_all<R>(a.view, s, 0, a.room, b.at(u), own[u]);
    }

    template <int U>
    SYMM_DEV_IN_CLASS void take(packet_slots &s, const packet_batch &b, const held (&own)[U]) const
    {
        symm_bits12 y[U];
        receive_and_reduce<T, R>(a.view, s, 0, a.room, b, own, a.op, y);
#pragma unroll
        for (int u = 0; u < U; u++)
            store_payload(out, b.at(u), y[u]);
    }

    template <int U>
    SYMM_DEV_IN_CLASS void finish(packet_slots &, const packet_batch &, const held (&)[U]) const
    {
    }
};

/* ------------------------------------------------------------------------- where sums come from */

/*
 * Reads from every rank. R: how many there are, a power of two, or 0 for any number. AT_ONCE packs
 * are worked on together, which makes about eight loads in flight. Each rank begins with its own
 * memory and goes on with another rank than the others do.
 */
template <typename T, int R> struct unicast {
    static constexpr int AT_ONCE = R ? 8 / R : 1;

    /* sum[u]: of the packs at in + u * stride. */
    template <int U>
    SYMM_DEV void reduce(const symm_view &v, const T *in, uint64_t stride, uint32_t op,
                         symm_bits16 (&sum)[U])
    {
        if constexpr (R == 0) {
            for (int u = 0; u < U; u++) {
                const T *at = in + u * stride;
                elements<T> x = unpack<T>(symm_dev_load_bits(symm_dev_peer(v, at, 0)));
                for (int r = 1; r < v.nranks; r++)
                    fold(x, unpack<T>(symm_dev_load_bits(symm_dev_peer(v, at, r))), op);
                finish(x, op, v.nranks);
                sum[u] = pack(x);
            }
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
            for (int u = 0; u < U; u++)
                sum[u] = reduce_all<T>(x[u], v.rank, op);
        }
    }
};

/* --------------------------------------------------------------------------------- by reading */

/*
 * Reduces n elements at `in`, which is symmetric and aligned. TO_ALL: this rank's share of them, to
 * all ranks' `out` through the switch, symmetric and aligned; else all of them to its own `out`,
 * any memory. Nothing is touched beyond n elements.
 */
template <typename Source, bool TO_ALL, typename T>
SYMM_DEV void reduce_by_reading(const symm_view &v, const T *in, T *out, uint64_t n, uint32_t op)
{
    constexpr int U = Source::AT_ONCE;
    const uint64_t npacks = ceil_div(n, PACK<T>),
                   share = TO_ALL ? ceil_div(npacks, v.nranks) : npacks;
    const uint64_t first = TO_ALL ? min(v.rank * share, npacks) : 0,
                   last = min(first + share, npacks);
    const uint64_t whole = min(last, n / PACK<T>), step = blockDim.x;

    /* The packs i, i + step, ... */
    const auto packs = [&](uint64_t i, auto &sum) {
        Source::reduce(v, in + i * PACK<T>, step * PACK<T>, op, sum);
#pragma unroll
        for (int u = 0; u < (int)(sizeof sum / sizeof sum[0]); u++) {
            if constexpr (TO_ALL)
                symm_dev_multimem_store_bits(symm_dev_multicast(v, out + (i + u * step) * PACK<T>),
                                             sum[u]);
            else
                store_pack(out, i + u * step, n, sum[u]);
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
    /* The pack that is not whole: from first to last and so this rank's, or there is none. */
    if (whole - first < last - first && threadIdx.x == 0) {
        elements<T> x = unpack<T>(load_pack(symm_dev_peer(v, in, 0), whole, n));
        for (int r = 1; r < v.nranks; r++)
            fold(x, unpack<T>(load_pack(symm_dev_peer(v, in, r), whole, n)), op);
        finish(x, op, v.nranks);
        for (int r = 0; r < v.nranks; r++)
            if (TO_ALL || r == v.rank)
                store_pack(symm_dev_peer(v, out, TO_ALL ? r : v.rank), whole, n, pack(x));
    }
}

/*
 *     enter   a barrier in which the ranks agree whether `in` and `out` can be used where they are;
 *             if so: reduce, meet
 *     staged  else, for each chunk that fits the block's part of the results area:
 *             copy in, meet, reduce, meet, copy out
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
    /* Every rank comes here if one does: no access to `in` and `out` but this rank's own. */
    const uint64_t room = a.room * PACK<T>;
    T *staging = reinterpret_cast<T *>(a.results) + blockIdx.x * room;
    for (uint64_t done = 0; done < n; done += room) {
        const uint64_t chunk = min(room, n - done);
        symm_dev_copy(staging, in + done, chunk * sizeof(T));
        if (!symm_dev_barrier_require_equal(v, a.pad, leave, a.call))
            return;
        reduce_by_reading<Source, TO_ALL>(v, staging, TO_ALL ? staging : out + done, chunk, a.op);
        /* Nobody needs this chunk in another rank's staging area any more. */
        symm_dev_barrier(v, a.pad, enter);
        if (TO_ALL) {
            symm_dev_copy(out + done, staging, chunk * sizeof(T));
            __syncthreads(); /* the next chunk's copy in may give an element to another thread */
        }
    }
}

/* --------------------------------------------------------------------------------- by writing */

/*
 * Packs that a thread of two_shot has in its hands, of all ranks sixteen: it has the registers, and
 * few threads with many loads each do better than many with few. For many ranks there are no such
 * loops: what must be known of each would fill the registers.
 */
template <typename T, int R> using two_shot_block = staged<T, R, R == 2 ? 8 : R == 4 ? 4 : 0>;

/* What has come of my share, into everyone's `out`: whole packs, aligned. */
template <typename T, int R>
SYMM_DEV void reduce_whole_to_all(const two_shot_block<T, R> &block, uint64_t c)
{
    const symm_view &v = block.v;
    symm_bits16 *const out = block.whole_at(c, static_cast<symm_bits16 *>(block.a.out), v.rank);

    block.sums_whole(c, [&](uint32_t i, const symm_bits16 &y) {
#pragma unroll
        for (int k = 1; k < R; k++)
            symm_dev_store_bits(symm_dev_peer(v, out + i, v.rank ^ k), y);
        symm_dev_store_bits(out + i, y);
    });
}

/* What has come of my share, to everyone: into `out`, or into the results area on the way to it. */
template <typename T, int R>
SYMM_DEV void reduce_to_all(const two_shot_block<T, R> &block, uint64_t c, bool direct)
{
    const symm_collective_args &a = block.a;
    const symm_view &v = a.view;
    const share<T> out = share_of(a, static_cast<T *>(a.out), v.rank);
    symm_bits16 *const results = block.slot(block.results, c, v.rank);

    if constexpr (two_shot_block<T, R>::WHOLE)
        if (direct && a.whole)
            return reduce_whole_to_all<T, R>(block, c);
    block.each_pack(c, [&](uint32_t i, uint64_t p) {
        if (p * PACK<T> >= out.count)
            return;
        const symm_bits16 y = block.sum(c, i, p);
        for_others<R>(v, [&](int r) {
            if (direct)
                store_pack(symm_dev_peer(v, out.first, r), p, out.count, y);
            else
                symm_dev_store_bits(symm_dev_peer(v, results + i, r), y);
        });
        store_pack(out.first, p, out.count, y);
    });
}

/*
 * Results that peers cannot write where they belong are on their way while LEAD + 1 more chunks are
 * taken. Whoever stages those of chunk c has heard that every rank has pushed c, hence copied out
 * those of c - DEPTH. Other ranks may still copy out the last ones when this one is in the next
 * call: that is why the areas are apart.
 */
template <typename T, int R> SYMM_DEV void reduce_by_writing(const symm_collective_args &a)
{
    constexpr uint64_t LAG = SYMM_STAGING_LEAD + 1;
    const two_shot_block<T, R> block(a);
    const uint64_t n = block.nchunks();
    const uint32_t entry = call_and_place(a);
    bool direct = false;

    if (n == 0)
        return;
    const bool done = exchange(
        block,
        [&](uint64_t c) {
            block.scatter(c);
            if (c == 0)
                symm_dev_arrive_both(a.view, a.pad, enter_channel(a), entry, a.call);
            else
                block.arrive();
        },
        [&](uint64_t c) {
            if (c)
                return block.heard();
            const bool well =
                symm_dev_wait_all_both(a.view, a.pad, enter_channel(a), entry, a.call, &direct);
            direct &= a.place != 0;
            return well;
        },
        [&](uint64_t c) {
            reduce_to_all<T, R>(block, c, direct);
            if (!direct && c >= LAG)
                block.copy_out(block.results, c - LAG);
        });
    for (uint64_t c = n > LAG ? n - LAG : 0; done && !direct && c < n; c++)
        block.copy_out(block.results, c);
}

/* ---------------------------------------------------------------------------------- the kernels */

template <typename T, int R> SYMM_DEV void all_reduce_low_latency(const symm_collective_args &a)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    exchange_packets<reduce_everything<T, R>>(a);
}

template <typename T, int R>
SYMM_DEV void all_reduce_low_latency_two_shot(const symm_collective_args &a)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    exchange_packets<reduce_shares<T, R, true>>(a);
}

template <typename T, int R> SYMM_DEV void all_reduce_one_shot(const symm_collective_args &a)
{
    all_reduce_by_reading<unicast<T, R>, false, T>(a);
}

template <typename T, int R> SYMM_DEV void all_reduce_two_shot(const symm_collective_args &a)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    reduce_by_writing<T, R>(a);
}

template <typename T> SYMM_DEV void all_reduce_multimem(const symm_collective_args &a)
{
    all_reduce_by_reading<multimem<T>, true, T>(a);
}

template <typename T> SYMM_DEV void all_reduce_multimem_one_shot(const symm_collective_args &a)
{
    all_reduce_by_reading<multimem<T>, false, T>(a);
}

#endif
