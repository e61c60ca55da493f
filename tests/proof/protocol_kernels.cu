/*
 * Kernels that use one protocol of symm/device.cuh each, round after round, on data that follow
 * from salt and round, and count what they find wrong. Who writes a pack and who reads it are
 * different threads, so that the protocol must order the threads of a block, too.
 */
#define SYMM_DETAIL_TELL_AFTER 2 /* the host need not wait long for the record of a wait */
#include <symm/device.cuh>
#include "protocol_kernels.h"
#include "values.cuh"

/* ---- values ---- */

SYMM_DEV symm_bits16 value_of(uint32_t salt, uint32_t round, int from, int to, uint32_t i)
{
    const uint32_t h = mix(salt + mix(round * 4096 + (uint32_t)from * 512 + (uint32_t)to * 64 + i));
    symm_bits16 x;
    x.w[0] = h;
    x.w[1] = h * 3;
    x.w[2] = ~h;
    x.w[3] = h ^ h << 7;
    return x;
}

SYMM_DEV uint32_t differ(const symm_bits16 &x, const symm_bits16 &y)
{
    return x.w[0] != y.w[0] || x.w[1] != y.w[1] || x.w[2] != y.w[2] || x.w[3] != y.w[3];
}

/* ---- the rounds ---- */

/* One thread's view of a launch. */
struct turn {
    const proof_args &a;
    const symm_view &v;
    uint32_t salt, thread, nthreads, block, nblocks, wrong, looked;
};

SYMM_DEV turn turn_of(const proof_args &a)
{
    return {a, a.view, symm_dev_load_one(a.salt), threadIdx.x, blockDim.x, blockIdx.x, gridDim.x,
            0, 0};
}

SYMM_DEV void report(const turn &t)
{
    add_counts(t.a.result, t.wrong, t.looked);
}

/*
 * Whether the group has been aborted, so that nothing may be written to other ranks any more. Asked
 * only where a group ends: it is a __syncthreads, too, which the protocols must not need.
 */
SYMM_DEV bool stops(const turn &t)
{
    return t.a.ends && symm_dev_aborted(t.v);
}

SYMM_DEV void look(turn &t, const symm_bits16 &got, const symm_bits16 &want)
{
    t.wrong += differ(got, want);
    t.looked++;
}

SYMM_DEV char *cell(const turn &t, uint32_t block, uint32_t set, uint32_t rank, uint32_t i)
{
    return t.a.cells + 16 * (((uint64_t)(block * 2 + set) * PROOF_RANKS + rank) * PROOF_PACKS + i);
}

/* This rank's part of a round, for block `to_block` of every rank. */
SYMM_DEV void write_round(const turn &t, uint32_t to_block, uint32_t set, uint32_t round)
{
    const uint32_t rank = (uint32_t)t.v.rank;
    for (uint32_t k = t.thread; k < (uint32_t)t.v.nranks * t.a.packs; k += t.nthreads) {
        const uint32_t to = k / t.a.packs, i = k % t.a.packs;
        const symm_bits16 x = value_of(t.salt, round, (int)rank, (int)to, i);
        char *const theirs = cell(t, to_block, set, rank, i), *const mine =
                                                                  cell(t, to_block, set, to, i);
        switch (t.a.way) {
        case PROOF_PUT:
            symm_dev_store_bits(symm_dev_peer(t.v, theirs, (int)to), x);
            break;
        case PROOF_PULL:
        case PROOF_REDUCE:
            symm_dev_store_bits(mine, x);
            break;
        default: /* by turns, a pack by one rank */
            if ((to + i + round) % (uint32_t)t.v.nranks == rank)
                symm_dev_multimem_store_bits(symm_dev_multicast(t.v, mine), x);
        }
    }
}

