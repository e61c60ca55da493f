/*
 * Exchange by packets: data and flag in one message, without barriers. Each block has its own slots
 * in the group's packet area, in two sets that it uses alternately, and counts its epochs on the
 * device. The upper half of a flag is the epoch, the lower half the call. So a rank never takes a
 * packet of another call, nor one of an earlier epoch, because a slot always belongs to the same
 * block. The upper half wraps around while slots may lie unused, so they are cleared when it does.
 */
#ifndef SYMM_PACKETS_CUH
#define SYMM_PACKETS_CUH

#include "parts.cuh"
#include "runtime/group/packet_call.h"

/* A block's slots, and the set of this epoch. */
struct packet_slots {
    symm_packet *all, *set;
    uint32_t nslots; /* of both sets */
    uint32_t flag;   /* 0: this thread has heard of an abort, and sends nothing more */
};

SYMM_DEV packet_slots slots_of(const symm_collective_args &a)
{
    return {a.packets + (uint64_t)blockIdx.x * a.block_packets, nullptr, a.block_packets, 0};
}

/*
 * Begins the next epoch. The upper half of the flag is the epoch minus 2. It is 0 in the block's
 * first epochs, whenever it wraps around, and when the counter does (to 2): then the slots are
 * cleared. The lowest bit of the epoch selects the set.
 */
SYMM_DEV void next_epoch(const symm_collective_args &a, int channel, packet_slots &s)
{
    const uint32_t epoch = symm_dev_epoch(a.view, a.pad, channel);
    const uint32_t epoch_bits = (epoch - 2) << SYMM_PACKET_CALL_BITS;
    s.flag = epoch ? epoch_bits | a.call : 0;
    s.set = s.all + (epoch & 1) * (s.nslots / 2);
    if (__builtin_expect(epoch_bits == 0, 0)) {
        for (uint32_t i = threadIdx.x; i < s.nslots; i += blockDim.x)
            symm_dev_store_bits(&s.all[i], symm_bits16{});
        symm_dev_barrier(a.view, a.pad, channel);
    }
}

/*
 * The elements of some consecutive packets, in any memory of this rank. Made once for many packets,
 * because 64-bit additions for each packet would be noticeable.
 */
template <typename T> struct payloads {
    T *first;
    uint32_t count; /* elements; the last packet may have fewer than the others */
    bool words;     /* aligned words of 4 bytes: an incomplete packet needs no special case */
};

/* The packets unit, unit + 1, ... (`units` of them) of `count` elements at p. */
template <typename T>
SYMM_DEV payloads<T> payloads_at(T *p, uint64_t count, uint64_t unit, uint32_t units)
{
    const uint64_t off = min(unit * PACKET<T>, count);
    const uint32_t n = (uint32_t)min(count - off, (uint64_t)units * PACKET<T>);
    return {p + off, n,
            sizeof(T) >= 4 ||
                (reinterpret_cast<uintptr_t>(p + off) % 4 == 0 && n * sizeof(T) % 4 == 0)};
}

/* Words of a packet of T that hold elements. */
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

/* Sends x to all other ranks: packet i of this rank's `capacity` slots in their set. */
template <int R>
SYMM_DEV void send_all(const symm_view &v, const packet_slots &s, uint32_t first, uint32_t capacity,
                       uint32_t i, const symm_bits12 &x)
{
    symm_packet *const slot = s.set + first + v.rank * capacity + i;
    if constexpr (R == 0) {
        for (int r = 1; r < v.nranks; r++)
            symm_dev_send16(v, slot, x, s.flag, (v.rank + r) % v.nranks);
    } else {
#pragma unroll
        for (int r = 1; r < R; r++)
            symm_dev_send16(v, slot, x, s.flag, v.rank ^ r);
    }
}

/* Receives a packet of rank `from` from slot `at` of the set. */
SYMM_DEV symm_bits12 receive_one(const symm_view &v, packet_slots &s, uint32_t at, int from)
{
    symm_bits12 x[1];
    if (!symm_dev_recv16_all<1>(v, {s.set + at}, s.flag, {from}, x))
        s.flag = 0;
    return x[0];
}

