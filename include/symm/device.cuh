/*
 * symm/device.cuh - symmetric memory inside kernels. Free functions in C++17; nothing to construct
 * or to close.
 *
 * One source, two compilers: nvcc for GPUs, and the host compiler (symm_add_kernels() in CMake) for
 * the emulated driver, which runs blockDim threads a block, so that __syncthreads, __shared__,
 * shuffles and votes mean what they mean. Every access to symmetric memory of other ranks, every
 * flag and every multimem instruction goes through the functions below; detail/ has one instruction
 * a function. symm's own collectives use nothing else. docs/memory-model.md explains the ordering.
 *
 * Who calls. "Whole block": all threads of a block, of any size from 1, converged. These functions
 * begin and end with __syncthreads or with what does as much: what a thread wrote before is there
 * for the others after. "One thread": any one thread, but at a time one for each (pad, channel,
 * rank). "Any thread": any thread, at any time.
 *
 * After an abort every wait returns at once and no signal leaves this rank any more: the kernel
 * runs to its end, its results are garbage, symm_check() says so, and no peer takes them for good.
 * Nothing here traps, prints or returns early. A kernel that *writes into other ranks' memory*
 * after a wait asks symm_dev_aborted() first and leaves out the writes if it says so, because the
 * owner may still be using what lies there.
 *
 * Time. There is no clock here: a wait that sees nothing for long leaves a record of whom it waits
 * for, from which the host tells slow from dead and ends the group when the timeout is over.
 *
 * Cost. A signal is a round trip to this device's own L2 and one store over the link; a wait polls
 * this device's memory, never the link, and takes one round trip to L2 when it need not wait; the
 * host's memory is read only by waits that have polled about a thousand times. What else a
 * function costs stands beside it.
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
 * symm_kernel_load() finds it by `name`. SYMM_KERNEL_BOUNDS has one more parameter, the second of
 * __launch_bounds__: how many blocks a multiprocessor shall have room for; SYMM_KERNEL_REGISTERS
 * that of __maxnreg__: how many registers a thread may have (nvcc 12.4 and newer).
 */

/* ------------------------------------------------------------------------------------ addresses */

/*
 * Rank `rank`'s copy of my `symmetric` object. Any thread; one addition. Use it with the functions
 * below.
 */
template <typename T> SYMM_DEV T *symm_dev_peer(const symm_view &v, T *symmetric, int rank);

/*
 * The address of all copies at once. Any thread; one addition. Only for symm_dev_multimem_*; a
 * plain access to it faults.
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
 * Acquire at system scope. After an abort it returns at once and takes nothing.
 */
SYMM_DEV void symm_dev_wait(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                            uint32_t n = 1);

/*
 * Waits until n signals of rank `from` have come that no wait has taken yet, and takes none: many
 * blocks may look for the same progress. A symm_dev_wait for all of them ends the round. Any
 * thread. Ordering and abort as symm_dev_wait.
 */
SYMM_DEV void symm_dev_wait_peek(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                                 uint32_t n);

/* ------------------------------------------------------------------------------------- barriers */

/*
 * Barrier of this block with the block that uses the same channel on every other rank. Whole block.
 * Orders all earlier accesses of all these blocks before all later ones, unicast and multicast
 * alike (fence.proxy.alias on both sides, where the group has multicast: about a microsecond each).
 * It costs one store over the link to each rank, side by side, and the way of the slowest. After an
 * abort it returns at once. symm_dev_arrive followed by symm_dev_wait_all is the barrier in two
 * halves, with work that does not touch the data in between.
 */
SYMM_DEV void symm_dev_barrier(const symm_view &v, symm_signal_pad *pad, int channel);
SYMM_DEV void symm_dev_arrive(const symm_view &v, symm_signal_pad *pad, int channel,
                              uint32_t word = 0);
SYMM_DEV void symm_dev_wait_all(const symm_view &v, symm_signal_pad *pad, int channel);

