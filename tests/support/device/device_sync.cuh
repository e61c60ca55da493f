/* Kernels that meet: signals, barriers of every kind, and waits that nobody ends. */
#include <symm/device.cuh>
#include "device_kernels.h"

/* Where a thread is, in blocks and grids of any dimensions. */
SYMM_DEV uint32_t my_thread(void)
{
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

SYMM_DEV uint32_t my_block(void)
{
    return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}

SYMM_DEV uint32_t count_threads(void)
{
    return blockDim.x * blockDim.y * blockDim.z;
}

SYMM_DEV uint32_t count_blocks(void)
{
    return gridDim.x * gridDim.y * gridDim.z;
}

/* The last thing a thread does. */
SYMM_DEV void tally(const test_device_args &a, uint32_t wrong)
{
    symm_dev_red_add(a.tally, wrong);
    symm_dev_red_add(a.tally + 1, 1u);
}

/* Where the peers' copies are: what the host says too. */
SYMM_KERNEL(test_addresses, test_device_args, a, 256)
{
    uint64_t *const out = static_cast<uint64_t *>(a.out);
    const symm_view &v = a.view;
    for (int r = (int)my_thread(); r < v.nranks; r += (int)count_threads())
        symm_dev_store_one(&out[r], (uint64_t)(uintptr_t)symm_dev_peer(v, (char *)a.x, r));
    if (my_thread() == 0) {
        const bool has = symm_dev_has_multicast(v);
        symm_dev_store_one(&out[v.nranks], (uint64_t)has);
        symm_dev_store_one(&out[v.nranks + 1],
                           has ? (uint64_t)(uintptr_t)symm_dev_multicast(v, (char *)a.x) : 0u);
    }
    tally(a, 0);
}

/*
 * Round by round, block 0 writes to the next rank and signals; all threads of all blocks look for
 * the signals of the rank before and read what it wrote; one thread then takes them.
 */
SYMM_KERNEL(test_signals, test_device_args, a, 256)
{
    enum { FULL, FREE, MEET };
    const symm_view &v = a.view;
    const int after = (v.rank + 1) % v.nranks, before = (v.rank + v.nranks - 1) % v.nranks;
    const uint32_t t = my_thread(), nthreads = count_threads();
    uint32_t *const cells = static_cast<uint32_t *>(a.x), wrong = 0;

    for (uint32_t round = 0; round < a.rounds; round++) {
        const uint32_t n = 1 + round % 3, other = (t + round + 1) % nthreads;
        if (my_block() == 0) {
            symm_dev_store_one(symm_dev_peer(v, cells, after) + t,
                               test_device_word(a.seed, round, v.rank, 0, t));
            __syncthreads();
            if (t == 0)
                symm_dev_signal(v, a.pad, FULL, after, n);
        }
        symm_dev_wait_peek(v, a.pad, FULL, before, n);
        wrong +=
            symm_dev_load_one(cells + other) != test_device_word(a.seed, round, before, 0, other);
        symm_dev_grid_sync(v, a.pad, MEET);
        if (my_block() == 0 && t == nthreads - 1) {
            symm_dev_wait(v, a.pad, FULL, before, n);
            symm_dev_signal(v, a.pad, FREE, before);
            symm_dev_wait(v, a.pad, FREE, after);
        }
        symm_dev_grid_sync(v, a.pad, MEET);
    }
    tally(a, wrong);
}

/*
 * Meets the others, for the nth time; returns whether it told what it should. A barrier with a word
 * is followed by one on another channel.
 */
SYMM_DEV bool meet(const test_device_args &a, uint32_t nth)
{
    const symm_view &v = a.view;
    const int channel = 2 * (int)my_block() + (int)(nth & 1);
    const uint32_t word = test_device_word(a.seed, nth, 0, 0, 0);
    const bool differ = a.mode == TEST_MEET_AGREE && v.nranks > 1 && nth / 2 % 2;
    switch (a.mode) {
    case TEST_MEET_BARRIER:
        symm_dev_barrier(v, a.pad, channel);
        return true;
    case TEST_MEET_SPLIT:
        symm_dev_arrive(v, a.pad, channel);
        symm_dev_wait_all(v, a.pad, channel);
        return true;
    case TEST_MEET_BOTH:                                    /* on the two channels of the block */
        symm_dev_arrive_both(v, a.pad, channel & ~1, 1, 2); /* a rank may be behind */
        if (nth % 2) {
            bool agreed = false;
            return symm_dev_wait_all_both(v, a.pad, channel & ~1, 1, 2, &agreed) && agreed;
        }
        symm_dev_wait_all(v, a.pad, channel & ~1);
        symm_dev_wait_all(v, a.pad, channel | 1);
        return true;
    case TEST_MEET_AGREE: /* now and then one rank comes with another word */
        return symm_dev_barrier_test_equal(
                   v, a.pad, channel,
                   word + (differ && (uint32_t)v.rank == nth % (uint32_t)v.nranks)) == !differ;
    case TEST_MEET_INSIST:
        return symm_dev_barrier_require_equal(v, a.pad, channel, word);
    case TEST_MEET_GRID_SYNC:
        symm_dev_grid_sync(v, a.pad, 0);
        return true;
    default:
        symm_dev_grid_barrier(v, a.pad, 0);
        return true;
    }
}

/*
 * Every thread writes a word to every rank that its block meets, and after that reads a word of
 * another thread of each block that it has met.
 */
SYMM_KERNEL_BOUNDS(test_order, test_device_args, a, 256, 2)
{
    const symm_view &v = a.view;
    const uint32_t t = my_thread(), b = my_block(), nthreads = count_threads(),
                   nblocks = count_blocks();
    const bool alone = a.mode == TEST_MEET_GRID_SYNC; /* nobody else is met */
    const bool all_blocks = alone || a.mode == TEST_MEET_GRID_BARRIER;
    const int first = alone ? v.rank : 0, last = alone ? v.rank + 1 : v.nranks;
    uint32_t *const cells = static_cast<uint32_t *>(a.x), wrong = 0;

    for (uint32_t round = 0; round < a.rounds; round++) {
        const uint32_t other = (t + round + 1) % nthreads;
        for (int r = first; r < last; r++)
            symm_dev_store_one(symm_dev_peer(v, cells, r) +
                                   ((uint32_t)v.rank * nblocks + b) * nthreads + t,
                               test_device_word(a.seed, round, v.rank, b, t));
        wrong += !meet(a, 2 * round);
        for (int r = first; r < last; r++)
            for (uint32_t k = all_blocks ? 0 : b; k < (all_blocks ? nblocks : b + 1); k++)
                wrong += symm_dev_load_one(cells + ((uint32_t)r * nblocks + k) * nthreads +
                                           other) != test_device_word(a.seed, round, r, k, other);
        wrong += !meet(a, 2 * round + 1);
    }
    wrong += symm_dev_aborted(v);
    tally(a, wrong);
}

/* Ranks come with different words: no thread may be told that all is well. */
SYMM_KERNEL(test_mismatch, test_device_args, a, 256)
{
    tally(a, symm_dev_barrier_require_equal(a.view, a.pad, (int)my_block(), (uint32_t)a.param));
}
