/* Kernels of symm-bench p2p: moves by loads, stores and the copy unit, and games of ping-pong. */
#include <symm/device.cuh>
#include "p2p_args.h"

struct slice {
    uint64_t begin, end; /* bytes, multiples of 16 */
};

/* The i-th of n parts. */
SYMM_DEV slice part_of(const slice &whole, uint32_t i, uint32_t n)
{
    const uint64_t packs = (whole.end - whole.begin) / 16;
    return {whole.begin + packs * i / n * 16, whole.begin + packs * (i + 1) / n * 16};
}

SYMM_DEV slice slice_of(const p2p_args &a, int i)
{
    return part_of({0, a.nbytes}, (uint32_t)i, (uint32_t)a.nslices);
}

/* The word of src at an index on a rank. */
SYMM_DEV uint32_t word_of(uint32_t seed, int rank, uint64_t index)
{
    uint64_t x = (uint64_t)seed << 32 ^ (uint64_t)rank << 52 ^ index;
    x *= 0x9e3779b97f4a7c15u;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9u;
    return (uint32_t)(x >> 32);
}

SYMM_KERNEL(p2p_fill, p2p_args, a, P2P_THREADS_MAX)
{
    uint32_t *const words = reinterpret_cast<uint32_t *>(a.src);
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.nbytes / 4;
         i += gridDim.x * blockDim.x)
        symm_dev_store_one(words + i, word_of(a.seed, a.view.rank, i));
}

/* Counts the words of dst that differ from those of each slice's origin. */
SYMM_KERNEL(p2p_check, p2p_args, a, P2P_THREADS_MAX)
{
    const uint32_t *const words = reinterpret_cast<const uint32_t *>(a.dst);
    uint32_t wrong = 0;
    for (int s = 0; s < a.nslices; s++) {
        const slice mine = part_of(slice_of(a, s), blockIdx.x, gridDim.x);
        for (uint64_t i = mine.begin / 4 + threadIdx.x; i < mine.end / 4; i += blockDim.x)
            wrong += symm_dev_load_one(words + i) != word_of(a.seed, a.rank[s], i);
    }
    if (wrong)
        symm_dev_red_add(a.wrong, wrong);
}

/* All ranks begin with another peer, so that none is asked by all at once. */
SYMM_KERNEL(p2p_move, p2p_args, a, P2P_THREADS_MAX)
{
    __shared__ __align__(128) char shared[P2P_SHARED_BYTES];
    const symm_view &v = a.view;
    for (int s = 0; s < a.nslices; s++) {
        const slice mine = part_of(slice_of(a, s), blockIdx.x, gridDim.x);
        const uint64_t nbytes = mine.end - mine.begin;
        char *const src = a.src + mine.begin, *const dst = a.dst + mine.begin;
        if (a.mode == P2P_STORE)
            symm_dev_put(v, dst, src, nbytes, a.rank[s]);
        else if (a.mode == P2P_LOAD)
            symm_dev_copy(dst, symm_dev_peer(v, src, a.rank[s]), nbytes);
        else if (threadIdx.x == 0 && a.mode == P2P_BULK_PUT)
            symm_dev_put_bulk(v, dst, src, nbytes, a.rank[s], shared, sizeof shared);
        else if (threadIdx.x == 0) /* a put to this rank from another one's memory */
            symm_dev_put_bulk(v, dst, symm_dev_peer(v, src, a.rank[s]), nbytes, v.rank, shared,
                              sizeof shared);
    }
}

/* Ranks 0 and 1 play; rank 0 has the first ball. */
SYMM_KERNEL(p2p_ping_signal, p2p_args, a, 32)
{
    const symm_view &v = a.view;
    const int other = 1 - v.rank;
    if (threadIdx.x != 0)
        return;
    for (uint32_t round = 0; round < a.rounds; round++) {
        if (v.rank == 0)
            symm_dev_signal(v, a.pad, 0, other);
        symm_dev_wait(v, a.pad, 0, other);
        if (v.rank == 1)
            symm_dev_signal(v, a.pad, 0, other);
    }
}

/*
 * The same with packets: the epoch as flag, a slot a round. Each ball is the answer to the one
 * before, so that no rank sends into a slot that has not been read in the epoch before.
 */
SYMM_KERNEL(p2p_ping_packet, p2p_args, a, 32)
{
    const symm_view &v = a.view;
    const int other = 1 - v.rank;
    const uint32_t epoch = symm_dev_epoch(v, a.pad, 1);
    uint32_t wrong = 0;
    if (threadIdx.x != 0)
        return;
    for (uint32_t round = 0; round < a.rounds; round++) {
        const symm_bits12 mine = {{word_of(a.seed, v.rank, round), round, epoch}};
        if (v.rank == 0)
            symm_dev_send16(v, a.slots + round, mine, epoch, other);
        const symm_bits12 got = symm_dev_recv16(v, a.slots + round, epoch, other);
        if (v.rank == 1)
            symm_dev_send16(v, a.slots + round, mine, epoch, other);
        wrong +=
            got.w[0] != word_of(a.seed, other, round) || got.w[1] != round || got.w[2] != epoch;
    }
    if (wrong)
        symm_dev_red_add(a.wrong, wrong);
}