/*
 * A barrier that carries a word: returns, in all threads of all these blocks alike, whether every
 * rank came with the same word. Whole block. It costs what the barrier costs, since the word
 * travels in the signal. The channel must be used for nothing else between this barrier and the
 * next one on another channel. After an abort: false.
 */
SYMM_DEV bool symm_dev_barrier_test_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                          uint32_t word);

/*
 * The same, where ranks that come with different words have called different things: that ends the
 * group with ERROR_MISMATCH, and the text names two of them. Whole block; true when all is well, in
 * all threads alike. The channel as for symm_dev_barrier_test_equal.
 */
SYMM_DEV bool symm_dev_barrier_require_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                             uint32_t word);

/*
 * The second halves of these two, after symm_dev_arrive with the same word. Whole block. Arrivals
 * on one channel may follow each other without a wait in between, if all of them carry one word.
 */
SYMM_DEV bool symm_dev_wait_all_test_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                           uint32_t word);
SYMM_DEV bool symm_dev_wait_all_require_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                              uint32_t word);

/*
 * Barrier of all blocks of this rank's grid, which must be resident together (symm_launch() sees to
 * it). Whole block. Orders all earlier accesses of these blocks before all later ones, at the scope
 * of the device. The counters are those of the channel with this rank itself, on which nothing else
 * may count. Costs an atomic and a few round trips to L2. After an abort it returns at once.
 */
SYMM_DEV void symm_dev_grid_sync(const symm_view &v, symm_signal_pad *pad, int channel);

/*
 * Barrier of all blocks of all ranks' grids: symm_dev_grid_sync, with a symm_dev_barrier of the
 * block that came last in the middle. One channel. Whole block. Orders as symm_dev_barrier does.
 */
SYMM_DEV void symm_dev_grid_barrier(const symm_view &v, symm_signal_pad *pad, int channel);

/*
 * Whether the group has been aborted as far as this rank knows. Whole block; all threads get the
 * same answer. One round trip to L2.
 */
SYMM_DEV bool symm_dev_aborted(const symm_view &v);

/* ---------------------------------------------------------------------------------- data access */

/*
 * None of what follows, down to the packets, orders anything: signals and barriers do. Nor does an
 * abort change what it does. Addresses are those of this rank or of a peer, in global memory: a
 * local or __shared__ variable is read and written as C++ does.
 */

/* 16 bytes as the memory system moves them: four words, of any types. */
typedef symm_detail::bits16 symm_bits16;

/* The floats that 16 bytes of T hold. T: float, symm_f16, symm_bf16. */
template <typename T> struct symm_f32s {
    float e[16 / sizeof(T)];
};

/* Loads and stores 16 bytes. Any thread; aligned to 16 bytes. */
SYMM_DEV symm_bits16 symm_dev_load_bits(const void *p);
SYMM_DEV void symm_dev_store_bits(void *p, const symm_bits16 &x);

/* Loads and stores one element of 1, 2, 4 or 8 bytes. Any thread; naturally aligned. */
template <typename T> SYMM_DEV T symm_dev_load_one(const T *p);
template <typename T> SYMM_DEV void symm_dev_store_one(T *p, T x);

/* Conversion, exact one way and rounding once, to nearest even, the other. Any thread. */
template <typename T> SYMM_DEV symm_f32s<T> symm_dev_unpack(const symm_bits16 &x);
template <typename T> SYMM_DEV symm_bits16 symm_dev_pack(const symm_f32s<T> &x);
SYMM_DEV float symm_dev_widen(float x);
SYMM_DEV float symm_dev_widen(symm_f16 x);
SYMM_DEV float symm_dev_widen(symm_bf16 x);
template <typename T> SYMM_DEV T symm_dev_narrow(float x);

/* Loads a pack of 16 bytes as floats; stores one, rounding each element once. Any thread. */
template <typename T> SYMM_DEV symm_f32s<T> symm_dev_load(const T *p);
template <typename T> SYMM_DEV void symm_dev_store(T *p, const symm_f32s<T> &x);