/* What all ranks have done of it, for this block. */
SYMM_DEV void check_round(turn &t, uint32_t block, uint32_t set, uint32_t round)
{
    const uint32_t n = (uint32_t)t.v.nranks, rank = (uint32_t)t.v.rank, all = n * t.a.packs;
    for (uint32_t k = t.thread; k < all; k += t.nthreads) {
        const uint32_t j = (k + t.a.shift) % all, r = j / t.a.packs, i = j % t.a.packs;
        char *const at = cell(t, block, set, r, i);
        const uint32_t writer = (r + i + round) % n;
        symm_bits16 got, want;
        if (t.a.way == PROOF_PUT) {
            got = symm_dev_load_bits(at);
            want = value_of(t.salt, round, (int)r, (int)rank, i);
        } else if (t.a.way == PROOF_PULL) {
            got = symm_dev_load_bits(symm_dev_peer(t.v, cell(t, block, set, rank, i), (int)r));
            want = value_of(t.salt, round, (int)r, (int)rank, i);
        } else if (t.a.way == PROOF_SPREAD) {
            got = symm_dev_load_bits(at);
            want = value_of(t.salt, round, (int)writer, (int)r, i);
        } else {
            got = symm_dev_multimem_reduce<SYMM_SUM>(
                symm_dev_multicast(t.v, reinterpret_cast<uint32_t *>(at)));
            want = symm_bits16{};
            for (uint32_t q = 0; q < n; q++) {
                const uint32_t from = t.a.way == PROOF_REDUCE ? q : writer;
                const symm_bits16 x = value_of(t.salt, round, (int)from, (int)r, i);
                for (int w = 0; w < 4; w++)
                    want.w[w] += x.w[w];
            }
        }
        look(t, got, want);
    }
}

/* ---- barriers ---- */

/* Two sets of cells and one barrier a round, or one set and two. */
SYMM_KERNEL(proof_barrier, proof_args, a, 64)
{
    turn t = turn_of(a);
    const bool two = a.variant & 1;
    for (uint32_t round = 0; round < a.rounds; round++) {
        const uint32_t set = two ? round & 1 : 0;
        write_round(t, t.block, set, round);
        symm_dev_barrier(t.v, a.pad, (int)t.block);
        check_round(t, t.block, set, round);
        if (!two)
            symm_dev_barrier(t.v, a.pad, (int)t.block);
        if (stops(t))
            break;
    }
    symm_dev_barrier(t.v, a.pad, (int)t.block);
    report(t);
}

/* The barrier in two halves, with signals of another thread on the same channel in between. */
SYMM_KERNEL(proof_split, proof_args, a, 64)
{
    turn t = turn_of(a);
    const int n = t.v.nranks, after = (t.v.rank + 1) % n, before = (t.v.rank + n - 1) % n;
    const bool more = a.variant & 1, other = t.thread == t.nthreads - 1;
    for (uint32_t round = 0; round < a.rounds; round++) {
        write_round(t, t.block, round & 1, round);
        symm_dev_arrive(t.v, a.pad, (int)t.block);
        if (more && other) {
            symm_dev_signal(t.v, a.pad, (int)t.block, after);
            symm_dev_wait(t.v, a.pad, (int)t.block, before);
        }
        symm_dev_wait_all(t.v, a.pad, (int)t.block);
        check_round(t, t.block, round & 1, round);
    }
    symm_dev_barrier(t.v, a.pad, (int)t.block);
    report(t);
}

/* With a rank that differs now and then: all threads of all ranks must hear the same. */
SYMM_KERNEL(proof_agree, proof_args, a, 64)
{
    turn t = turn_of(a);
    const int ask = 2 * (int)t.block, meet = ask + 1;
    for (uint32_t round = 0; round < a.rounds; round++) {
        const uint32_t h = mix(t.salt + round);
        const bool same = h & 1;
        const uint32_t mine = h + (!same && (int)((h >> 1) % (uint32_t)t.v.nranks) == t.v.rank);
        write_round(t, t.block, 0, round);
        t.wrong += symm_dev_barrier_test_equal(t.v, a.pad, ask, mine) != same;
        check_round(t, t.block, 0, round);
        symm_dev_barrier(t.v, a.pad, meet);
    }
    report(t);
}

/* Insists on a word on `channel`, or, `both`, on the next one, agreeing on this one. */
SYMM_DEV bool insist(const turn &t, symm_signal_pad *pad, int channel, bool both, uint32_t word)
{
    bool agreed = false;
    if (!both)
        return symm_dev_barrier_require_equal(t.v, pad, channel, word);
    symm_dev_arrive_both(t.v, pad, channel, 5, word);
    return symm_dev_wait_all_both(t.v, pad, channel, 5, word, &agreed) && agreed;
}

