/* A user's kernels, for the tests: they see the device header and nothing else. */
#include <symm/device.cuh>
#include "kernels.h"

SYMM_KERNEL(test_signal_and_wait, test_signal_args, a, 64)
{
    if (threadIdx.x == 0) {
        symm_dev_signal(a.view, a.pad, a.channel, a.peer, a.signals);
        symm_dev_wait_peek(a.view, a.pad, a.channel, a.peer, a.waits);
        symm_dev_wait(a.view, a.pad, a.channel, a.peer, a.waits);
    }
}

/*
 * Every thread writes to the next rank, meets all the others, and looks into its own cells, which
 * are written again only when all have looked: `planted` leaves that second barrier out.
 */
SYMM_KERNEL(test_ring, test_ring_args, a, 128)
{
    const symm_view &v = a.view;
    float *const cells = a.cells + 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    const int before = (v.rank + v.nranks - 1) % v.nranks;
    float wrong = 0;

    for (int round = 0; round < a.rounds; round++) {
        symm_f32s<float> mine;
        for (int e = 0; e < 4; e++)
            mine.e[e] = (float)(v.rank * 1000 + round + e);
        symm_dev_store(symm_dev_peer(v, cells, (v.rank + 1) % v.nranks), mine);
        symm_dev_barrier(v, a.pad, blockIdx.x);
        const symm_f32s<float> got = symm_dev_load(cells);
        for (int e = 0; e < 4; e++)
            wrong += got.e[e] != (float)(before * 1000 + round + e);
        if (!a.planted)
            symm_dev_barrier(v, a.pad, blockIdx.x);
    }
    const float sum = symm_dev_block_sum(wrong);
    if (threadIdx.x == 0)
        a.wrong[blockIdx.x] += (int32_t)sum;
}

/*
 * Rank 0 hands a pack a thread to rank 1. With `planted` the flag is a relaxed store:
 * on x86 the data are right all the same, and only ThreadSanitizer can tell.
 */
SYMM_KERNEL(test_hand_over, test_hand_over_args, a, 64)
{
    const symm_view &v = a.view;
    float *const cells = a.cells + 4 * threadIdx.x;
    float wrong = 0;

    if (v.rank == 0) {
        symm_f32s<float> mine;
        for (int e = 0; e < 4; e++)
            mine.e[e] = (float)(a.round + e);
        symm_dev_store(symm_dev_peer(v, cells, 1), mine);
        __syncthreads();
        uint32_t *const flag = symm_dev_peer(v, a.flag, 1);
        if (threadIdx.x == 0 && a.planted)
            symm_detail::store_relaxed(flag, a.round);
        else if (threadIdx.x == 0)
            symm_detail::store_release(flag, a.round);
    } else {
        while (threadIdx.x == 0 && symm_detail::load_acquire(a.flag) != a.round)
            symm_detail::pause();
        __syncthreads();
        const symm_f32s<float> got = symm_dev_load(cells);
        for (int e = 0; e < 4; e++)
            wrong += got.e[e] != (float)(a.round + e);
        const float sum = symm_dev_block_sum(wrong);
        if (threadIdx.x == 0)
            *a.wrong += (int32_t)sum;
    }
}

/* Not for UndefinedBehaviorSanitizer to find first. */
#ifdef __CUDACC__
#define UNSANITIZED
#else
#define UNSANITIZED __attribute__((no_sanitize("undefined")))
#endif
SYMM_DEV UNSANITIZED uint32_t divide(uint32_t x, uint32_t by)
{
    return x / by;
}

