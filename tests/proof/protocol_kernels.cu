/* Kernels that use one barrier or signal of symm/device.cuh each, round after round. */
#include "rounds.cuh"

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

/* Every block reads the data of another block of every rank. */
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
