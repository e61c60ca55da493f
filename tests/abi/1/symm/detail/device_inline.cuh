/*
 * What device.cuh declares, written once for both machines in terms of their single instructions.
 */
#ifndef SYMM_DETAIL_DEVICE_INLINE_CUH
#define SYMM_DETAIL_DEVICE_INLINE_CUH

#include <symm/detail/wait_record.h>

namespace symm_detail
{

/*
 * How many polls a wait makes before it looks at the host's abort word, how often it looks again,
 * and how many before it tells the host whom it waits for. A poll takes well under a microsecond,
 * reading host memory takes a few.
 */
enum { LOOK_AFTER = 32, LOOK_EVERY = 256, TELL_AFTER = 4096 };

SYMM_DEV int thread_index(void)
{
    return (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}

SYMM_DEV int block_nthreads(void)
{
    return (int)(blockDim.x * blockDim.y * blockDim.z);
}

/* In this rank's pad: what `rank` has signalled to me on the channel, and I to it. */
SYMM_DEV symm_signal_cell *signal_cell(const symm_view &v, symm_signal_pad *pad, int channel,
                                       int rank)
{
    return reinterpret_cast<symm_signal_cell *>(pad) + (int64_t)channel * v.nranks + rank;
}

SYMM_DEV symm_device_line *device_line(const symm_view &v)
{
    return reinterpret_cast<symm_device_line *>(v.poison);
}

SYMM_DEV symm_wait_record *wait_record(const symm_view &v)
{
    return static_cast<symm_wait_record *>(v.record);
}

/* ----------------------------------------------------------------------------------- the record */

/* Fills in the record, which the caller has claimed, and makes it valid. */
SYMM_DEV void tell(const symm_view &v, const symm_wait_record &r)
{
    symm_wait_record *to = wait_record(v);
    uint32_t *serial = &device_line(v)->serial;
    const uint32_t next = load_relaxed(serial) + 1 ? load_relaxed(serial) + 1 : 1;
    store_relaxed(serial, next);
    store_relaxed(&to->kind, r.kind);
    store_relaxed(reinterpret_cast<uint32_t *>(&to->from), (uint32_t)r.from);
    store_relaxed(reinterpret_cast<uint32_t *>(&to->channel), (uint32_t)r.channel);
    store_relaxed(&to->expected, r.expected);
    store_relaxed(&to->seen, r.seen);
    store_relaxed(&to->pad, r.pad);
    store_release(&to->valid, next);
}

/* The wait of which the host was told is over. */
SYMM_DEV void untell(const symm_view &v)
{
    store_release(&wait_record(v)->valid, 0);
    store_release(&device_line(v)->claim, 0);
}

/*
 * Ends the group, because rank `from` came with another word: ranks called different things. One
 * thread of the rank tells; what it claims it keeps, so that the record stays. Waits that hold the
 * claim see the poison and let go.
 */
SYMM_DEV void tell_mismatch(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                            uint32_t mine, uint32_t theirs)
{
    store_relaxed(v.poison, 1);
    while (!compare_and_swap(&device_line(v)->claim, 0, 1)) {
        if (load_acquire(&wait_record(v)->valid) &&
            load_relaxed(&wait_record(v)->kind) == SYMM_WAIT_MISMATCH)
            return;
        pause();
    }
    tell(v, {0, SYMM_WAIT_MISMATCH, from, channel, mine, theirs, (uint64_t)(uintptr_t)pad, {}});
}

/* ------------------------------------------------------------------------------ signal and wait */

SYMM_DEV void signal(const symm_view &v, symm_signal_pad *pad, int channel, int to, uint32_t n,
                     uint32_t word)
{
    uint32_t *sent = &signal_cell(v, pad, channel, to)->sent;
    const uint32_t poison = load_relaxed(v.poison), count = load_relaxed(sent) + n;
    if (poison)
        return;
    store_relaxed(sent, count);
    uint64_t *arrived = &signal_cell(v, pad, channel, v.rank)->arrived;
    store_release(symm_dev_peer(v, arrived, to), (uint64_t)word << 32 | count);
}

/*
 * Waits until n signals beyond those taken have come, and takes `take` of them. Returns whether
 * they have come, with the word of the last one; false after an abort. The poison is read beside
 * every poll, so it costs no round trip.
 */
SYMM_DEV bool wait(const symm_view &v, symm_signal_pad *pad, int channel, int from, uint32_t n,
                   uint32_t take, uint32_t *word)
{
    symm_signal_cell *cell = signal_cell(v, pad, channel, from);
    const uint32_t taken = load_relaxed(&cell->taken);
    bool told = false, come = false;
    for (uint32_t polls = 0;; polls++) {
        const uint32_t poison = load_relaxed(v.poison);
        const uint64_t arrived = load_acquire(&cell->arrived);
        come = !poison && (int32_t)((uint32_t)arrived - taken - n) >= 0;
        if (come) {
            *word = (uint32_t)(arrived >> 32);
            if (take)
                store_relaxed(&cell->taken, taken + take);
        }
        if (come || poison)
            break;
        if (polls % LOOK_EVERY == LOOK_AFTER && load_acquire(v.abort))
            store_relaxed(v.poison, 1);
        if (!told && polls % TELL_AFTER == TELL_AFTER - 1 &&
            compare_and_swap(&device_line(v)->claim, 0, 1)) {
            tell(v, {0,
                     SYMM_WAIT_SIGNAL,
                     from,
                     channel,
                     taken + n,
                     (uint32_t)arrived,
                     (uint64_t)(uintptr_t)pad,
                     {}});
            told = true;
        }
        pause();
    }
    if (told)
        untell(v);
    return come;
}

/*
 * Orders unicast and multicast accesses. It takes microseconds, so a group without multicast, which
 * has no multicast address to use, goes without.
 */
SYMM_DEV void fence_if_multicast(const symm_view &v)
{
    if (v.flags & SYMM_VIEW_MULTICAST)
        fence_alias();
}

/* Both halves of a barrier that carries a word. The ranks are spread over the threads of the block.
 */
SYMM_DEV void arrive(const symm_view &v, symm_signal_pad *pad, int channel, uint32_t word)
{
    fence_if_multicast(v);
    __syncthreads();
    for (int r = thread_index(); r < v.nranks; r += block_nthreads())
        if (r != v.rank)
            signal(v, pad, channel, r, 1, word);
}

/* Returns, in the thread that has met it, a rank that came with another word; -1: none; -2: the
 * group is aborted. */
SYMM_DEV int wait_all(const symm_view &v, symm_signal_pad *pad, int channel, uint32_t word,
                      uint32_t *theirs)
{
    int other = -1;
    for (int r = thread_index(); r < v.nranks; r += block_nthreads()) {
        uint32_t came = word;
        if (r == v.rank)
            continue;
        if (!wait(v, pad, channel, r, 1, 1, &came))
            other = -2;
        else if (came != word && other == -1) {
            other = r;
            *theirs = came;
        }
    }
    fence_if_multicast(v);
    return other;
}

/*
 * A barrier at which every rank must come with the same word: else they called different things,
 * which ends the group. Whole block; false, in all threads, after that and after an abort.
 */
SYMM_DEV bool barrier_insist(const symm_view &v, symm_signal_pad *pad, int channel, uint32_t word)
{
    uint32_t theirs = 0;
    arrive(v, pad, channel, word);
    const int other = wait_all(v, pad, channel, word, &theirs);
    if (other >= 0)
        tell_mismatch(v, pad, channel, other, word, theirs);
    return !__syncthreads_or(other != -1);
}

/* ---------------------------------------------------------------------------------------- packs */

template <typename T> SYMM_DEV symm_f32s<T> unpack(const bits16 &x)
{
    symm_f32s<T> y;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (sizeof(T) == 4) {
            y.e[i] = bits_float(x.w[i]);
        } else {
            y.e[2 * i] = widen(T{(uint16_t)x.w[i]});
            y.e[2 * i + 1] = widen(T{(uint16_t)(x.w[i] >> 16)});
        }
    }
    return y;
}

/* Rounds each element once. */
template <typename T> SYMM_DEV bits16 pack(const symm_f32s<T> &x)
{
    bits16 y;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (sizeof(T) == 4)
            y.w[i] = float_bits(x.e[i]);
        else
            y.w[i] = narrow2<T>(x.e[2 * i], x.e[2 * i + 1]);
    }
    return y;
}