/* The offender does it with the view `other`; the others meet it, and then wait for its signal. */
SYMM_KERNEL(test_misuse, test_misuse_args, a, 64)
{
    const bool offends = a.view.rank == a.offender;
    const symm_view &v = offends ? a.other : a.view;
    const int misuse = offends ? a.misuse : TEST_MISUSE_NONE;
    enum { BULK_NBYTES = 1024 };
    __shared__ __align__(128) char shared[BULK_NBYTES + 64 * 3];

    symm_dev_barrier(a.view, a.pad, 0);
    if (misuse == TEST_MISUSE_BARRIER)
        symm_dev_barrier(v, a.pad, a.channel);
    if (misuse == TEST_MISUSE_GRID_SYNC)
        symm_dev_grid_sync(v, a.pad, a.channel);
    if (misuse == TEST_MISUSE_EPOCH)
        symm_dev_epoch(v, a.pad, a.channel);
    if (misuse == TEST_MISUSE_ABORTED)
        symm_dev_aborted(v);
    if (misuse == TEST_MISUSE_ARRIVE)
        symm_dev_arrive(v, a.pad, a.channel);
    if (misuse == TEST_MISUSE_WAIT_ALL)
        symm_dev_wait_all(v, a.pad, a.channel);
    if (misuse == TEST_MISUSE_COPY)
        symm_dev_copy(a.good, a.data, 16);
    if (threadIdx.x != 0)
        return;
    if (misuse == TEST_MISUSE_SIGNAL)
        symm_dev_signal(v, a.pad, a.channel, a.rank);
    if (misuse == TEST_MISUSE_WAIT)
        symm_dev_wait(v, a.pad, a.channel, a.rank);
    if (misuse == TEST_MISUSE_PEER)
        *a.good = symm_dev_load_one(symm_dev_peer(v, a.good, a.rank));
    if (misuse == TEST_MISUSE_LOAD)
        symm_dev_store_bits(a.good, symm_dev_load_bits(a.data));
    if (misuse == TEST_MISUSE_LOAD_ONE)
        *a.good = symm_dev_load_one(a.data);
    if (misuse == TEST_MISUSE_STORE)
        symm_dev_store_bits(a.data, symm_dev_load_bits(a.good));
    if (misuse == TEST_MISUSE_STORE_ONE)
        symm_dev_store_one(a.data, *a.good);
    if (misuse == TEST_MISUSE_ADD)
        symm_dev_red_add(a.data, 1u);
    if (misuse == TEST_MISUSE_HAS_MULTICAST)
        *a.good = symm_dev_has_multicast(v);
    if (misuse == TEST_MISUSE_MULTICAST)
        *a.good = symm_dev_multicast(v, a.good) != a.good;
    if (misuse == TEST_MISUSE_SUM)
        *a.good = (uint32_t)symm_dev_sum(v, reinterpret_cast<float *>(a.good)).e[0];
    if (misuse == TEST_MISUSE_STORE_ALL)
        symm_dev_store_all(v, reinterpret_cast<float *>(a.good) + 4, symm_f32s<float>{});
    if (misuse == TEST_MISUSE_BULK)
        symm_dev_put_bulk(v, a.good + 4, a.good, 16, a.rank, shared + 64 * a.channel, BULK_NBYTES);
    if (misuse == TEST_MISUSE_BULK_GLOBAL)
        symm_dev_put_bulk(v, a.good + 4, a.good, 16, a.rank, a.good, BULK_NBYTES);
    if (misuse == TEST_MISUSE_DIVIDE)
        *a.good = divide(4711, (uint32_t)v.nranks);
    for (int r = 0; r < a.view.nranks; r++)
        if (offends && r != a.view.rank)
            symm_dev_signal(a.view, a.pad, 1, r);
    if (!offends)
        symm_dev_wait(a.view, a.pad, 1, a.offender);
}

/* A kernel whose argument is the view, and one that has it under another name. */
SYMM_KERNEL(test_only_view, symm_view, v, 64)
{
    (void)symm_dev_aborted(v);
}

SYMM_KERNEL(test_named_view, test_named_args, a, 64)
{
    (void)symm_dev_aborted(a.group);
}

/* ---- a chain of kernels that may begin early ---- */