/* All with the same word, or with `variant` one rank with another. */
SYMM_KERNEL(proof_insist, proof_args, a, 64)
{
    turn t = turn_of(a);
    const int ask = 2 * (int)t.block, meet = ask + 1;
    for (uint32_t round = 0; round < a.rounds; round++) {
        write_round(t, t.block, 0, round);
        const uint32_t mine = mix(t.salt + round) + (t.v.rank + 1 == (int)a.variant);
        const bool both = (t.salt + round) & 1;
        if (!insist(t, a.pad, ask, both, mine)) {
            t.wrong++;
            break;
        }
        check_round(t, t.block, 0, round);
        if (both) { /* with one word, since a rank may be behind */
            symm_dev_arrive(t.v, a.pad, meet, mine);
            symm_dev_wait_all(t.v, a.pad, meet);
        } else {
            symm_dev_barrier(t.v, a.pad, meet);
        }
    }
    report(t);
}

/*
 * Arrivals ahead of waits, as in the two-shot all-reduce: a round is written before the one before
 * it is waited for, in four sets of cells; and a word that differs now and then on another channel.
 */
SYMM_KERNEL(proof_flight, proof_args, a, 64)
{
    turn t = turn_of(a);
    const int ask = 2 * (int)t.block, meet = ask + 1;
    for (uint32_t call = 0; call < 2; call++) {
        const uint32_t h = mix(t.salt + call), word = h * 3;
        const bool same = h & 1;
        const uint32_t mine = h + (!same && (int)((h >> 1) % (uint32_t)t.v.nranks) == t.v.rank);
        const bool both = call == 1; /* the first word with the first round, and the waits */
        bool agreed = false;
        if (!both)
            symm_dev_arrive(t.v, a.pad, ask, mine);
        for (uint32_t c = 0; c <= a.rounds; c++) {
            if (c < a.rounds) {
                write_round(t, 2 * t.block + c / 2 % 2, c & 1, 16 * call + c);
                if (both && c == 0)
                    symm_dev_arrive_both(t.v, a.pad, ask, mine, word);
                else
                    symm_dev_arrive(t.v, a.pad, meet, word);
            }
            if (c == 0)
                continue;
            if (both && c == 1)
                t.wrong += !symm_dev_wait_all_both(t.v, a.pad, ask, mine, word, &agreed);
            else
                t.wrong += !symm_dev_wait_all_require_equal(t.v, a.pad, meet, word);
            if (!both && c == 1)
                agreed = symm_dev_wait_all_test_equal(t.v, a.pad, ask, mine);
            t.wrong += c == 1 && agreed != same;
            check_round(t, 2 * t.block + (c - 1) / 2 % 2, (c - 1) & 1, 16 * call + c - 1);
        }
        symm_dev_arrive(t.v, a.pad, meet, word);
        symm_dev_wait_all(t.v, a.pad,
                          meet); /* a rank may have come to the next call, with its word */
    }
    report(t);
}

/* The blocks of one rank hand their data round. */
SYMM_KERNEL(proof_grid_sync, proof_args, a, 64)
{
    turn t = turn_of(a);
    const uint32_t all = t.nblocks * a.packs;
    for (uint32_t round = 0; round < a.rounds; round++) {
        for (uint32_t i = t.thread; i < a.packs; i += t.nthreads)
            symm_dev_store_bits(cell(t, t.block, round & 1, 0, i),
                                value_of(t.salt, round, (int)t.block, t.v.rank, i));
        symm_dev_grid_sync(t.v, a.pad, 0);
        for (uint32_t k = t.thread; k < all; k += t.nthreads) {
            const uint32_t j = (k + a.shift) % all, b = j / a.packs, i = j % a.packs;
            look(t, symm_dev_load_bits(cell(t, b, round & 1, 0, i)),
                 value_of(t.salt, round, (int)b, t.v.rank, i));
        }
    }
    report(t);
}