/*
 * Packets that a thread handles at a time, so that their loads and polls are in flight together:
 * about as many as eight ranks send to it.
 */
template <int R> constexpr int PACKETS_AT_ONCE = R ? 8 / R : 1;

/* Those packets: first, first + step, ... of n. `first` is less than n. */
struct packet_batch {
    uint32_t first, step, n;

    SYMM_DEV_IN_CLASS uint32_t at(int u) const
    {
        return first + u * step;
    }

    SYMM_DEV_IN_CLASS bool has(int u) const
    {
        return at(u) < n;
    }
};

/*
 * Receives a batch from every other rank: x[u][r] from rank v.rank ^ r. Does not set x[u][0].
 * Packets beyond the last one are garbage.
 */
template <int R, int U>
SYMM_DEV void receive_all(const symm_view &v, packet_slots &s, uint32_t first, uint32_t capacity,
                          const packet_batch &b, symm_bits12 (&x)[U][R])
{
    const symm_packet *slots[U * (R - 1)];
    int from[U * (R - 1)];
    symm_bits12 got[U * (R - 1)];
#pragma unroll
    for (int u = 0; u < U; u++) {
#pragma unroll
        for (int r = 1; r < R; r++) {
            from[u * (R - 1) + r - 1] = v.rank ^ r;
            slots[u * (R - 1) + r - 1] =
                s.set + first + (v.rank ^ r) * capacity + (b.has(u) ? b.at(u) : b.first);
        }
    }
    if (!symm_dev_recv16_all(v, slots, s.flag, from, got))
        s.flag = 0;
#pragma unroll
    for (int u = 0; u < U; u++) {
#pragma unroll
        for (int r = 1; r < R; r++)
            x[u][r] = got[u * (R - 1) + r - 1];
    }
}

/* Receives a batch from rank `from`. Packets beyond the last one are garbage. */
template <int U>
SYMM_DEV void receive_from(const symm_view &v, packet_slots &s, uint32_t first,
                           const packet_batch &b, int from, symm_bits12 (&x)[U])
{
    const symm_packet *slots[U];
    int ranks[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
        ranks[u] = from;
        slots[u] = s.set + first + (b.has(u) ? b.at(u) : b.first);
    }
    if (!symm_dev_recv16_all(v, slots, s.flag, ranks, x))
        s.flag = 0;
}

/* Waits for packet 0 of every other rank. */
template <int R> SYMM_DEV void hear_of_all(const symm_view &v, packet_slots &s, uint32_t capacity)
{
    if constexpr (R > 0) {
        symm_bits12 x[1][R];
        receive_all(v, s, 0, capacity, {0, 0, 1}, x);
    } else {
        for_others<R>(v, [&](int r) { receive_one(v, s, r * capacity, r); });
    }
}

/* Reduces the packets of all ranks to y[u]. own[u] is this rank's. */
template <typename T, int R, int U>
SYMM_DEV void receive_and_reduce(const symm_view &v, packet_slots &s, uint32_t first,
                                 uint32_t capacity, const packet_batch &b,
                                 const symm_bits12 (&own)[U], uint32_t op, symm_bits12 (&y)[U])
{
    if constexpr (R == 0) {
        static_assert(U == 1, "a loop over the ranks has one packet at a time");
        y[0] = reduce_ranks<T>(v.nranks, op, v.rank, own[0], [&](int r) {
            return receive_one(v, s, first + r * capacity + b.first, r);
        });
    } else {
        symm_bits12 x[U][R];
        receive_all(v, s, first, capacity, b, x);
#pragma unroll
        for (int u = 0; u < U; u++) {
            x[u][0] = own[u];
            y[u] = reduce_all<T>(x[u], v.rank, op);
        }
    }
}

/*
 * A block's part of an exchange, one Step for each n units from `at` on that its slots hold. For
 * each batch of its packets a thread calls load(); in the next epoch send(); then take(), which
 * receives; then finish(), which receives what other ranks have sent in take(). A Step::held keeps
 * a packet from load() to take(). If a thread has several batches, load_own() loads again what
 * take() needs. meanwhile() runs behind the first sends. The kernel's symm_dev_pdl_wait() is here,
 * behind the first addresses.
 *
 * If each thread has at most one packet, as in small calls, there are no loops: they would be
 * noticeable.
 */
