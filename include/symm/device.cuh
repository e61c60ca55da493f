/*
 * symm/device.cuh - symmetric memory in kernels. Free functions in C++17, without objects to
 * construct or destroy.
 *
 * One source serves two compilers: nvcc for GPUs, and the host compiler (symm_add_kernels() in
 * CMake) for the emulated driver. The emulated driver runs all blockDim threads of a block, so
 * __syncthreads, __shared__, shuffles and warp votes work as on GPUs. Every access to symmetric
 * memory of other ranks, every flag and every multimem instruction goes through the functions
 * below. In detail/, each of these instructions is one function. docs/memory-model.md explains the
 * ordering.
 *
 * Callers. "Whole block": all threads of a block, of any size from 1, converged. These functions
 * begin and end with __syncthreads or an equivalent: data that a thread wrote before the call is
 * visible to the block's other threads after it. "One thread": any thread, but one at a time for
 * each (pad, channel, rank). "Any thread": any thread, at any time.
 *
 * Abort. A rank notices an abort in a wait that has polled about a thousand times. From then on
 * every wait returns at once and this rank sends no more signals; "after an abort" below means
 * that. The kernel runs to its end with garbage as results, symm_check() returns the error, and no
 * peer accepts the results. No function traps, prints or ends the kernel. A kernel that *writes
 * into other ranks' memory* after a wait must call symm_dev_aborted() first and skip the writes if
 * it returns true, because the owner may still use that memory.
 *
 * Timeout. Kernels read no clock. A wait that makes no progress for long writes a record of the
 * awaited rank. The host reads the record, reports slow ranks, and ends the group after the
 * timeout.
 *
 * Cost. A signal takes one round trip to this device's L2 and one store over the link. A wait polls
 * this device's memory, never the link, and takes one round trip to L2 if the signal is there. Only
 * waits that have polled about a thousand times read host memory. Other costs are given with each
 * function.
 */
#ifndef SYMM_DEVICE_CUH
#define SYMM_DEVICE_CUH

#include <symm/types.h>
#include <symm/detail/device_select.cuh> /* SYMM_DEV, SYMM_KERNEL, PTX or emulated bodies */

/*
 * SYMM_KERNEL(name, args_type, a, max_threads) { body }
 *
 * Defines extern "C" __global__ void name(const __grid_constant__ args_type a), and registers it
 * with the emulated driver. The argument is a plain struct that C can fill in. symm_kernel_load()
 * finds the kernel by `name`. SYMM_KERNEL_BOUNDS has one more parameter, the second of
 * __launch_bounds__: the minimum of blocks per SM. SYMM_KERNEL_REGISTERS has that of __maxnreg__:
 * the most registers of a thread (nvcc 12.4 and newer). The emulated driver gives each thread the
 * registers that these bounds allow: without a minimum of 2, an SM may hold one block.
 *
 * SYMM_DYNAMIC_SHARED(type, name, alignment) declares name, the block's dynamic shared memory of
 * symm_grid.smem_nbytes bytes. alignment: in bytes, at most 1024.
 */

/* ------------------------------------------------------------------------------------ addresses */

/*
 * The address of rank `rank`'s copy of the object at this rank's address `symmetric`. Any thread;
 * one addition. Access it with the functions below.
 */
template <typename T> SYMM_DEV T *symm_dev_peer(const symm_view &v, T *symmetric, int rank);

/*
 * The multicast address of all copies. Any thread; one addition. Only for symm_dev_multimem_*; a
 * plain access to it faults.
 */
template <typename T> SYMM_DEV T *symm_dev_multicast(const symm_view &v, T *symmetric);

/* Whether this group has multicast; the same on every rank. Any thread. */
SYMM_DEV bool symm_dev_has_multicast(const symm_view &v);

/* -------------------------------------------------------------------------------------- signals */

/*
 * Adds n signals of this rank on the channel of rank `to`. One thread. Release at system scope: a
 * thread that acquires the signal sees the earlier writes of this thread and, after a
 * __syncthreads, of its block. It does not order multimem stores; these need a barrier. After an
 * abort it does nothing.
 */
SYMM_DEV void symm_dev_signal(const symm_view &v, symm_signal_pad *pad, int channel, int to,
                              uint32_t n = 1);

/*
 * Counts n signals to rank `to` as sent without sending them. Returns the count that delivers them:
 * the caller has these 8 bytes written to rank `to`'s pad, by a copy engine, behind the data that
 * they announce. With n 0, which a sender uses after an abort, that is the count already there. One
 * thread.
 */
SYMM_DEV uint64_t symm_dev_signal_reserve(const symm_view &v, symm_signal_pad *pad, int channel,
                                          int to, uint32_t n);