/* Every block reads what another block of every rank has written. */
SYMM_KERNEL(proof_grid_barrier, proof_args, a, 64)
{
    turn t = turn_of(a);
    for (uint32_t round = 0; round < a.rounds; round++) {
        write_round(t, (t.block + round) % t.nblocks, round & 1, round);
        symm_dev_grid_barrier(t.v, a.pad, 0);
        check_round(t, t.block, round & 1, round);
        /* The channel is as good as new: any one block of each rank may use it for a barrier. */
        if (t.block == (round + (uint32_t)t.v.rank) % t.nblocks) {
            write_round(t, PROOF_BLOCKS, round & 1, ~round);
            symm_dev_barrier(t.v, a.pad, 0);
            check_round(t, PROOF_BLOCKS, round & 1, ~round);
        }
    }
    symm_dev_grid_barrier(t.v, a.pad, 0);
    report(t);
}

/* ---- signals ---- */

/* One way, to the next rank, with another signal back when its memory is free again. */
SYMM_KERNEL(proof_signal, proof_args, a, 64)
{
    turn t = turn_of(a);
    const int n = t.v.nranks, after = (t.v.rank + 1) % n, before = (t.v.rank + n - 1) % n;
    const int full = 2 * (int)t.block, free = full + 1;
    const uint32_t count = 1 + a.variant % 3;
    for (uint32_t round = 0; round < a.rounds; round++) {
        for (uint32_t i = t.thread; i < a.packs; i += t.nthreads)
            symm_dev_store_bits(symm_dev_peer(t.v, cell(t, t.block, 0, 0, i), after),
                                value_of(t.salt, round, t.v.rank, after, i));
        __syncthreads();
        if (t.thread == 0) {
            symm_dev_signal(t.v, a.pad, full, after, count);
            for (uint32_t taken = 0; taken < count;) {
                const uint32_t take = taken ? count - taken : 1;
                symm_dev_wait(t.v, a.pad, full, before, take);
                taken += take;
            }
        }
        __syncthreads();
        for (uint32_t i = t.thread; i < a.packs; i += t.nthreads) {
            const uint32_t j = (i + a.shift) % a.packs;
            look(t, symm_dev_load_bits(cell(t, t.block, 0, 0, j)),
                 value_of(t.salt, round, before, t.v.rank, j));
        }
        __syncthreads();
        if (t.thread == 0) {
            symm_dev_signal(t.v, a.pad, free, before);
            symm_dev_wait(t.v, a.pad, free, after);
        }
        __syncthreads();
    }
    report(t);
}

/* Both ways, with every other rank. */
SYMM_KERNEL(proof_pairs, proof_args, a, 64)
{
    turn t = turn_of(a);
    for (uint32_t round = 0; round < a.rounds; round++) {
        write_round(t, t.block, round & 1, round);
        __syncthreads();
        for (int r = (int)t.thread; r < t.v.nranks; r += (int)t.nthreads)
            if (r != t.v.rank)
                symm_dev_signal(t.v, a.pad, (int)t.block, r);
        for (int r = (int)t.thread; r < t.v.nranks; r += (int)t.nthreads)
            if (r != t.v.rank)
                symm_dev_wait(t.v, a.pad, (int)t.block, r);
        __syncthreads();
        check_round(t, t.block, round & 1, round);
    }
    symm_dev_barrier(t.v, a.pad, (int)t.block);
    report(t);
}

/* All blocks look for the same progress; one of them takes it. */
SYMM_KERNEL(proof_peek, proof_args, a, 64)
{
    enum { FULL, FREE, GRID };
    turn t = turn_of(a);
    const int n = t.v.nranks, after = (t.v.rank + 1) % n, before = (t.v.rank + n - 1) % n;
    for (uint32_t round = 0; round < a.rounds; round++) {
        if (t.block == 0) {
            for (uint32_t i = t.thread; i < a.packs; i += t.nthreads)
                symm_dev_store_bits(symm_dev_peer(t.v, cell(t, 0, 0, 0, i), after),
                                    value_of(t.salt, round, t.v.rank, after, i));
            __syncthreads();
            if (t.thread == 0)
                symm_dev_signal(t.v, a.pad, FULL, after, 2);
        }
        symm_dev_wait_peek(t.v, a.pad, FULL, before, 2); /* every thread for itself */
        for (uint32_t i = t.thread; i < a.packs; i += t.nthreads) {
            const uint32_t j = (i + a.shift) % a.packs;
            look(t, symm_dev_load_bits(cell(t, 0, 0, 0, j)),
                 value_of(t.salt, round, before, t.v.rank, j));
        }
        symm_dev_grid_sync(t.v, a.pad, GRID); /* all have looked */
        if (t.block == 0 && t.thread == 0) {
            symm_dev_wait(t.v, a.pad, FULL, before, 2);
            symm_dev_signal(t.v, a.pad, FREE, before);
            symm_dev_wait(t.v, a.pad, FREE, after);
        }
        symm_dev_grid_sync(t.v, a.pad, GRID); /* it is taken */
    }
    report(t);
}