template <typename Step, typename Data, typename Meanwhile>
SYMM_DEV void exchange_packets(const symm_collective_args &a, const Data &data,
                               const block_part &part, const Meanwhile &meanwhile)
{
    constexpr int U = Step::AT_ONCE;
    const int channel = enter_channel(a);
    const uint32_t step = blockDim.x;
    packet_slots s = slots_of(a);

    if (part.last - part.first <= min(step, a.capacity)) {
        const packet_batch b = {threadIdx.x, step, (uint32_t)(part.last - part.first)};
        typename Step::held h[1];
        Step work(a, data, part.first, b.n);
        symm_dev_pdl_wait();
        symm_dev_pdl_release();
        if (b.has(0))
            work.load(b, h); /* while the epoch comes */
        next_epoch(a, channel, s);
        if (b.has(0))
            work.send(s, b, h);
        meanwhile();
        if (b.has(0)) {
            work.take(s, b, h);
            work.finish(s, b, h);
        }
        return;
    }
    symm_dev_pdl_wait();
    symm_dev_pdl_release();
    for (uint64_t at = part.first; at < part.last; at += a.capacity) {
        const uint32_t n = (uint32_t)min((uint64_t)a.capacity, part.last - at);
        typename Step::held h[U];
        Step work(a, data, at, n);
        work.load({threadIdx.x, step, n}, h);
        next_epoch(a, channel, s);
        for (packet_batch b = {threadIdx.x, step, n}; b.has(0); b.first += U * step) {
            if (b.first != threadIdx.x)
                work.load(b, h);
            work.send(s, b, h);
        }
        if (at == part.first)
            meanwhile();
        for (packet_batch b = {threadIdx.x, step, n}; b.has(0); b.first += U * step) {
            if (n > U * step)
                work.load_own(b, h);
            work.take(s, b, h);
        }
        for (packet_batch b = {threadIdx.x, step, n}; b.has(0); b.first += U * step)
            work.finish(s, b, h);
    }
}

/* The same of the call's elements. */
template <typename Step> SYMM_DEV void exchange_packets(const symm_collective_args &a)
{
    exchange_packets<Step>(a, a, part_of(a), [] {});
}

/*
 * The same n units of every share in a buffer of all shares. EVEN: all shares have as many
 * elements, so that most is computed once: between the successful poll and the stores every
 * instruction is noticeable.
 */
template <typename T, bool EVEN, typename Data> struct share_units {
    const Data &a;
    payloads<T> first; /* rank 0's */

    SYMM_DEV_IN_CLASS share_units(const Data &args, T *all, uint64_t at, uint32_t n)
        : a(args), first(payloads_at(all, args.stride, at, n))
    {
        first.words &= sizeof(T) >= 4 || args.stride * sizeof(T) % 4 == 0;
    }

    SYMM_DEV_IN_CLASS payloads<T> of(int rank) const
    {
        return {first.first + (uint32_t)rank * a.stride, first.count, first.words};
    }
};

template <typename T, typename Data> struct share_units<T, false, Data> {
    const Data &a;
    T *all;
    uint64_t at;
    uint32_t n;

    SYMM_DEV_IN_CLASS payloads<T> of(int rank) const
    {
        const share<T> s = share_of(a, all, rank);
        return payloads_at(s.first, s.count, at, n);
    }
};

/* Receives a batch of every other rank's share into `out`. */
template <typename T, int R, int U, bool EVEN, typename Data>
SYMM_DEV void receive_shares(const symm_collective_args &a, packet_slots &s, uint32_t first,
                             const share_units<T, EVEN, Data> &out, const packet_batch &b)
{
    const symm_view &v = a.view;
    const uint32_t capacity = a.capacity;

    if constexpr (R > 0) {
        symm_bits12 x[U][R];
        payloads<T> to[R];
#pragma unroll
        for (int k = 1; k < R; k++)
            to[k] = out.of(v.rank ^ k); /* while the packets are on their way */
        receive_all(v, s, first, capacity, b, x);
#pragma unroll
        for (int k = 1; k < R; k++) {
#pragma unroll
            for (int u = 0; u < U; u++)
                store_payload(to[k], b.at(u), x[u][k]);
        }
    }
    for (int k = 1; R == 0 && k < v.nranks; k++) {
        const int r = other_rank<R>(v, k);
        store_payload(out.of(r), b.first, receive_one(v, s, first + r * capacity + b.first, r));
    }
}

