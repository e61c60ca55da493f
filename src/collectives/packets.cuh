/*
 * Exchange by packets: data and readiness in one message, no barrier before or after. Each block
 * has slots of its own in the group's packet area, two sets of them by turns, and counts its epochs
 * on the device. A slot belongs to one block for ever, whatever the calls, so a packet of an
 * earlier epoch is never taken for one of now; and since slots may lie unused while the counter
 * goes round, they are cleared when it does.
 */
#ifndef SYMM_PACKETS_CUH
#define SYMM_PACKETS_CUH

#include "parts.cuh"

/* A block's slots, and the set of this epoch. */
struct packet_slots {
    symm_packet *all, *set;
    uint32_t nslots; /* of both sets */
    uint32_t epoch;  /* 0: this thread has heard of an abort, and sends nothing any more */
};

SYMM_DEV packet_slots slots_of(const symm_collective_args &a)
{
    return {a.packets + (uint64_t)blockIdx.x * a.block_packets, nullptr, a.block_packets, 0};
}

SYMM_DEV void next_epoch(const symm_view &v, symm_signal_pad *pad, int channel, packet_slots &s)
{
    s.epoch = symm_dev_epoch(v, pad, channel);
    s.set = s.all + (s.epoch & 1) * (s.nslots / 2);
    if (__builtin_expect(
            s.epoch == 2,
            0)) { /* the counter has gone round, or has only begun, which does no harm */
        for (uint32_t i = threadIdx.x; i < s.nslots; i += blockDim.x)
            symm_dev_store_bits(&s.all[i], symm_bits16{});
        symm_dev_barrier(v, pad, channel);
    }
}

/*
 * The elements of some packets, one after the other, in this rank's own memory: any of it. Made
 * once for many packets, since 64-bit sums for each of them would be noticed.
 */
template <typename T> struct payloads {
    T *first;
    uint32_t count; /* elements, of which the last packet may have fewer than others */
    bool words; /* words of 4 bytes, and aligned: then a packet that is not whole is no exception */
};

/* Of `units` packets from number `unit` on, of `count` elements at p. */
template <typename T>
SYMM_DEV payloads<T> payloads_at(T *p, uint64_t count, uint64_t unit, uint32_t units)
{
    const uint64_t off = min(unit * PACKET<T>, count);
    const uint32_t n = (uint32_t)min(count - off, (uint64_t)units * PACKET<T>);
    return {p + off, n,
            sizeof(T) >= 4 ||
                (reinterpret_cast<uintptr_t>(p + off) % 4 == 0 && n * sizeof(T) % 4 == 0)};
}

/* Words of a packet of T that are elements. */
template <typename T> constexpr uint32_t PACKET_WORDS = PACKET<T> * sizeof(T) / 4;

template <typename T> SYMM_DEV symm_bits12 load_payload(const payloads<const T> &p, uint32_t i)
{
    constexpr uint32_t N = PACKET<T>, WORDS = PACKET_WORDS<T>;
    symm_bits12 x = {};
    if (__builtin_expect(p.words, 1)) {
        const uint32_t *const at = reinterpret_cast<const uint32_t *>(p.first);
        const uint32_t nwords = (uint32_t)(p.count * sizeof(T) / 4);
#pragma unroll
        for (uint32_t w = 0; w < WORDS; w++)
            if (i * WORDS + w < nwords)
                x.w[w] = symm_dev_load_one(at + i * WORDS + w);
        return x;
    }
    T e[12 / sizeof(T)] = {};
#pragma unroll 1 /* it is the exception: few registers matter more */
    for (uint32_t k = 0; k < N && i * N + k < p.count; k++)
        e[k] = symm_dev_load_one(p.first + i * N + k);
    __builtin_memcpy(&x, e, sizeof e);
    return x;
}

template <typename T>
SYMM_DEV void store_payload(const payloads<T> &p, uint32_t i, const symm_bits12 &x)
{
    constexpr uint32_t N = PACKET<T>, WORDS = PACKET_WORDS<T>;
    if (__builtin_expect(p.words, 1)) {
        uint32_t *const at = reinterpret_cast<uint32_t *>(p.first);
        const uint32_t nwords = (uint32_t)(p.count * sizeof(T) / 4);
#pragma unroll
        for (uint32_t w = 0; w < WORDS; w++)
            if (i * WORDS + w < nwords)
                symm_dev_store_one(at + i * WORDS + w, x.w[w]);
        return;
    }
    T e[12 / sizeof(T)];
    __builtin_memcpy(e, &x, sizeof e);
#pragma unroll 1
    for (uint32_t k = 0; k < N && i * N + k < p.count; k++)
        symm_dev_store_one(p.first + i * N + k, e[k]);
}

