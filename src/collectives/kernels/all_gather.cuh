/*
 * All-gather by loads and stores. T: bytes, for every dtype.
 *
 * low_latency  every rank sends its bytes to all others as packets. Any memory; no barrier.
 * one_shot     every rank writes its bytes into `out` of all ranks, or, if that is impossible, into
 *              their staging areas.
 */
#ifndef SYMM_ALL_GATHER_KERNELS_CUH
#define SYMM_ALL_GATHER_KERNELS_CUH

#include "packets.cuh"
#include "staging.cuh"

/* low_latency as a Step of exchange_packets(): this rank's bytes to all ranks. */
template <typename T, int R> struct gather_shares {
    static constexpr int AT_ONCE = PACKETS_AT_ONCE<R>;
    typedef symm_bits12 held;

    const symm_collective_args &a;
    const payloads<const T> in;
    const share_units<T, true, symm_collective_args> out;

    SYMM_DEV_IN_CLASS gather_shares(const symm_collective_args &args, const symm_collective_args &d,
                                    uint64_t at, uint32_t n)
        : a(args), in(payloads_at(static_cast<const T *>(d.in), args.own, at, n)),
          out{d, static_cast<T *>(d.out), at, n}
    {
    }

    template <int U> SYMM_DEV_IN_CLASS void load(const packet_batch &b, held (&own)[U]) const
    {
#pragma unroll
        for (int u = 0; u < U; u++)
            own[u] = load_payload(in, b.at(u));
    }

    template <int U> SYMM_DEV_IN_CLASS void load_own(const packet_batch &, held (&)[U]) const
    {
    }

    template <int U>
    SYMM_DEV_IN_CLASS void send(const packet_slots &s, const packet_batch &b,
                                const held (&own)[U]) const
    {
        const payloads<T> mine = out.of(a.view.rank);
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (b.has(u))
                send_all<R>(a.view, s, 0, a.capacity, b.at(u), own[u]);
            if (mine.first != in.first)
                store_payload(mine, b.at(u), own[u]);
        }
    }

    template <int U>
    SYMM_DEV_IN_CLASS void take(packet_slots &s, const packet_batch &b, const held (&)[U]) const
    {
        receive_shares<T, R, U>(a, s, 0, out, b);
    }

    template <int U>
    SYMM_DEV_IN_CLASS void finish(packet_slots &, const packet_batch &, const held (&)[U]) const
    {
    }
};

template <typename T, int R> SYMM_DEV void all_gather_low_latency(const symm_collective_args &a)
{
    exchange_packets<gather_shares<T, R>>(a);
}

/* ------------------------------------------------------------------------------------- in place */

/* Stores a pack at the same place in every other rank's memory. */
template <int R> struct to_each {
    static constexpr bool OWN = false;

    SYMM_DEV void store(const symm_view &v, void *at, const symm_bits16 &x)
    {
        for_others<R>(v, [&](int r) { symm_dev_store_bits(symm_dev_peer(v, at, r), x); });
    }
};

/* Calls f(place, pack) for this thread's packs of a part, U loads in flight. */
template <int U, typename T, typename F>
SYMM_DEV void each_loaded(const T *in, uint64_t count, const block_part &part, const F &f)
{
    for_packs<U>(part.first, part.last, [&](uint64_t i, auto batch) {
        constexpr int N = decltype(batch)::COUNT;
        const uint64_t step = blockDim.x;
        symm_bits16 x[N];
#pragma unroll
        for (int u = 0; u < N; u++)
            x[u] = load_pack(in, i + u * step, count);
#pragma unroll
        for (int u = 0; u < N; u++)
            f(i + u * step, x[u]);
    });
}

/* Writes this block's packs to `out` of all ranks. Shares are whole packs. */
template <typename T, typename Sink, int R, typename From>
SYMM_DEV void write_share(const symm_collective_args &a, const block_part &part)
{
    constexpr uint64_t MANY = 4096;
    const T *const in = static_cast<const T *>(a.in);
    T *const out = share_of(a, static_cast<T *>(a.out), From::share_number(a.view.rank)).first;
    const bool copies = !Sink::OWN && out != in;

    if (Sink::OWN || R <= 2 || part.last - part.first <= MANY)
        return each_loaded<4>(in, a.own, part, [&](uint64_t i, const symm_bits16 &x) {
            Sink::store(a.view, out + i * PACK<T>, x);
            if (copies)
                symm_dev_store_bits(out + i * PACK<T>, x);
        });
    /* To one rank after the other: that fills the links better than alternately. */
    for_others<R>(a.view, [&](int r) {
        T *const to = symm_dev_peer(a.view, out, r);
        const bool copies_now = copies && r == other_rank<R>(a.view, 1);
        each_loaded<8>(in, a.own, part, [&](uint64_t i, const symm_bits16 &x) {
            symm_dev_store_bits(to + i * PACK<T>, x);
            if (copies_now)
                symm_dev_store_bits(out + i * PACK<T>, x);
        });
    });
}

/*
 * The ranks that send by From write their shares into `out` of all ranks. In place, two barriers
 * tell the ranks that `out` may be written, and that it has been.
 */
template <typename T, typename Sink, int R, typename From = from_each>
SYMM_DEV void gather_by_writing(const symm_collective_args &a)
{
    const staged<T, R> block(a);
    const T *const in = static_cast<const T *>(a.in);
    const share<T> own = share_of(a, static_cast<T *>(a.out), From::share_number(a.view.rank));
    const bool sends = From::sends(a);

    if (block.nchunks() == 0)
        return;
    if (symm_dev_barrier_test_equal(a.view, a.pad, enter_channel(a), call_and_place(a)) &&
        a.place) {
        if (sends)
            write_share<T, Sink, R, From>(a, block.part);
        symm_dev_barrier(a.view, a.pad, leave_channel(a));
        return;
    }
    /* All ranks come here, or none: from now on each accesses its own `in` and `out` only. */
    exchange(
        block,
        [&](uint64_t c) {
            if (!sends)
                return;
            block.each_pack(c, [&](uint32_t i, uint64_t p) {
                const symm_bits16 x = load_pack(in, p, a.own);
                Sink::store(a.view, block.slot(block.chunks, c, a.view.rank) + i, x);
                if (own.first != in)
                    store_pack(own.first, p, own.count, x);
            });
        },
        [&](uint64_t c) { block.template copy_out<From>(block.chunks, c); });
}

template <typename T, int R> SYMM_DEV void all_gather_one_shot(const symm_collective_args &a)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    gather_by_writing<T, to_each<R>, R>(a);
}

#endif
