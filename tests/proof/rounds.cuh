/*
 * What kernels of one protocol share: rounds of data that follow from salt and round, and counts of
 * what is wrong. Packs are written and read by different threads, so that the protocol must order
 * the threads of a block, too.
 */
#ifndef PROOF_ROUNDS_CUH
#define PROOF_ROUNDS_CUH

#define SYMM_DETAIL_RECORD_AFTER 2 /* the host need not wait long for the record of a wait */
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
        default: /* alternately, a pack by one rank */
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

#endif