/* ---- transfers ---- */

SYMM_DEV uint8_t byte_of(const symm_bits16 &x, uint32_t i)
{
    return (uint8_t)(x.w[i / 4] >> 8 * (i % 4));
}

/* A copy into the next rank's memory, of any alignment, by the block, a thread or the copy unit. */
SYMM_KERNEL(proof_put, proof_args, a, 64)
{
    enum { BLOCK, THREAD, BULK };
    __shared__ __align__(128) char shared[1024];
    turn t = turn_of(a);
    const int n = t.v.nranks, after = (t.v.rank + 1) % n, before = (t.v.rank + n - 1) % n;
    const int full = 2 * (int)t.block, free = full + 1;
    const uint32_t how = a.variant % 3, ahead = how == BULK ? 0 : a.shift % 5;
    const uint32_t nbytes = 16 * a.packs - (how == BULK ? 0 : a.shift % 16);
    char *const from = a.own + 16 * (PROOF_PACKS + 1) * t.block, *const to =
                                                                     cell(t, t.block, 0, 0, 0) +
                                                                     ahead;
    for (uint32_t round = 0; round < a.rounds; round++) {
        for (uint32_t i = t.thread; i < a.packs; i += t.nthreads)
            symm_dev_store_bits(from + 16 * i, value_of(t.salt, round, t.v.rank, after, i));
        __syncthreads();
        if (how == BLOCK)
            symm_dev_put(t.v, to, from, nbytes, after);
        else if (how == THREAD && t.thread == 0)
            symm_dev_put_thread(t.v, to, from, nbytes, after);
        else if (how == BULK && t.thread == t.nthreads - 1)
            symm_dev_put_bulk(t.v, to, from, nbytes, after, shared, sizeof shared);
        __syncthreads();
        if (t.thread == 0) {
            symm_dev_signal(t.v, a.pad, full, after);
            symm_dev_wait(t.v, a.pad, full, before);
        }
        __syncthreads();
        for (uint32_t i = t.thread; i < nbytes; i += t.nthreads) {
            const symm_bits16 want = value_of(t.salt, round, before, t.v.rank, i / 16);
            t.wrong +=
                symm_dev_load_one(reinterpret_cast<uint8_t *>(to) + i) != byte_of(want, i % 16);
            t.looked++;
        }
        __syncthreads();
        if (t.thread == 0) {
            symm_dev_signal(t.v, a.pad, free, before);
            symm_dev_wait(t.v, a.pad, free, after);
        }
        __syncthreads();
        if (stops(t))
            break;
    }
    report(t);
}

/* ---- adding ---- */

/* Zeroes, meets, adds to everyone's cells, meets, looks, meets. */
template <typename T, bool MULTICAST> SYMM_DEV void add_rounds(const proof_args &a)
{
    turn t = turn_of(a);
    const uint32_t n = (uint32_t)t.v.nranks;
    for (uint32_t round = 0; round < a.rounds; round++) {
        for (uint32_t i = t.thread; i < a.packs; i += t.nthreads)
            symm_dev_store_one(reinterpret_cast<T *>(cell(t, t.block, 0, 0, i)), (T)0);
        symm_dev_barrier(t.v, a.pad, (int)t.block);
        for (uint32_t k = t.thread; k < (MULTICAST ? 1 : n) * a.packs; k += t.nthreads) {
            const uint32_t to = k / a.packs, i = k % a.packs;
            const T x = (T)(value_of(t.salt, round, t.v.rank, 0, i).w[0] % 1024);
            T *const p = reinterpret_cast<T *>(cell(t, t.block, 0, 0, i));
            if constexpr (MULTICAST)
                symm_dev_multimem_red_add(symm_dev_multicast(t.v, p), x);
            else
                symm_dev_red_add(symm_dev_peer(t.v, p, (int)to), x);
        }
        symm_dev_barrier(t.v, a.pad, (int)t.block);
        for (uint32_t k = t.thread; k < a.packs; k += t.nthreads) {
            const uint32_t i = (k + a.shift) % a.packs;
            T want = 0;
            for (uint32_t r = 0; r < n; r++)
                want += (T)(value_of(t.salt, round, (int)r, 0, i).w[0] % 1024);
            t.wrong += symm_dev_load_one(reinterpret_cast<T *>(cell(t, t.block, 0, 0, i))) != want;
            t.looked++;
        }
        symm_dev_barrier(t.v, a.pad, (int)t.block);
    }
    report(t);
}