/*
 * Waits for n signals of rank `from` that no wait has taken yet, and takes them. One thread.
 * Acquire at system scope. After an abort it returns at once and takes none.
 */
SYMM_DEV void symm_dev_wait(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                            uint32_t n = 1);

/*
 * Waits for n signals of rank `from` that no wait has taken yet, and takes none, so many blocks can
 * wait for the same progress. One symm_dev_wait for all of them ends the round. Any thread.
 * Ordering and abort as symm_dev_wait.
 */
SYMM_DEV void symm_dev_wait_peek(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                                 uint32_t n);

/* ------------------------------------------------------------------------------------- barriers */

/*
 * Barrier of this block with the block that uses the same channel on every other rank. Whole block.
 * Orders all earlier accesses of these blocks before all later ones, both unicast and multicast (if
 * the group has multicast, by fence.proxy.alias on both sides, about a microsecond each). Costs one
 * store over the link to each rank, in parallel, and the latency of the slowest. After an abort it
 * returns at once. symm_dev_arrive followed by symm_dev_wait_all is the barrier in two halves; work
 * in between must not touch the shared data.
 */
SYMM_DEV void symm_dev_barrier(const symm_view &v, symm_signal_pad *pad, int channel);
SYMM_DEV void symm_dev_arrive(const symm_view &v, symm_signal_pad *pad, int channel,
                              uint32_t word = 0);
SYMM_DEV void symm_dev_wait_all(const symm_view &v, symm_signal_pad *pad, int channel);

/*
 * A barrier that carries a word. Returns whether all ranks came with the same word; all threads of
 * these blocks get the same answer. Whole block. Costs as much as the barrier, since the word
 * travels in the signal. The channel must not be used otherwise between this barrier and the next
 * one on another channel. After an abort it returns false.
 */
SYMM_DEV bool symm_dev_barrier_test_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                          uint32_t word);

/*
 * The same, but different words mean that the ranks called different things: this ends the group
 * with ERROR_MISMATCH, and the text names two such ranks. Whole block. Returns true if all words
 * are equal, the same in all threads. The channel as for symm_dev_barrier_test_equal.
 */
SYMM_DEV bool symm_dev_barrier_require_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                             uint32_t word);

/*
 * The second halves of these two, after symm_dev_arrive with the same word. Whole block. Several
 * arrivals on one channel may precede the waits if all of them carry the same word.
 */
SYMM_DEV bool symm_dev_wait_all_test_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                           uint32_t word);
SYMM_DEV bool symm_dev_wait_all_require_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                              uint32_t word);

/*
 * Barrier of all blocks of this rank's grid, which must be resident together (symm_launch() ensures
 * it). Whole block. Orders all earlier accesses of these blocks before all later ones, at device
 * scope. Uses the channel's counters of this rank with itself, which must not be used otherwise.
 * Costs an atomic and a few round trips to L2. If the group has multicast, it also orders unicast
 * and multicast accesses, by two fences of about a microsecond. After an abort it returns at once.
 */
SYMM_DEV void symm_dev_grid_sync(const symm_view &v, symm_signal_pad *pad, int channel);

/*
 * Barrier of all blocks of all ranks' grids: a symm_dev_grid_sync in which the last block of each
 * rank performs a symm_dev_barrier. One channel. Whole block. Orders as symm_dev_barrier.
 */
SYMM_DEV void symm_dev_grid_barrier(const symm_view &v, symm_signal_pad *pad, int channel);

/*
 * Whether this rank knows that the group was aborted. Whole block; all threads get the same answer.
 * One round trip to L2.
 */
SYMM_DEV bool symm_dev_aborted(const symm_view &v);

/* ---------------------------------------------------------------------------------- data access */

/*
 * The functions from here to the packets order nothing; signals and barriers do. An abort does not
 * change them. Addresses are in global memory of this rank or a peer; access local and __shared__
 * variables directly.
 */

/* 16 bytes of any types, as four words. */
typedef symm_detail::bits16 symm_bits16;

/* The elements of 16 bytes of T as floats. T: float, symm_f16, symm_bf16. */
template <typename T> struct symm_f32s {
    float e[16 / sizeof(T)];
};

/* Loads and stores 16 bytes. Any thread; aligned to 16 bytes. */
SYMM_DEV symm_bits16 symm_dev_load_bits(const void *p);
SYMM_DEV void symm_dev_store_bits(void *p, const symm_bits16 &x);