template <typename T> SYMM_DEV void add(symm_f32s<T> &sum, const bits16 &x)
{
    const symm_f32s<T> y = unpack<T>(x);
#pragma unroll
    for (int i = 0; i < (int)(16 / sizeof(T)); i++)
        sum.e[i] += y.e[i];
}

/* One element, as the bits of it. */
template <typename T> SYMM_DEV float load_element(const T *p)
{
    if constexpr (sizeof(T) == 4)
        return bits_float(load_bits(reinterpret_cast<const uint32_t *>(p)));
    else
        return widen(T{load_bits(reinterpret_cast<const uint16_t *>(p))});
}

template <typename T> SYMM_DEV void store_element(T *p, float x)
{
    if constexpr (sizeof(T) == 4)
        store_bits(reinterpret_cast<uint32_t *>(p), float_bits(x));
    else
        store_bits(reinterpret_cast<uint16_t *>(p), (uint16_t)narrow2<T>(x, 0.0f));
}

} /* namespace symm_detail */

/* -------------------------------------------------------------------------------- the interface */

template <typename T> SYMM_DEV T *symm_dev_peer(const symm_view &v, T *symmetric, int rank)
{
    return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(symmetric) + (uintptr_t)v.peer[rank]);
}

template <typename T> SYMM_DEV T *symm_dev_multicast(const symm_view &v, T *symmetric)
{
    return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(symmetric) + (uintptr_t)v.multicast);
}

