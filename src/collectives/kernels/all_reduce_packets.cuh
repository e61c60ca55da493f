/*
 * All-reduce by packets. Any memory; no barrier.
 *
 * low_latency           every rank sends all of its elements to all others and reduces what comes.
 * low_latency_two_shot  the same by shares: rank r reduces share r and sends the result to all.
 */
#ifndef SYMM_ALL_REDUCE_PACKETS_CUH
#define SYMM_ALL_REDUCE_PACKETS_CUH

#include "packets.cuh"

/* low_latency as a Step of exchange_packets(): all elements to all ranks. */
template <typename T, int R> struct reduce_everything {
    static constexpr int AT_ONCE = 1; /* more polls would delay the packets that they wait for */
    typedef symm_bits12 held;

    const symm_collective_args &a;
    const payloads<const T> in;
    const payloads<T> out;

    template <typename Data>
    SYMM_DEV_IN_CLASS reduce_everything(const symm_collective_args &args, const Data &d,
                                        uint64_t at, uint32_t n)
        : a(args), in(payloads_at(static_cast<const T *>(d.in), d.count, at, n)),
          out(payloads_at(static_cast<T *>(d.out), d.count, at, n))
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
                send_all<R>(a.view, s, 0, a.capacity, b.at(u), own[u]);
    }

    template <int U>
    SYMM_DEV_IN_CLASS void take(packet_slots &s, const packet_batch &b, const held (&own)[U]) const
    {
        symm_bits12 y[U];
        receive_and_reduce<T, R>(a.view, s, 0, a.capacity, b, own, a.op, y);
#pragma unroll
        for (int u = 0; u < U; u++)
            store_payload(out, b.at(u), y[u]);
    }

    template <int U>
    SYMM_DEV_IN_CLASS void finish(packet_slots &, const packet_batch &, const held (&)[U]) const
    {
    }
};

template <typename T, int R> SYMM_DEV void all_reduce_low_latency(const symm_collective_args &a)
{
    exchange_packets<reduce_everything<T, R>>(a);
}

template <typename T, int R>
SYMM_DEV void all_reduce_low_latency_two_shot(const symm_collective_args &a)
{
    exchange_packets<reduce_shares<T, R, true>>(a);
}

#endif