/* Sends x to all other ranks: packet i of my part of their set, in which each rank has `room`. */
template <int R>
SYMM_DEV void send_all(const symm_view &v, const packet_slots &s, uint32_t first, uint32_t room,
                       uint32_t i, const symm_bits12 &x)
{
    symm_packet *const slot = s.set + first + v.rank * room + i;
    if constexpr (R == 0) {
        for (int r = 1; r < v.nranks; r++)
            symm_dev_send16(v, slot, x, s.epoch, (v.rank + r) % v.nranks);
    } else {
#pragma unroll
        for (int r = 1; r < R; r++)
            symm_dev_send16(v, slot, x, s.epoch, v.rank ^ r);
    }
}

/* Receives what rank `from` has put into slot number `at` of the set. */
SYMM_DEV symm_bits12 receive_one(const symm_view &v, packet_slots &s, uint32_t at, int from)
{
    symm_bits12 x[1];
    if (!symm_dev_recv16_all<1>(v, {s.set + at}, s.epoch, {from}, x))
        s.epoch = 0;
    return x[0];
}

/* Receives packet i of every other rank: x[r] from rank v.rank ^ r; x[0] is left alone. */
template <int R>
SYMM_DEV void receive_all(const symm_view &v, packet_slots &s, uint32_t first, uint32_t room,
                          uint32_t i, symm_bits12 (&x)[R])
{
    const symm_packet *slots[R - 1];
    int from[R - 1];
    symm_bits12 got[R - 1];
#pragma unroll
    for (int r = 1; r < R; r++) {
        from[r - 1] = v.rank ^ r;
        slots[r - 1] = s.set + first + (v.rank ^ r) * room + i;
    }
    if (!symm_dev_recv16_all(v, slots, s.epoch, from, got))
        s.epoch = 0;
#pragma unroll
    for (int r = 1; r < R; r++)
        x[r] = got[r - 1];
}

/* What all ranks' packets i come to, with `own` as this rank's. */
template <typename T, int R>
SYMM_DEV symm_bits12 receive_and_reduce(const symm_view &v, packet_slots &s, uint32_t first,
                                        uint32_t room, uint32_t i, const symm_bits12 &own,
                                        uint32_t op)
{
    if constexpr (R == 0) {
        elements<T> sum;
        symm_bits12 y;
        for (int r = 0; r < v.nranks; r++) {
            const symm_bits12 x = r == v.rank ? own : receive_one(v, s, first + r * room + i, r);
            if (r == 0)
                sum = unpack<T>(x);
            else
                fold(sum, unpack<T>(x), op);
        }
        finish(sum, op, v.nranks);
        pack(sum, &y);
        return y;
    } else {
        symm_bits12 x[R];
        x[0] = own;
        receive_all(v, s, first, room, i, x);
        return reduce_all<T>(x, v.rank, op);
    }
}

/*
 * A block's part of an exchange, a Step at a time: the n units from number `at` on, which its slots
 * hold. For its own packets i a thread calls load(i) and, in the next epoch, send(i); then take(i),
 * which receives; then finish(i), which receives what others have sent in theirs. Where it has many
 * packets, load_own(i) brings back what take(i) needs of what it has loaded.
 *
 * With a packet for each thread at most, as calls have that are small, there are no loops: they
 * would be noticed.
 */
template <typename Step> SYMM_DEV void exchange_packets(const symm_collective_args &a)
{
    const block_part part = part_of(a);
    const int channel = enter_channel(a);
    packet_slots s = slots_of(a);

    if (part.last - part.first <= min(blockDim.x, a.room)) {
        const uint32_t n = (uint32_t)(part.last - part.first), i = threadIdx.x;
        Step step(a, part.first, n);
        if (i < n)
            step.load(i); /* while the epoch comes */
        next_epoch(a.view, a.pad, channel, s);
        if (i < n) {
            step.send(s, i);
            step.take(s, i);
            step.finish(s, i);
        }
        return;
    }
    for (uint64_t at = part.first; at < part.last; at += a.room) {
        const uint32_t n = (uint32_t)min((uint64_t)a.room, part.last - at);
        Step step(a, at, n);
        if (threadIdx.x < n)
            step.load(threadIdx.x);
        next_epoch(a.view, a.pad, channel, s);
        for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
            if (i != threadIdx.x)
                step.load(i);
            step.send(s, i);
        }
        for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
            if (n > blockDim.x)
                step.load_own(i);
            step.take(s, i);
        }
        for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
            step.finish(s, i);
    }
}