SYMM_DEV uint32_t chain_word(const test_chain_args &a, uint32_t turn, uint32_t rank, uint64_t i)
{
    uint32_t x = (turn * 2 + a.set) * 0x9e3779b1u + rank * 0x85ebca6bu + (uint32_t)i * 0xc2b2ae35u;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    x ^= x >> 12;
    return a.floats ? x % 65536 : x; /* of which floats have exact sums */
}

/* The bits of an element with this value. */
SYMM_DEV uint32_t chain_bits(const test_chain_args &a, uint32_t value)
{
    const float x = (float)value;
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return a.floats ? bits : value;
}

/* On GPUs spin microseconds; else as many looks for something that does not come. */
SYMM_DEV void take_time(uint32_t spin)
{
#ifdef __CUDACC__
    uint64_t begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < spin * 1000ull);
#else
    for (uint32_t i = 0; i < spin; i++)
        symm_detail::pause();
#endif
}

/* What this kernel has to do waits for the ones before; the next one may begin. */
SYMM_DEV uint32_t begin_link(const test_chain_args &a)
{
    symm_dev_pdl_release();
    symm_dev_pdl_wait();
    return symm_dev_load_one(a.state);
}

SYMM_KERNEL_BOUNDS(test_produce, test_chain_args, a, 256, 2)
{
    const uint32_t turn = begin_link(a), step = gridDim.x * blockDim.x;
    take_time(a.spin);
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.words; i += step)
        symm_dev_store_one(a.data + i, chain_bits(a, chain_word(a, turn, a.view.rank, i)));
}

SYMM_DEV uint32_t chain_wanted(const test_chain_args &a, uint32_t turn, uint64_t i)
{
    const uint64_t at = a.scatters ? a.view.rank * a.count + i : i;
    uint32_t sum = 0;
    if (a.root >= 0)
        return chain_word(a, turn, (uint32_t)a.root, i);
    if (a.gathers)
        return chain_word(a, turn, (uint32_t)(i / a.count), i % a.count);
    for (int r = 0; r < a.view.nranks; r++)
        sum += chain_word(a, turn, (uint32_t)r, at);
    return chain_bits(a, sum);
}

/* Reads a half before and a half after. */
SYMM_KERNEL_BOUNDS(test_consume, test_chain_args, a, 256, 2)
{
    const uint32_t turn = begin_link(a), step = gridDim.x * blockDim.x;
    uint32_t wrong = 0, looked = 0;
    for (int half = 0; half < 2; half++) {
        const uint64_t first = half ? a.words / 2 : 0, last = half ? a.words : a.words / 2;
        for (uint64_t i = first + blockIdx.x * blockDim.x + threadIdx.x; i < last; i += step) {
            wrong += symm_dev_load_one(a.data + i) != chain_wanted(a, turn, i);
            looked++;
        }
        if (half == 0)
            take_time(a.spin);
    }
    if (wrong)
        symm_dev_red_add(a.state + 1, wrong);
    if (looked)
        symm_dev_red_add(a.state + 2, looked);
}

SYMM_KERNEL_BOUNDS(test_spoil, test_chain_args, a, 256, 2)
{
    const uint32_t turn = begin_link(a), step = gridDim.x * blockDim.x;
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.words; i += step)
        symm_dev_store_one(a.data + i, 0xdead0000u | turn);
    if (a.last && blockIdx.x == 0 && threadIdx.x == 0)
        symm_dev_red_add(a.state, 1u);
}

/* Copies words late, and lets the next kernel begin at once. */
SYMM_KERNEL_BOUNDS(test_deliver, test_deliver_args, a, 256, 2)
{
    const uint64_t step = gridDim.x * blockDim.x;
    symm_dev_pdl_release();
    symm_dev_pdl_wait();
    take_time(a.spin);
    for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < a.words; i += step)
        symm_dev_store_one(a.to + i, symm_dev_load_one(a.from + i));
}