SYMM_KERNEL(proof_red_add, proof_args, a, 64)
{
    if (a.variant % 3 == 0)
        add_rounds<uint32_t, false>(a);
    else if (a.variant % 3 == 1)
        add_rounds<int64_t, false>(a);
    else
        add_rounds<float, false>(a);
}

SYMM_KERNEL(proof_multimem_red, proof_args, a, 64)
{
    if (a.variant % 3 == 0)
        add_rounds<uint32_t, true>(a);
    else if (a.variant % 3 == 1)
        add_rounds<uint64_t, true>(a);
    else
        add_rounds<float, true>(a);
}

/* ---- packets ---- */

SYMM_DEV symm_packet *slot(const turn &t, uint32_t set, int rank, uint32_t i)
{
    return t.a.slots + ((t.block * 2 + set) * PROOF_RANKS + (uint32_t)rank) * PROOF_PACKS + i;
}

/* As much of it as a packet carries. */
SYMM_DEV symm_bits12 most_of(const symm_bits16 &x)
{
    return {{x.w[0], x.w[1], x.w[2]}};
}

/* N of them at once, or one by itself. */
template <int N>
SYMM_DEV void look_at_packets(turn &t, uint32_t first, uint32_t set, uint32_t round, uint32_t flag)
{
    const uint32_t packs = t.a.packs, all = (uint32_t)t.v.nranks * packs;
    const symm_packet *slots[N];
    symm_bits12 got[N];
    int from[N];
    uint32_t i[N];
    for (uint32_t n = 0; n < N; n++) {
        const uint32_t j = (first + t.a.shift + n) % all;
        from[n] = (int)(j / packs);
        i[n] = j % packs;
        slots[n] = slot(t, set, from[n], i[n]);
    }
    if constexpr (N == 1)
        got[0] = symm_dev_recv16(t.v, slots[0], flag, from[0]);
    else if (!symm_dev_recv16_all(t.v, slots, flag, from, got))
        return; /* an abort */
    for (int n = 0; n < N; n++) {
        const symm_bits12 want = most_of(value_of(t.salt, round, from[n], t.v.rank, i[n]));
        t.wrong += got[n].w[0] != want.w[0] || got[n].w[1] != want.w[1] || got[n].w[2] != want.w[2];
        t.looked++;
    }
}

SYMM_KERNEL(proof_packets, proof_args, a, 64)
{
    turn t = turn_of(a);
    const uint32_t all = (uint32_t)t.v.nranks * a.packs;
    for (uint32_t round = 0; round < a.rounds; round++) {
        const uint32_t flag = symm_dev_epoch(t.v, a.pad, (int)t.block), set = flag & 1;
        for (uint32_t k = t.thread; k < all; k += t.nthreads) {
            const int to = (int)(k / a.packs);
            const uint32_t i = k % a.packs;
            symm_dev_send16(t.v, slot(t, set, t.v.rank, i),
                            most_of(value_of(t.salt, round, t.v.rank, to, i)), flag, to);
        }
        for (uint32_t k = t.thread; k < all; k += t.nthreads)
            if (a.variant)
                look_at_packets<3>(t, k, set, round, flag);
            else
                look_at_packets<1>(t, k, set, round, flag);
    }
    report(t);
}

/* ---- block ---- */

SYMM_KERNEL(proof_block_sum, proof_args, a, 64)
{
    turn t = turn_of(a);
    for (uint32_t round = 0; round < 4 * a.rounds; round++) {
        float want = 0;
        for (uint32_t i = 0; i < t.nthreads; i++)
            want += (float)(mix(t.salt + round * 64 + i) % 256);
        t.wrong += symm_dev_block_sum((float)(mix(t.salt + round * 64 + t.thread) % 256)) != want;
        t.looked++;
    }
    report(t);
}