SYMM_DEV bool symm_dev_has_multicast(const symm_view &v)
{
    return v.flags & SYMM_VIEW_MULTICAST;
}

SYMM_DEV void symm_dev_signal(const symm_view &v, symm_signal_pad *pad, int channel, int to,
                              uint32_t n)
{
    symm_detail::signal(v, pad, channel, to, n, 0);
}

SYMM_DEV void symm_dev_wait(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                            uint32_t n)
{
    uint32_t word;
    symm_detail::wait(v, pad, channel, from, n, n, &word);
}

SYMM_DEV void symm_dev_wait_peek(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                                 uint32_t n)
{
    uint32_t word;
    symm_detail::wait(v, pad, channel, from, n, 0, &word);
}

SYMM_DEV void symm_dev_arrive(const symm_view &v, symm_signal_pad *pad, int channel)
{
    symm_detail::arrive(v, pad, channel, 0);
    __syncthreads();
}

SYMM_DEV void symm_dev_wait_all(const symm_view &v, symm_signal_pad *pad, int channel)
{
    uint32_t theirs;
    __syncthreads();
    symm_detail::wait_all(v, pad, channel, 0, &theirs);
    __syncthreads();
}

SYMM_DEV void symm_dev_barrier(const symm_view &v, symm_signal_pad *pad, int channel)
{
    uint32_t theirs;
    symm_detail::arrive(v, pad, channel, 0);
    symm_detail::wait_all(v, pad, channel, 0, &theirs);
    __syncthreads();
}

SYMM_DEV bool symm_dev_barrier_agree(const symm_view &v, symm_signal_pad *pad, int channel,
                                     uint32_t word)
{
    uint32_t theirs;
    symm_detail::arrive(v, pad, channel, word);
    return !__syncthreads_or(symm_detail::wait_all(v, pad, channel, word, &theirs) != -1);
}

SYMM_DEV bool symm_dev_aborted(const symm_view &v)
{
    return __syncthreads_or(symm_detail::thread_index() == 0 &&
                            symm_detail::load_relaxed(v.poison));
}

template <typename T> SYMM_DEV symm_f32s<T> symm_dev_load(const T *p)
{
    return symm_detail::unpack<T>(symm_detail::load16(p));
}

template <typename T> SYMM_DEV void symm_dev_store(T *p, const symm_f32s<T> &x)
{
    symm_detail::store16(p, symm_detail::pack<T>(x));
}

template <typename T> SYMM_DEV symm_f32s<T> symm_dev_sum(const symm_view &v, const T *symmetric)
{
    constexpr int AT_ONCE = 4; /* loads in flight */
    symm_f32s<T> sum;
#pragma unroll 1
    for (int first = 0; first < v.nranks; first += AT_ONCE) {
        symm_detail::bits16 x[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i < v.nranks)
                x[i] = symm_detail::load16(symm_dev_peer(v, symmetric, first + i));
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (first + i == 0)
                sum = symm_detail::unpack<T>(x[i]);
            else if (first + i < v.nranks)
                symm_detail::add<T>(sum, x[i]);
        }
    }
    return sum;
}

template <typename T>
SYMM_DEV void symm_dev_store_all(const symm_view &v, T *symmetric, const symm_f32s<T> &x)
{
    const symm_detail::bits16 bits = symm_detail::pack<T>(x);
    for (int i = 0; i < v.nranks; i++) { /* every rank begins with its own, so that they spread */
        const int r = v.rank + i < v.nranks ? v.rank + i : v.rank + i - v.nranks;
        symm_detail::store16(symm_dev_peer(v, symmetric, r), bits);
    }
}

template <typename T> SYMM_DEV symm_f32s<T> symm_dev_multimem_sum(const T *multicast)
{
    return symm_detail::unpack<T>(symm_detail::multimem_add(multicast));
}

template <typename T> SYMM_DEV void symm_dev_multimem_store(T *multicast, const symm_f32s<T> &x)
{
    symm_detail::multimem_store16(multicast, symm_detail::pack<T>(x));
}

SYMM_DEV float symm_dev_block_sum(float x)
{
    __shared__ float sums[32];
    const int t = symm_detail::thread_index(), nthreads = symm_detail::block_nthreads();
    const int lane = t % 32,
              nlanes = min(32, nthreads - (t - lane)); /* the last warp may have fewer */
    const uint32_t mask = 0xffffffffu >> (32 - nlanes);
    for (int d = 16; d > 0; d /= 2) {
        const float y = __shfl_down_sync(mask, x, d);
        if (lane + d < nlanes)
            x += y;
    }
    __syncthreads(); /* nobody reads the sums of the call before any more */
    if (lane == 0)
        sums[t / 32] = x;
    __syncthreads();
    float sum = 0;
    for (int w = 0; w < (nthreads + 31) / 32; w++)
        sum += sums[w];
    return sum;
}

#endif
