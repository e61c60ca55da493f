/*
 * symm/device.cuh - symmetric memory inside kernels. Free functions in C++17; nothing to construct
 * or to close.
 *
 * One source, two compilers: nvcc for GPUs, and the host compiler (symm_add_kernels() in CMake) for
 * the emulated driver, which runs blockDim threads a block, so that __syncthreads, __shared__,
 * shuffles and votes mean what they mean. Every access to symmetric memory of other ranks, every
 * flag and every multimem instruction goes through the functions below; detail/ has one instruction
 * a function.
 *
 * After an abort every wait returns at once and no signal leaves this rank any more: the kernel
 * runs to its end, its results are garbage, symm_check() says so, and no peer takes them for good.
 * Nothing here traps, prints or returns early. A kernel that *writes into other ranks' memory*
 * after a wait asks symm_dev_aborted() first and leaves out the writes if it says so, because the
 * owner may still be using what lies there.
 *
 * "Whole block" functions are called by all threads of a block, of any size from 1, converged. They
 * begin and end with __syncthreads or with what does as much: what a thread wrote before is there
 * for the others after. "One thread" functions are called by any one thread, but at a time by one
 * for each (pad, channel, rank).
 *
 * Costs: a signal is a round trip to this device's own L2 and one store over the link; a wait polls
 * this device's memory, never the link, and takes one round trip to L2 when it need not wait; the
 * host's memory is read only by waits that have polled for about 20 microseconds.
 */
#ifndef SYMM_DEVICE_CUH
#define SYMM_DEVICE_CUH

#include <symm/types.h>
#include <symm/detail/device_select.cuh> /* SYMM_DEV, SYMM_KERNEL, PTX or emulated bodies */

/*
 * SYMM_KERNEL(name, args_type, a, max_threads) { body }
 *
 * Defines extern "C" __global__ void name(const __grid_constant__ args_type a), and registers it
 * with the emulated driver. The one argument is a plain struct that C can fill in;
 * symm_kernel_load() finds it by `name`.
 */

/* ------------------------------------------------------------------------------------ addresses */

/*
 * Rank `rank`'s copy of my `symmetric` object. Any thread; one addition. Use it with the functions
 * below.
 */
template <typename T> SYMM_DEV T *symm_dev_peer(const symm_view &v, T *symmetric, int rank);

/*
 * The address of all copies at once. Any thread. Only for symm_dev_multimem_*; a plain access to it
 * faults.
 */
template <typename T> SYMM_DEV T *symm_dev_multicast(const symm_view &v, T *symmetric);

/* Whether this group has multicast: the same answer on every rank. Any thread. */
SYMM_DEV bool symm_dev_has_multicast(const symm_view &v);

/* -------------------------------------------------------------------------------------- signals */

/*
 * Adds n to my signals on the channel of rank `to`. One thread. Release at system scope: whoever
 * sees the signal sees what this thread wrote before and, after a __syncthreads, what its block
 * wrote. Multimem stores are not among it: those need a barrier. After an abort it does nothing.
 */
SYMM_DEV void symm_dev_signal(const symm_view &v, symm_signal_pad *pad, int channel, int to,
                              uint32_t n = 1);

/*
 * Waits for n signals of rank `from` that no wait has taken yet, and takes them. One thread.
 * Acquire at system scope. After an abort it returns at once and takes nothing; after a while
 * without progress it leaves a record of whom it waits for, from which the host tells slow from
 * dead.
 */
SYMM_DEV void symm_dev_wait(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                            uint32_t n = 1);

/*
 * Waits until n signals of rank `from` have come that no wait has taken yet, and takes none: many
 * blocks may look for the same progress. A symm_dev_wait for all of them ends the round. One
 * thread. Ordering and abort as symm_dev_wait.
 */
SYMM_DEV void symm_dev_wait_peek(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                                 uint32_t n);

/*
 * Barrier of this block with the block that uses the same channel on every other rank. Whole block.
 * Orders all earlier accesses of all these blocks before all later ones, unicast and multicast
 * alike (fence.proxy.alias on both sides, where the group has multicast). After an abort it returns
 * at once. symm_dev_arrive followed by symm_dev_wait_all is the barrier in two halves, with work
 * that does not touch the data in between.
 */
SYMM_DEV void symm_dev_barrier(const symm_view &v, symm_signal_pad *pad, int channel);
SYMM_DEV void symm_dev_arrive(const symm_view &v, symm_signal_pad *pad, int channel);
SYMM_DEV void symm_dev_wait_all(const symm_view &v, symm_signal_pad *pad, int channel);

/*
 * A barrier that carries a word: returns, in all threads of all these blocks alike, whether every
 * rank came with the same word. Whole block. It costs what the barrier costs, since the word
 * travels in the signal. The channel must be used for nothing else between this barrier and the
 * next one on another channel. After an abort: false.
 */
SYMM_DEV bool symm_dev_barrier_agree(const symm_view &v, symm_signal_pad *pad, int channel,
                                     uint32_t word);

/*
 * Whether the group has been aborted as far as this rank knows. Whole block; all threads get the
 * same answer.
 */
SYMM_DEV bool symm_dev_aborted(const symm_view &v);

/* ----------------------------------------------------------------------------------------- data */

/*
 * 16 bytes at a time, with arithmetic in fp32. T: float, symm_f16, symm_bf16. Any thread. Pointers
 * are aligned to 16 bytes. None of them orders anything: signals and barriers do.
 */
template <typename T> struct alignas(16) symm_pack {
    T e[16 / sizeof(T)];
};
template <typename T> struct symm_f32s { /* what a pack sums to */
    float e[16 / sizeof(T)];
};

/* Loads a pack, of my memory or a peer's. */
template <typename T> SYMM_DEV symm_f32s<T> symm_dev_load(const T *p);
/* Stores a pack, rounding each element once, to nearest even. */
template <typename T> SYMM_DEV void symm_dev_store(T *p, const symm_f32s<T> &x);
/*
 * The sum of all ranks' packs at my `symmetric`, in the order of the ranks: the same bits on every
 * rank.
 */
template <typename T> SYMM_DEV symm_f32s<T> symm_dev_sum(const symm_view &v, const T *symmetric);
/* Stores a pack to all ranks' copies. */
template <typename T>
SYMM_DEV void symm_dev_store_all(const symm_view &v, T *symmetric, const symm_f32s<T> &x);
/*
 * The sum of all ranks' packs, made by the switch: fp32 accumulation, unspecified order. sm_90 or
 * newer.
 */
template <typename T> SYMM_DEV symm_f32s<T> symm_dev_multimem_sum(const T *multicast);
/* Stores a pack to all ranks' copies through the switch. sm_90 or newer. */
template <typename T> SYMM_DEV void symm_dev_multimem_store(T *multicast, const symm_f32s<T> &x);

/* The sum of x over the threads of the block, in all of them. Whole block, of any size. */
SYMM_DEV float symm_dev_block_sum(float x);

#include <symm/detail/device_inline.cuh> /* the bodies of what is declared above */

#endif