/* ---- long and never ---- */

/* Each block waits for one thing from the rank before: a signal on its channel, or a packet. */
SYMM_KERNEL(proof_wait_long, proof_args, a, 64)
{
    const symm_view &v = a.view;
    const int before = (v.rank + v.nranks - 1) % v.nranks;
    if (threadIdx.x > 0)
        return;
    if (a.variant)
        symm_dev_recv16(v, a.slots + blockIdx.x, a.variant, before);
    else
        symm_dev_wait(v, a.pad, (int)blockIdx.x, before);
}

SYMM_KERNEL(proof_send_late, proof_args, a, 64)
{
    if (threadIdx.x == 0)
        symm_dev_send16(a.view, a.slots + a.way, symm_bits12{}, a.variant,
                        (a.view.rank + 1) % a.view.nranks);
}

/* Waits for what nobody sends; after the abort nothing of this rank may reach the next one. */
SYMM_KERNEL(proof_wait_for_ever, proof_args, a, 64)
{
    enum { NEVER, BEHIND };
    turn t = turn_of(a);
    if (t.block == 0 && t.thread == t.nthreads - 1) {
        symm_dev_wait(t.v, a.pad, NEVER, t.v.rank);
        symm_dev_signal(t.v, a.pad, BEHIND, (t.v.rank + 1) % t.v.nranks);
    }
    __syncthreads();
    t.wrong += t.block == 0 && !symm_dev_aborted(t.v);
    t.looked++;
    report(t);
}

/* Takes its time, so that this rank comes late. */
SYMM_KERNEL(proof_dawdle, proof_args, a, 64)
{
    uint32_t x = 0;
    for (uint32_t i = 0; i < a.rounds && threadIdx.x == 0; i++)
        x |= symm_dev_load_one(a.salt);
    if (x == 1)
        symm_dev_red_add(a.result + 1, 1u);
}

/* ---- data of library calls ---- */

/* From -4 to 11: sums of eight are exact in every type. */
SYMM_DEV float number(uint32_t salt, uint32_t rank, uint64_t i)
{
    return (float)(mix(salt + mix(rank * 65536 + (uint32_t)i)) % 16) - 4;
}

/* What the numbers of the ranks come to. */
SYMM_DEV float wanted(const proof_data_args &a, uint32_t salt, uint64_t i)
{
    float want = number(salt, a.from, i);
    for (uint32_t r = a.from + 1; r < a.from + a.ranks; r++) {
        const float x = number(salt, r, i);
        if (a.op == SYMM_SUM)
            want += x;
        else if (a.op == SYMM_MIN ? x < want : x > want)
            want = x;
    }
    return want;
}

template <typename T> SYMM_DEV void do_deed(const proof_data_args &a)
{
    T *const x = reinterpret_cast<T *>(a.x);
    const uint32_t salt = symm_dev_load_one(a.salt);
    uint32_t wrong = 0, looked = 0;
    for (uint64_t i = threadIdx.x; i < a.count; i += blockDim.x) {
        const float want = a.deed == PROOF_SPOIL ? -100.0f : wanted(a, salt, a.first + i);
        if (a.deed != PROOF_CHECK) {
            symm_dev_store_one(x + i, of_float<T>(want));
            continue;
        }
        wrong += to_float(symm_dev_load_one(x + i)) != want;
        looked++;
    }
    if (!a.ends || !symm_dev_aborted(a.view))
        add_counts(a.result, wrong, looked);
}

SYMM_KERNEL(proof_data, proof_data_args, a, 64)
{
    switch (a.dtype) {
    case SYMM_FLOAT32:
        return do_deed<float>(a);
    case SYMM_FLOAT16:
        return do_deed<symm_f16>(a);
    case SYMM_BFLOAT16:
        return do_deed<symm_bf16>(a);
    case SYMM_FLOAT64:
        return do_deed<double>(a);
    case SYMM_INT32:
        return do_deed<int32_t>(a);
    default:
        return do_deed<int64_t>(a);
    }
}