/* sum += x, element by element. Any thread. */
template <typename T> SYMM_DEV void symm_dev_add(symm_f32s<T> &sum, const symm_f32s<T> &x);

/*
 * The sum of all ranks' packs at my `symmetric`, in fp32 and in the order of the ranks: the same
 * bits on every rank. Any thread. One load from each rank, four in flight.
 */
template <typename T> SYMM_DEV symm_f32s<T> symm_dev_sum(const symm_view &v, const T *symmetric);

/* Stores a pack to all ranks' copies, beginning with one's own. Any thread. */
template <typename T>
SYMM_DEV void symm_dev_store_all(const symm_view &v, T *symmetric, const symm_f32s<T> &x);

/*
 * Adds x to *p, which may be a peer's: atomic at system scope, and nothing comes back, so it costs
 * no round trip. Any thread. T: uint32_t, int32_t, uint64_t, int64_t, float, double. The order in
 * which ranks' additions come is unspecified.
 */
template <typename T> SYMM_DEV void symm_dev_red_add(T *p, T x);

/* ------------------------------------------------------------------------------------ transfers */

/*
 * Copies nbytes between any device memory, of this rank or a peer, of any alignment; 16 bytes at a
 * time, four in flight a thread, where both sides are aligned alike. They do not overlap. The
 * block's threads share the work (whole block, but nobody waits for anybody), or one thread does
 * all of it.
 */
SYMM_DEV void symm_dev_copy(void *to, const void *from, size_t nbytes);
SYMM_DEV void symm_dev_copy_thread(void *to, const void *from, size_t nbytes);

/*
 * The same into rank `to`'s copy of the symmetric object at dst. A __syncthreads and then a
 * symm_dev_signal make it a put with signal.
 */
SYMM_DEV void symm_dev_put(const symm_view &v, void *dst, const void *src, size_t nbytes, int to);
SYMM_DEV void symm_dev_put_thread(const symm_view &v, void *dst, const void *src, size_t nbytes,
                                  int to);

/*
 * The same by the copy unit (TMA bulk copies, sm_90 and newer), driven by one thread, through
 * shared_nbytes of the block's shared memory at `shared`, aligned to 128 bytes: leaves the other
 * threads free. The more of it, the more is under way at a time. Returns when all is written, as if
 * this thread had written it; and it reads what this thread could have read. Where the copy unit
 * does not serve (older GPUs, dst, src or nbytes not multiples of 16, less than 1 KiB of shared
 * memory) it is symm_dev_put_thread.
 */
SYMM_DEV void symm_dev_put_bulk(const symm_view &v, void *dst, const void *src, size_t nbytes,
                                int to, void *shared, uint32_t shared_nbytes);

/* ------------------------------------------------------------------------------------- multimem */

/*
 * Through the switch, on addresses of symm_dev_multicast(); 16 bytes, aligned, unless it is one
 * element. sm_90 and newer; a kernel for older GPUs compiles and never gets here, since a group of
 * such GPUs has no multicast. Any thread. A symm_dev_barrier before and after orders them with each
 * other and with everything else; signals alone do not.
 */

/*
 * What the switch makes of all ranks' 16 bytes, in an unspecified order. SYMM_SUM: float, double,
 * symm_f16 and symm_bf16 (added in fp32, rounded once), int32_t, uint32_t, int64_t, uint64_t.
 * SYMM_MIN, SYMM_MAX: the integers, symm_f16 and symm_bf16.
 */
template <symm_redop OP, typename T> SYMM_DEV symm_bits16 symm_dev_multimem_reduce(const T *p);

/* The sum as floats. T: float, symm_f16, symm_bf16. */
template <typename T> SYMM_DEV symm_f32s<T> symm_dev_multimem_sum(const T *multicast);

/* Stores 16 bytes, or a pack of floats rounded once, to all ranks' copies. */
SYMM_DEV void symm_dev_multimem_store_bits(void *multicast, const symm_bits16 &x);
template <typename T> SYMM_DEV void symm_dev_multimem_store(T *multicast, const symm_f32s<T> &x);