/* Of a buffer of all ranks' shares, the same n units of each of them. */
template <typename T> struct share_units {
    const symm_collective_args &a;
    T *all;
    uint64_t at;
    uint32_t n;

    SYMM_DEV_IN_CLASS payloads<T> of(int rank) const
    {
        const share<T> s = share_of(a, all, rank);
        return payloads_at(s.first, s.count, at, n);
    }
};

/* What every other rank has sent as packet i of its share, to its place in `out`. */
template <typename T, int R>
SYMM_DEV void receive_shares(packet_slots &s, uint32_t first, const share_units<T> &out, uint32_t i)
{
    const symm_view &v = out.a.view;
    const uint32_t room = out.a.room;

    if constexpr (R > 0) {
        symm_bits12 x[R];
        receive_all(v, s, first, room, i, x);
#pragma unroll
        for (int k = 1; k < R; k++)
            store_payload(out.of(v.rank ^ k), i, x[k]);
    }
    for (int k = 1; R == 0 && k < v.nranks; k++) {
        const int r = other_rank<R>(v, k);
        store_payload(out.of(r), i, receive_one(v, s, first + r * room + i, r));
    }
}

/*
 * One unit of each share to the rank that reduces it. With TO_ALL that sends what it comes to to
 * all: in each set the first half of the slots is for contributions, the second for results. Units
 * beyond the last are sent as well, as zeros.
 */
template <typename T, int R, bool TO_ALL> struct reduce_shares {
    const symm_collective_args &a;
    const symm_view &v;
    const share_units<const T> in;
    const share_units<T> out;
    payloads<const T> own_in, others_in[R ? R : 1]; /* others_in[k]: of rank v.rank ^ k's share */
    payloads<T> own_out;
    symm_bits12 own, others[R ? R : 1];

    SYMM_DEV_IN_CLASS reduce_shares(const symm_collective_args &args, uint64_t at, uint32_t n)
        : a(args), v(args.view), in{args, static_cast<const T *>(args.in), at, n},
          out{args, static_cast<T *>(args.out), at, n}, own()
    {
        own_in = in.of(v.rank);
#pragma unroll
        for (int k = 1; k < R; k++)
            others_in[k] = in.of(v.rank ^ k);
        own_out = TO_ALL ? out.of(v.rank) : payloads_at(out.all, a.stride, at, n);
    }

    SYMM_DEV_IN_CLASS void load(uint32_t i)
    {
        load_own(i);
#pragma unroll
        for (int k = 1; k < R; k++)
            others[k] = load_payload(others_in[k], i);
    }

    SYMM_DEV_IN_CLASS void load_own(uint32_t i)
    {
        own = load_payload(own_in, i);
    }

    SYMM_DEV_IN_CLASS void send(const packet_slots &s, uint32_t i) const
    {
        symm_packet *const slot = s.set + v.rank * a.room + i;
#pragma unroll
        for (int k = 1; k < R; k++)
            symm_dev_send16(v, slot, others[k], s.epoch, v.rank ^ k);
        for (int k = 1; R == 0 && k < v.nranks; k++) {
            const int r = other_rank<R>(v, k);
            symm_dev_send16(v, slot, load_payload(in.of(r), i), s.epoch, r);
        }
    }

    SYMM_DEV_IN_CLASS void take(packet_slots &s, uint32_t i) const
    {
        const symm_bits12 y = receive_and_reduce<T, R>(v, s, 0, a.room, i, own, a.op);
        if (TO_ALL)
            send_all<R>(v, s, s.nslots / 4, a.room, i, y);
        store_payload(own_out, i, y);
    }

    SYMM_DEV_IN_CLASS void finish(packet_slots &s, uint32_t i) const
    {
        if (TO_ALL)
            receive_shares<T, R>(s, s.nslots / 4, out, i);
    }
};

#endif