/* Loads and stores one element of 1, 2, 4 or 8 bytes. Any thread; naturally aligned. */
template <typename T> SYMM_DEV T symm_dev_load_one(const T *p);
template <typename T> SYMM_DEV void symm_dev_store_one(T *p, T x);

/*
 * Conversions. Unpack and widen are exact; pack and narrow round once, to nearest even. Any thread.
 */
template <typename T> SYMM_DEV symm_f32s<T> symm_dev_unpack(const symm_bits16 &x);
template <typename T> SYMM_DEV symm_bits16 symm_dev_pack(const symm_f32s<T> &x);
SYMM_DEV float symm_dev_widen(float x);
SYMM_DEV float symm_dev_widen(symm_f16 x);
SYMM_DEV float symm_dev_widen(symm_bf16 x);
template <typename T> SYMM_DEV T symm_dev_narrow(float x);

/* Loads a pack of 16 bytes as floats; stores a pack and rounds each element once. Any thread. */
template <typename T> SYMM_DEV symm_f32s<T> symm_dev_load(const T *p);
template <typename T> SYMM_DEV void symm_dev_store(T *p, const symm_f32s<T> &x);

/* sum += x, elementwise. Any thread. */
template <typename T> SYMM_DEV void symm_dev_add(symm_f32s<T> &sum, const symm_f32s<T> &x);

/*
 * The sum of all ranks' packs at `symmetric`, in fp32 and in rank order: the same bits on every
 * rank. Any thread. One load from each rank, four in flight.
 */
template <typename T> SYMM_DEV symm_f32s<T> symm_dev_sum(const symm_view &v, const T *symmetric);

/* Stores a pack to all ranks' copies, beginning with this rank's. Any thread. */
template <typename T>
SYMM_DEV void symm_dev_store_all(const symm_view &v, T *symmetric, const symm_f32s<T> &x);

/*
 * Adds x to *p, also on a peer. Atomic at system scope; returns nothing, so it costs no round trip.
 * Any thread. T: uint32_t, int32_t, uint64_t, int64_t, float, double. The order of the ranks'
 * additions is unspecified.
 */
template <typename T> SYMM_DEV void symm_dev_red_add(T *p, T x);

/* ------------------------------------------------------------------------------------ transfers */

/*
 * Copies nbytes within or between device memory of this rank and peers, with any alignment. If both
 * sides are aligned alike, moves 16 bytes at a time, four in flight per thread. The buffers must
 * not overlap. symm_dev_copy: whole block; the threads share the work, without a __syncthreads.
 * symm_dev_copy_thread: one thread does all of it.
 */
SYMM_DEV void symm_dev_copy(void *to, const void *from, size_t nbytes);
SYMM_DEV void symm_dev_copy_thread(void *to, const void *from, size_t nbytes);

/*
 * The same into rank `to`'s copy of the symmetric object at dst. With a __syncthreads and a
 * symm_dev_signal after it, this is a put with signal.
 */
SYMM_DEV void symm_dev_put(const symm_view &v, void *dst, const void *src, size_t nbytes, int to);
SYMM_DEV void symm_dev_put_thread(const symm_view &v, void *dst, const void *src, size_t nbytes,
                                  int to);

/*
 * The same by the copy unit (TMA bulk copies, sm_90 and newer). One thread drives it, so the other
 * threads are free. Data goes through shared_nbytes of the block's shared memory at `shared`,
 * aligned to 128 bytes; more shared memory allows more bytes in flight. Reads count as this
 * thread's reads. When it returns, all bytes are written, as if by this thread. On older GPUs, if
 * dst, src or nbytes are not multiples of 16, or with less than 1 KiB of shared memory, it is
 * symm_dev_put_thread.
 */
SYMM_DEV void symm_dev_put_bulk(const symm_view &v, void *dst, const void *src, size_t nbytes,
                                int to, void *shared, uint32_t shared_nbytes);

/* ------------------------------------------------------------------------------------- multimem */

/*
 * Operations in the switch, on addresses of symm_dev_multicast(): 16 bytes, aligned, or one
 * element. sm_90 and newer. Kernels for older GPUs compile but never come here, since a group of
 * such GPUs has no multicast. Any thread. A symm_dev_barrier before and after orders them with each
 * other and with other accesses; signals alone do not.
 */

/*
 * Reduces all ranks' 16 bytes in the switch, in an unspecified order. SYMM_SUM: float, double,
 * symm_f16 and symm_bf16 (added in fp32, rounded once), int32_t, uint32_t, int64_t, uint64_t.
 * SYMM_MIN, SYMM_MAX: the integers, symm_f16 and symm_bf16.
 */
template <symm_redop OP, typename T> SYMM_DEV symm_bits16 symm_dev_multimem_reduce(const T *p);