/*
 * Sends one unit of each share to the rank that reduces it. With TO_ALL, that rank sends the
 * result to all: the first half of each set is for contributions, the second half for results.
 * Units beyond the last one are sent, too, as zeros.
 */
template <typename T, int R, bool TO_ALL, typename Data = symm_collective_args>
struct reduce_shares {
    static constexpr int AT_ONCE = TO_ALL ? PACKETS_AT_ONCE<R> : 1;
    struct held {
        symm_bits12 own, others[R ? R : 1];
    };

    const symm_collective_args &a;
    const symm_view &v;
    const share_units<const T, !TO_ALL, Data> in;
    const share_units<T, !TO_ALL, Data> out;
    payloads<const T> own_in, others_in[R ? R : 1]; /* others_in[k]: of rank v.rank ^ k's share */
    payloads<T> own_out;

    SYMM_DEV_IN_CLASS reduce_shares(const symm_collective_args &args, const Data &d, uint64_t at,
                                    uint32_t n)
        : a(args),
          v(args.view), in{d, static_cast<const T *>(d.in), at, n}, out{d, static_cast<T *>(d.out),
                                                                        at, n}
    {
        own_in = in.of(v.rank);
#pragma unroll
        for (int k = 1; k < R; k++)
            others_in[k] = in.of(v.rank ^ k);
        if constexpr (TO_ALL)
            own_out = out.of(v.rank);
        else
            own_out = payloads_at(static_cast<T *>(d.out), args.own, at, n);
    }

    template <int U> SYMM_DEV_IN_CLASS void load(const packet_batch &b, held (&h)[U]) const
    {
        load_own(b, h);
#pragma unroll
        for (int k = 1; k < R; k++) {
#pragma unroll
            for (int u = 0; u < U; u++)
                h[u].others[k] = load_payload(others_in[k], b.at(u));
        }
    }

    template <int U> SYMM_DEV_IN_CLASS void load_own(const packet_batch &b, held (&h)[U]) const
    {
#pragma unroll
        for (int u = 0; u < U; u++)
            h[u].own = load_payload(own_in, b.at(u));
    }

    template <int U>
    SYMM_DEV_IN_CLASS void send(const packet_slots &s, const packet_batch &b,
                                const held (&h)[U]) const
    {
        symm_packet *const slots = s.set + v.rank * a.capacity;
#pragma unroll
        for (int u = 0; u < U; u++) {
#pragma unroll
            for (int k = 1; k < R; k++)
                if (b.has(u))
                    symm_dev_send16(v, slots + b.at(u), h[u].others[k], s.flag, v.rank ^ k);
        }
        for (int k = 1; R == 0 && k < v.nranks; k++) {
            const int r = other_rank<R>(v, k);
            symm_dev_send16(v, slots + b.first, load_payload(in.of(r), b.first), s.flag, r);
        }
    }

    template <int U>
    SYMM_DEV_IN_CLASS void take(packet_slots &s, const packet_batch &b, const held (&h)[U]) const
    {
        symm_bits12 own[U], y[U];
#pragma unroll
        for (int u = 0; u < U; u++)
            own[u] = h[u].own;
        receive_and_reduce<T, R>(v, s, 0, a.capacity, b, own, a.op, y);
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (TO_ALL && b.has(u))
                send_all<R>(v, s, s.nslots / 4, a.capacity, b.at(u), y[u]);
            store_payload(own_out, b.at(u), y[u]);
        }
    }

    template <int U>
    SYMM_DEV_IN_CLASS void finish(packet_slots &s, const packet_batch &b, const held (&)[U]) const
    {
        if (TO_ALL)
            receive_shares<T, R, U>(a, s, s.nslots / 4, out, b);
    }
};

#endif