/*
 * Adds to all ranks' copies, atomically in each of them; nothing comes back. One element of type
 * uint32_t, int32_t, uint64_t, int64_t, float or double; or a pack of float, symm_f16 or symm_bf16,
 * each element of which is atomic by itself.
 */
template <typename T> SYMM_DEV void symm_dev_multimem_red_add(T *multicast, T x);
template <typename T> SYMM_DEV void symm_dev_multimem_red_add(T *multicast, const symm_f32s<T> &x);

/* -------------------------------------------------------------------------------------- packets */

/*
 * Data and readiness in one message: a packet of 16 bytes carries 12 and a flag, and all of it
 * comes at once. The receiver polls the packet itself, so nothing else need be signalled or
 * ordered: half the latency of a signal after data, for a third more bytes. symm_packet (types.h)
 * lies in symmetric memory that its rank has zeroed before the first use.
 *
 * A slot must never be waited for with a flag that an earlier packet in it had. Use what
 * symm_dev_epoch() returns, and two sets of slots by turns (its lowest bit): who has received all
 * packets of one epoch knows that all others have read those of the epoch before.
 */
struct symm_bits12 {
    uint32_t w[3];
};

/*
 * The number of this use of the channel, counted on the device, so that graphs replay: never 0, and
 * even and odd by turns for ever (after the largest comes 2). Whole block; the same in all threads,
 * and, called alike, on all ranks. The counter is that of the channel with this rank itself, on
 * which nothing else may count. After an abort: 0. One round trip to L2.
 */
SYMM_DEV uint32_t symm_dev_epoch(const symm_view &v, symm_signal_pad *pad, int channel);

/*
 * Puts a packet into rank `to`'s copy of my `slot`. Any thread, a slot by one thread at a time.
 * Orders nothing. With flag 0, which symm_dev_epoch returns after an abort, it does nothing.
 */
SYMM_DEV void symm_dev_send16(const symm_view &v, symm_packet *slot, const symm_bits12 &x,
                              uint32_t flag, int to);

/*
 * Waits for the packet with this flag in my `slot`, which rank `from` sends, and returns what it
 * carries. Any thread; several may wait for the same packet. Orders nothing but the packet. After
 * an abort, or with flag 0, it returns zeros at once; who would send on what it makes of them must
 * know, and uses symm_dev_recv16_all.
 */
SYMM_DEV symm_bits12 symm_dev_recv16(const symm_view &v, const symm_packet *slot, uint32_t flag,
                                     int from);

/*
 * Waits for N packets at once, slots[i] from rank from[i], in the time of the slowest. What they
 * carry is in x. Returns whether all have come; if not, after an abort or with flag 0, all of x is
 * zeros. Else as symm_dev_recv16.
 */
template <int N>
SYMM_DEV bool symm_dev_recv16_all(const symm_view &v, const symm_packet *const (&slots)[N],
                                  uint32_t flag, const int (&from)[N], symm_bits12 (&x)[N]);

/* ---------------------------------------------------------------- programmatic dependent launch */

/*
 * A kernel launched with SYMM_GRID_PDL may begin while the kernel before it in the stream still
 * runs: it must call symm_dev_pdl_wait before it touches anything that another kernel has to do
 * with, signal pads and packets included. That returns when all earlier kernels are done and what
 * they wrote can be read. symm_dev_pdl_release says that the next kernel may begin, if it was
 * launched so; without it that is so at the end. Any thread; every thread that needs it, or one
 * before a __syncthreads. Without such a launch, and before sm_90, both do nothing.
 */
SYMM_DEV void symm_dev_pdl_wait(void);
SYMM_DEV void symm_dev_pdl_release(void);

/* ---------------------------------------------------------------------------------------- block */

/* The sum of x over the threads of the block, in all of them. Whole block. */
SYMM_DEV float symm_dev_block_sum(float x);

#include <symm/detail/device_inline.cuh> /* the bodies of what is declared above */

#endif
