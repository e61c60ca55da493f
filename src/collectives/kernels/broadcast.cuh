/*
 * Broadcast by loads and stores: the root's elements to all ranks. T: bytes, for every dtype.
 *
 * low_latency  the root sends its bytes to all others as packets, and every other rank one packet,
 *              to all. Any memory; no barrier.
 * one_shot     the root writes its bytes into `out` of all ranks, or, if that is impossible, into
 *              their staging areas. The steps are those of an all-gather in which one rank sends.
 */
#ifndef SYMM_BROADCAST_KERNELS_CUH
#define SYMM_BROADCAST_KERNELS_CUH

#include "all_gather.cuh"

/* The root alone sends, and its share is all of `out`. */
struct from_root {
    SYMM_DEV bool sends(const symm_collective_args &a)
    {
        return a.view.rank == a.root;
    }

    SYMM_DEV int share_number(int)
    {
        return 0;
    }

    template <int R, typename F>
    SYMM_DEV void for_senders(const symm_collective_args &a, const F &f)
    {
        if (!sends(a))
            f(a.root);
    }
};

/*
 * low_latency as a Step of exchange_packets(). The slots may be used again two epochs later because
 * each rank hears of every other one in each epoch (docs/collectives.md). So every rank sends its
 * packet 0 to all others and waits for theirs. Packet 0 of a rank other than the root has no
 * elements.
 */
template <typename T, int R> struct broadcast_packets {
    static constexpr int AT_ONCE = PACKETS_AT_ONCE<2>; /* a rank receives from one other rank */
    typedef symm_bits12 held;

    const symm_collective_args &a;
    const bool is_root;
    const payloads<const T> in; /* of the root */
    const payloads<T> out;

    SYMM_DEV_IN_CLASS broadcast_packets(const symm_collective_args &args,
                                        const symm_collective_args &d, uint64_t at, uint32_t n)
        : a(args), is_root(from_root::sends(args)),
          in(is_root ? payloads_at(static_cast<const T *>(d.in), d.count, at, n)
                     : payloads<const T>{nullptr, 0, true}),
          out(payloads_at(static_cast<T *>(d.out), d.count, at, n))
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
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (b.has(u) && (is_root || b.at(u) == 0))
                send_all<R>(a.view, s, 0, a.capacity, b.at(u), own[u]);
            if (is_root && out.first != in.first)
                store_payload(out, b.at(u), own[u]);
        }
    }

    template <int U>
    SYMM_DEV_IN_CLASS void take(packet_slots &s, const packet_batch &b, const held (&)[U]) const
    {
        if (!is_root) {
            symm_bits12 x[U];
            receive_from(a.view, s, a.root * a.capacity, b, a.root, x);
#pragma unroll
            for (int u = 0; u < U; u++)
                store_payload(out, b.at(u), x[u]);
        }
        if (b.first == 0)
            hear_of_all<R>(a.view, s, a.capacity);
    }

    template <int U>
    SYMM_DEV_IN_CLASS void finish(packet_slots &, const packet_batch &, const held (&)[U]) const
    {
    }
};

template <typename T, int R> SYMM_DEV void broadcast_low_latency(const symm_collective_args &a)
{
    exchange_packets<broadcast_packets<T, R>>(a);
}

template <typename T, int R> SYMM_DEV void broadcast_one_shot(const symm_collective_args &a)
{
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    gather_by_writing<T, to_each<R>, R, from_root>(a);
}

#endif