/* The sum as floats. T: float, symm_f16, symm_bf16. */
template <typename T> SYMM_DEV symm_f32s<T> symm_dev_multimem_sum(const T *multicast);

/* Stores 16 bytes, or a pack of floats with one rounding, to all ranks' copies. */
SYMM_DEV void symm_dev_multimem_store_bits(void *multicast, const symm_bits16 &x);
template <typename T> SYMM_DEV void symm_dev_multimem_store(T *multicast, const symm_f32s<T> &x);

/*
 * Adds to all ranks' copies, atomically in each; returns nothing. One element of type uint32_t,
 * int32_t, uint64_t, int64_t, float or double; or a pack of float, symm_f16 or symm_bf16, atomic
 * for each element.
 */
template <typename T> SYMM_DEV void symm_dev_multimem_red_add(T *multicast, T x);
template <typename T> SYMM_DEV void symm_dev_multimem_red_add(T *multicast, const symm_f32s<T> &x);

/* -------------------------------------------------------------------------------------- packets */

/*
 * Data and flag in one message: a packet of 16 bytes carries 12 bytes of data and a flag, and
 * arrives as a whole. The receiver polls the packet itself, so no other signal or ordering is
 * needed. This takes half the latency of a signal after data, for a third more bytes. A symm_packet
 * (types.h) lies in symmetric memory that its rank zeroes before the first use.
 *
 * Never wait in a slot for a flag that an earlier packet in it had. Use the epochs of
 * symm_dev_epoch() as flags, and two sets of slots alternately (by the lowest bit). A rank that has
 * received all packets of an epoch knows that all other ranks have read the packets of the epoch
 * before.
 */
struct symm_bits12 {
    uint32_t w[3];
};

/*
 * The number of this use of the channel, counted on the device, so graphs replay. Never 0;
 * alternately odd and even, also across the wrap (the largest value is followed by 2). Whole block;
 * the same in all threads and, if all ranks call it equally often, on all ranks. Uses the channel's
 * counter of this rank with itself, which must not be used otherwise. After an abort it returns 0.
 * One round trip to L2.
 */
SYMM_DEV uint32_t symm_dev_epoch(const symm_view &v, symm_signal_pad *pad, int channel);

/*
 * Writes a packet into rank `to`'s copy of `slot`. Any thread; one thread at a time per slot.
 * Orders nothing. With flag 0, the epoch after an abort, it does nothing.
 */
SYMM_DEV void symm_dev_send16(const symm_view &v, symm_packet *slot, const symm_bits12 &x,
                              uint32_t flag, int to);

/*
 * Waits for the packet with this flag from rank `from` in this rank's `slot`, and returns its data.
 * Any thread; several may wait for the same packet. Orders only the packet itself. After an abort
 * it returns the packet if it has come, else zeros, at once; with flag 0 zeros. If the data is sent
 * on, use symm_dev_recv16_all, which reports this case.
 */
SYMM_DEV symm_bits12 symm_dev_recv16(const symm_view &v, const symm_packet *slot, uint32_t flag,
                                     int from);

/*
 * Waits for N packets at once, slots[i] from rank from[i], in the time of the slowest. x: their
 * data. Returns whether all have come. If not, after an abort or with flag 0, all of x is zero.
 * Otherwise as symm_dev_recv16.
 */
template <int N>
SYMM_DEV bool symm_dev_recv16_all(const symm_view &v, const symm_packet *const (&slots)[N],
                                  uint32_t flag, const int (&from)[N], symm_bits12 (&x)[N]);

/* ---------------------------------------------------------------- programmatic dependent launch */

/*
 * A kernel launched with SYMM_GRID_PDL may begin while the previous kernel in the stream still
 * runs. It must call symm_dev_pdl_wait before it accesses memory that another kernel uses,
 * including signal pads and packets. That returns when all earlier kernels are done and their
 * writes are visible. symm_dev_pdl_release allows the next kernel to begin, if it was launched with
 * the flag; without the call it may begin at this kernel's end. Called by every thread that needs
 * it, or by one thread before a __syncthreads. One thread's release is its block's; the next kernel
 * begins when all blocks have released it. Without such a launch, and before sm_90, both do
 * nothing.
 */
SYMM_DEV void symm_dev_pdl_wait(void);
SYMM_DEV void symm_dev_pdl_release(void);

/* ---------------------------------------------------------------------------------------- block */

/* The sum of x over the threads of the block, returned to all of them. Whole block. */
SYMM_DEV float symm_dev_block_sum(float x);

#include <symm/detail/device_inline.cuh> /* the bodies of these functions */

#endif
