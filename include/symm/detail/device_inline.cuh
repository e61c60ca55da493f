/*
 * What device.cuh declares, written once for both machines in terms of their single instructions.
 */
#ifndef SYMM_DETAIL_DEVICE_INLINE_CUH
#define SYMM_DETAIL_DEVICE_INLINE_CUH

#include <symm/detail/wait_record.h>

namespace symm_detail
{

/* How many polls a wait makes before it tells the host whom it waits for. */
#ifndef SYMM_DETAIL_TELL_AFTER
#define SYMM_DETAIL_TELL_AFTER 4096
#endif
enum { TELL_AFTER = SYMM_DETAIL_TELL_AFTER };

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

/* Takes the record, which is then this thread's until untell(). */
SYMM_DEV bool claim(const symm_view &v)
{
    return compare_and_swap(&device_line(v)->claim, 0u, 1u);
}

/* Fills in the record, which the caller has claimed, and makes it valid. */
SYMM_DEV void tell(const symm_view &v, const symm_wait_record &r)
{
    symm_wait_record *to = wait_record(v);
    uint32_t *serial = &device_line(v)->serial;
    const uint32_t before = load_scalar(serial), next = before + 1 ? before + 1 : 1;
    store_scalar(serial, next);
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
    store_relaxed(&wait_record(v)->valid, 0u);
    store_release(&device_line(v)->claim, 0u);
}

/*
 * Ends the group, because rank `from` came with another word: ranks called different things. One
 * thread of the rank tells; what it claims it keeps, so that the record stays. Waits that hold the
 * claim see the poison and let go.
 */
SYMM_DEV void tell_mismatch(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                            uint32_t mine, uint32_t theirs)
{
    store_relaxed(v.poison, 1u);
    while (!claim(v)) {
        if (load_relaxed(&wait_record(v)->valid) &&
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
 * A poll found nothing: looks at the abort word now and then, tells the host whom this wait is for
 * once it is long, and gives way. Returns whether the host has been told. The threads of a block,
 * all of which may wait, take turns: what one of them sees the poison word tells the others.
 */
SYMM_DEV bool poll_again(const symm_view &v, uint32_t polls, bool told, const symm_wait_record &r)
{
    const uint32_t later = LOOK_APART * (uint32_t)thread_index(), turn = polls - later;
    if (polls >= later && turn % LOOK_EVERY == LOOK_AFTER && load_relaxed(v.abort))
        store_relaxed(v.poison, 1u);
    if (!told && polls >= later && turn % TELL_AFTER == TELL_AFTER - 1 && claim(v)) {
        tell(v, r);
        told = true;
    }
    pause();
    return told;
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
        told = poll_again(v, polls, told,
                          {0,
                           SYMM_WAIT_SIGNAL,
                           from,
                           channel,
                           taken + n,
                           (uint32_t)arrived,
                           (uint64_t)(uintptr_t)pad,
                           {}});
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

/*
 * The first half of a barrier that carries a word, on N channels from this one on, each with
 * its word. The ranks are spread over the threads of the block.
 */
template <int N>
SYMM_DEV void arrive(const symm_view &v, symm_signal_pad *pad, int channel,
                     const uint32_t (&words)[N])
{
    fence_if_multicast(v);
    __syncthreads();
    for (int i = thread_index(); i < N * v.nranks; i += block_nthreads()) {
        const int next = N > 1 && i >= v.nranks, r = next ? i - v.nranks : i;
        if (r != v.rank)
            signal(v, pad, channel + next, r, 1, words[N > 1 && next]);
    }
}

SYMM_DEV void arrive(const symm_view &v, symm_signal_pad *pad, int channel, uint32_t word)
{
    arrive<1>(v, pad, channel, {word});
}

/* Returns, in the thread that has met it, a rank that came with another word; -1: none; -2: the
 * group is aborted. The first rank is thread number `thread`'s, which is 0 or the block has it. */
SYMM_DEV int wait_all(const symm_view &v, symm_signal_pad *pad, int channel, uint32_t word,
                      uint32_t *theirs, int thread = 0)
{
    const int t = thread_index() - thread, nthreads = block_nthreads();
    int other = -1;
    for (int r = t < 0 ? t + nthreads : t; r < v.nranks; r += nthreads) {
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

/* --------------------------------------------------------------------------------- grid barrier */

/*
 * A block of this grid has come. Of the channel's cell with this rank itself, `sent` counts the
 * blocks that have come, and `taken` is what it was when this round began. One thread; returns
 * whether it was the last one, which then must call grid_open.
 */
SYMM_DEV bool grid_arrive(symm_signal_cell *cell, uint32_t *round)
{
    const uint32_t nblocks = gridDim.x * gridDim.y * gridDim.z;
    *round = load_relaxed(&cell->taken);
    return fetch_add(&cell->sent, 1) + 1 - *round == nblocks;
}

SYMM_DEV void grid_open(symm_signal_cell *cell, uint32_t round)
{
    store_release(&cell->taken, round + gridDim.x * gridDim.y * gridDim.z);
}

SYMM_DEV void grid_wait(const symm_view &v, symm_signal_pad *pad, int channel, uint32_t round)
{
    symm_signal_cell *cell = signal_cell(v, pad, channel, v.rank);
    const uint32_t nblocks = gridDim.x * gridDim.y * gridDim.z;
    bool told = false;
    for (uint32_t polls = 0; load_acquire(&cell->taken) == round; polls++) {
        if (load_relaxed(v.poison))
            break;
        told = poll_again(v, polls, told,
                          {0,
                           SYMM_WAIT_GRID,
                           v.rank,
                           channel,
                           round + nblocks,
                           load_relaxed(&cell->sent),
                           (uint64_t)(uintptr_t)pad,
                           {}});
    }
    if (told)
        untell(v);
}

/* With `meet`, the last block meets those of the other ranks before it lets its own go on. */
SYMM_DEV void grid_barrier(const symm_view &v, symm_signal_pad *pad, int channel, bool meet)
{
    symm_signal_cell *cell = signal_cell(v, pad, channel, v.rank);
    const bool leader = thread_index() == 0;
    uint32_t round = 0;
    fence_if_multicast(v);
    __syncthreads();
    const bool last = leader && grid_arrive(cell, &round);
    if (__syncthreads_or(last) && meet)
        symm_dev_barrier(v, pad, channel);
    if (last)
        grid_open(cell, round);
    else if (leader)
        grid_wait(v, pad, channel, round);
    fence_if_multicast(v);
    __syncthreads();
}

/* ------------------------------------------------------------------------------------ transfers */

SYMM_DEV bits16 load_word(const bits16 *p)
{
    return load16(p);
}

SYMM_DEV void store_word(bits16 *p, const bits16 &x)
{
    store16(p, x);
}

template <typename W> SYMM_DEV W load_word(const W *p)
{
    return load_scalar(p);
}

template <typename W> SYMM_DEV void store_word(W *p, W x)
{
    store_scalar(p, x);
}

/* Words number `index`, `index + step`, ... of n; several loads in flight. */
template <typename W>
SYMM_DEV void copy_words(char *to, const char *from, uint64_t n, uint64_t index, uint64_t step)
{
    constexpr int U = 4;
    W *const out = reinterpret_cast<W *>(to);
    const W *const in = reinterpret_cast<const W *>(from);
    uint64_t i = index;
    for (; i + (U - 1) * step < n; i += U * step) {
        W x[U];
#pragma unroll
        for (int u = 0; u < U; u++)
            x[u] = load_word(in + i + u * step);
#pragma unroll
        for (int u = 0; u < U; u++)
            store_word(out + i + u * step, x[u]);
    }
    for (; i < n; i += step)
        store_word(out + i, load_word(in + i));
}

/* In words of the size that both sides allow, and in bytes up to the first and after the last. */
template <typename W>
SYMM_DEV void copy_aligned(char *to, const char *from, uint64_t nbytes, uint64_t index,
                           uint64_t step)
{
    const uint64_t ahead = (0 - (uint64_t)(uintptr_t)to) % sizeof(W);
    const uint64_t head = ahead < nbytes ? ahead : nbytes, n = (nbytes - head) / sizeof(W),
                   tail = head + n * sizeof(W);
    copy_words<uint8_t>(to, from, head, index, step);
    copy_words<W>(to + head, from + head, n, index, step);
    copy_words<uint8_t>(to + tail, from + tail, nbytes - tail, index, step);
}

SYMM_DEV void copy(void *to, const void *from, uint64_t nbytes, uint64_t index, uint64_t step)
{
    char *const out = static_cast<char *>(to);
    const char *const in = static_cast<const char *>(from);
    const uintptr_t apart = (uintptr_t)out - (uintptr_t)in;
    if (apart % 16 == 0)
        copy_aligned<bits16>(out, in, nbytes, index, step);
    else if (apart % 4 == 0)
        copy_aligned<uint32_t>(out, in, nbytes, index, step);
    else if (apart % 2 == 0)
        copy_aligned<uint16_t>(out, in, nbytes, index, step);
    else
        copy_words<uint8_t>(out, in, nbytes, index, step);
}

/* ---------------------------------------------------------------------------------------- types */

/* The unsigned type of N bytes: one element, as the bits of it. */
template <int N> struct unsigned_of;
template <> struct unsigned_of<1> {
    typedef uint8_t type;
};
template <> struct unsigned_of<2> {
    typedef uint16_t type;
};
template <> struct unsigned_of<4> {
    typedef uint32_t type;
};
template <> struct unsigned_of<8> {
    typedef uint64_t type;
};

/* The same bits as another type. */
template <typename To, typename From> SYMM_DEV To as(const From &x)
{
    static_assert(sizeof(To) == sizeof(From), "");
    To y;
    __builtin_memcpy(&y, &x, sizeof y);
    return y;
}

/* The type as which elements are added: two's complement does not tell signed from unsigned. */
template <typename T> struct added_as {
    typedef T type;
};
template <> struct added_as<int32_t> {
    typedef uint32_t type;
};
template <> struct added_as<int64_t> {
    typedef uint64_t type;
};

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

SYMM_DEV void symm_dev_arrive(const symm_view &v, symm_signal_pad *pad, int channel, uint32_t word)
{
    symm_detail::arrive(v, pad, channel, word);
    __syncthreads();
}

SYMM_DEV void symm_dev_arrive_both(const symm_view &v, symm_signal_pad *pad, int channel,
                                   uint32_t word, uint32_t next_word)
{
    symm_detail::arrive<2>(v, pad, channel, {word, next_word});
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

SYMM_DEV bool symm_dev_wait_all_agree(const symm_view &v, symm_signal_pad *pad, int channel,
                                      uint32_t word)
{
    uint32_t theirs;
    return !__syncthreads_or(symm_detail::wait_all(v, pad, channel, word, &theirs) != -1);
}

SYMM_DEV bool symm_dev_wait_all_insist(const symm_view &v, symm_signal_pad *pad, int channel,
                                       uint32_t word)
{
    uint32_t theirs = 0;
    const int other = symm_detail::wait_all(v, pad, channel, word, &theirs);
    if (other >= 0)
        symm_detail::tell_mismatch(v, pad, channel, other, word, theirs);
    return !__syncthreads_or(other != -1);
}

/*
 * Two warps wait where there are two: who insists must not be held up by who waits for a rank that
 * never comes, because it called something else.
 */
SYMM_DEV bool symm_dev_wait_all_both(const symm_view &v, symm_signal_pad *pad, int channel,
                                     uint32_t word, uint32_t next_word, bool *agreed)
{
    uint32_t theirs = 0;
    const int other = symm_detail::wait_all(v, pad, channel + 1, next_word, &theirs);
    if (other >= 0)
        symm_detail::tell_mismatch(v, pad, channel + 1, other, next_word, theirs);
    const int differs = symm_detail::wait_all(v, pad, channel, word, &theirs,
                                              symm_detail::block_nthreads() > 32 ? 32 : 0);
    const bool well = !__syncthreads_or(other != -1 || differs == -2);
    *agreed = !__syncthreads_or(differs != -1);
    return well;
}

SYMM_DEV bool symm_dev_barrier_agree(const symm_view &v, symm_signal_pad *pad, int channel,
                                     uint32_t word)
{
    symm_detail::arrive(v, pad, channel, word);
    return symm_dev_wait_all_agree(v, pad, channel, word);
}

SYMM_DEV bool symm_dev_barrier_insist(const symm_view &v, symm_signal_pad *pad, int channel,
                                      uint32_t word)
{
    symm_detail::arrive(v, pad, channel, word);
    return symm_dev_wait_all_insist(v, pad, channel, word);
}

SYMM_DEV void symm_dev_grid_sync(const symm_view &v, symm_signal_pad *pad, int channel)
{
    symm_detail::grid_barrier(v, pad, channel, false);
}

SYMM_DEV void symm_dev_grid_barrier(const symm_view &v, symm_signal_pad *pad, int channel)
{
    symm_detail::grid_barrier(v, pad, channel, true);
}

SYMM_DEV bool symm_dev_aborted(const symm_view &v)
{
    return __syncthreads_or(symm_detail::thread_index() == 0 &&
                            symm_detail::load_relaxed(v.poison));
}

/* ---------------------------------------------------------------------------------- data access */

SYMM_DEV symm_bits16 symm_dev_load_bits(const void *p)
{
    return symm_detail::load16(p);
}

SYMM_DEV void symm_dev_store_bits(void *p, const symm_bits16 &x)
{
    symm_detail::store16(p, x);
}

template <typename T> SYMM_DEV T symm_dev_load_one(const T *p)
{
    typedef typename symm_detail::unsigned_of<sizeof(T)>::type bits;
    return symm_detail::as<T>(symm_detail::load_scalar(reinterpret_cast<const bits *>(p)));
}

template <typename T> SYMM_DEV void symm_dev_store_one(T *p, T x)
{
    typedef typename symm_detail::unsigned_of<sizeof(T)>::type bits;
    symm_detail::store_scalar(reinterpret_cast<bits *>(p), symm_detail::as<bits>(x));
}

SYMM_DEV float symm_dev_widen(float x)
{
    return x;
}

SYMM_DEV float symm_dev_widen(symm_f16 x)
{
    return symm_detail::widen(x);
}

SYMM_DEV float symm_dev_widen(symm_bf16 x)
{
    return symm_detail::widen(x);
}

template <typename T> SYMM_DEV T symm_dev_narrow(float x)
{
    if constexpr (sizeof(T) == sizeof(float))
        return x;
    else
        return T{(uint16_t)symm_detail::narrow2<T>(x, 0.0f)};
}

template <typename T> SYMM_DEV symm_f32s<T> symm_dev_unpack(const symm_bits16 &x)
{
    symm_f32s<T> y;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (sizeof(T) == sizeof(float)) {
            y.e[i] = symm_detail::bits_float(x.w[i]);
        } else {
            y.e[2 * i] = symm_detail::widen(T{(uint16_t)x.w[i]});
            y.e[2 * i + 1] = symm_detail::widen(T{(uint16_t)(x.w[i] >> 16)});
        }
    }
    return y;
}

template <typename T> SYMM_DEV symm_bits16 symm_dev_pack(const symm_f32s<T> &x)
{
    symm_bits16 y;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        if constexpr (sizeof(T) == sizeof(float))
            y.w[i] = symm_detail::float_bits(x.e[i]);
        else
            y.w[i] = symm_detail::narrow2<T>(x.e[2 * i], x.e[2 * i + 1]);
    }
    return y;
}

template <typename T> SYMM_DEV symm_f32s<T> symm_dev_load(const T *p)
{
    return symm_dev_unpack<T>(symm_dev_load_bits(p));
}

template <typename T> SYMM_DEV void symm_dev_store(T *p, const symm_f32s<T> &x)
{
    symm_dev_store_bits(p, symm_dev_pack(x));
}

template <typename T> SYMM_DEV void symm_dev_add(symm_f32s<T> &sum, const symm_f32s<T> &x)
{
#pragma unroll
    for (int i = 0; i < (int)(16 / sizeof(T)); i++)
        sum.e[i] += x.e[i];
}

template <typename T> SYMM_DEV symm_f32s<T> symm_dev_sum(const symm_view &v, const T *symmetric)
{
    constexpr int AT_ONCE = 4; /* loads in flight */
    symm_f32s<T> sum;
#pragma unroll 1
    for (int first = 0; first < v.nranks; first += AT_ONCE) {
        symm_bits16 x[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++)
            if (first + i < v.nranks)
                x[i] = symm_dev_load_bits(symm_dev_peer(v, symmetric, first + i));
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            if (first + i == 0)
                sum = symm_dev_unpack<T>(x[i]);
            else if (first + i < v.nranks)
                symm_dev_add(sum, symm_dev_unpack<T>(x[i]));
        }
    }
    return sum;
}

template <typename T>
SYMM_DEV void symm_dev_store_all(const symm_view &v, T *symmetric, const symm_f32s<T> &x)
{
    const symm_bits16 bits = symm_dev_pack(x);
    for (int i = 0; i < v.nranks; i++) { /* every rank begins with its own, so that they spread */
        const int r = v.rank + i < v.nranks ? v.rank + i : v.rank + i - v.nranks;
        symm_dev_store_bits(symm_dev_peer(v, symmetric, r), bits);
    }
}

template <typename T> SYMM_DEV void symm_dev_red_add(T *p, T x)
{
    typedef typename symm_detail::added_as<T>::type type;
    symm_detail::red_add(reinterpret_cast<type *>(p), symm_detail::as<type>(x));
}

/* ------------------------------------------------------------------------------------ transfers */

SYMM_DEV void symm_dev_copy(void *to, const void *from, size_t nbytes)
{
    symm_detail::copy(to, from, nbytes, symm_detail::thread_index(), symm_detail::block_nthreads());
}

SYMM_DEV void symm_dev_copy_thread(void *to, const void *from, size_t nbytes)
{
    symm_detail::copy(to, from, nbytes, 0, 1);
}

SYMM_DEV void symm_dev_put(const symm_view &v, void *dst, const void *src, size_t nbytes, int to)
{
    symm_dev_copy(symm_dev_peer(v, static_cast<char *>(dst), to), src, nbytes);
}

SYMM_DEV void symm_dev_put_thread(const symm_view &v, void *dst, const void *src, size_t nbytes,
                                  int to)
{
    symm_dev_copy_thread(symm_dev_peer(v, static_cast<char *>(dst), to), src, nbytes);
}

SYMM_DEV void symm_dev_put_bulk(const symm_view &v, void *dst, const void *src, size_t nbytes,
                                int to, void *shared, uint32_t shared_nbytes)
{
    char *const out = symm_dev_peer(v, static_cast<char *>(dst), to);
    const bool fits = ((uintptr_t)out | (uintptr_t)src | nbytes) % 16 == 0 && shared_nbytes >= 1024;
    symm_detail::fence_async();
    if (fits && symm_detail::bulk_copy(out, src, nbytes, shared, shared_nbytes))
        symm_detail::bulk_wait();
    else
        symm_dev_copy_thread(out, src, nbytes);
}

/* ------------------------------------------------------------------------------------- multimem */

template <symm_redop OP, typename T> SYMM_DEV symm_bits16 symm_dev_multimem_reduce(const T *p)
{
    typedef symm_detail::multimem_load<OP> load;
    if constexpr (sizeof(load::of(p)) == 16) {
        return load::of(p);
    } else { /* there is no vector form */
        T x[16 / sizeof(T)];
#pragma unroll
        for (int i = 0; i < (int)(16 / sizeof(T)); i++)
            x[i] = load::of(p + i);
        return symm_detail::as<symm_bits16>(x);
    }
}

template <typename T> SYMM_DEV symm_f32s<T> symm_dev_multimem_sum(const T *multicast)
{
    return symm_dev_unpack<T>(symm_dev_multimem_reduce<SYMM_SUM>(multicast));
}

SYMM_DEV void symm_dev_multimem_store_bits(void *multicast, const symm_bits16 &x)
{
    symm_detail::multimem_store16(multicast, x);
}

template <typename T> SYMM_DEV void symm_dev_multimem_store(T *multicast, const symm_f32s<T> &x)
{
    symm_dev_multimem_store_bits(multicast, symm_dev_pack(x));
}

template <typename T> SYMM_DEV void symm_dev_multimem_red_add(T *multicast, T x)
{
    typedef typename symm_detail::added_as<T>::type type;
    symm_detail::multimem_red(reinterpret_cast<type *>(multicast), symm_detail::as<type>(x));
}

template <typename T> SYMM_DEV void symm_dev_multimem_red_add(T *multicast, const symm_f32s<T> &x)
{
    symm_detail::multimem_red(multicast, symm_dev_pack(x));
}

/* -------------------------------------------------------------------------------------- packets */

SYMM_DEV uint32_t symm_dev_epoch(const symm_view &v, symm_signal_pad *pad, int channel)
{
    uint32_t *count = &symm_detail::signal_cell(v, pad, channel, v.rank)->sent;
    const uint32_t poison = symm_detail::load_relaxed(v.poison),
                   before = symm_detail::load_relaxed(count);
    const uint32_t epoch = before == UINT32_MAX ? 2 : before + 1;
    __syncthreads(); /* everyone has read it */
    if (symm_detail::thread_index() == 0)
        symm_detail::store_relaxed(count, epoch);
    return __syncthreads_or(poison != 0) ? 0 : epoch;
}

SYMM_DEV void symm_dev_send16(const symm_view &v, symm_packet *slot, const symm_bits12 &x,
                              uint32_t flag, int to)
{
    if (flag)
        symm_detail::store_packet(symm_dev_peer(v, slot, to), {{x.w[0], x.w[1], x.w[2], flag}});
}

template <int N>
SYMM_DEV bool symm_dev_recv16_all(const symm_view &v, const symm_packet *const (&slots)[N],
                                  uint32_t flag, const int (&from)[N], symm_bits12 (&x)[N])
{
    bool told = false;
    for (uint32_t polls = 0; flag; polls++) {
        symm_bits16 packet[N];
        const uint32_t poison = symm_detail::load_relaxed(v.poison);
        int missing = -1;
#pragma unroll
        for (int i = 0; i < N; i++)
            packet[i] = symm_detail::load_packet(slots[i]);
#pragma unroll
        for (int i = 0; i < N; i++) {
            x[i] = {{packet[i].w[0], packet[i].w[1], packet[i].w[2]}};
            if (packet[i].w[3] != flag)
                missing = i;
        }
        if (missing < 0 && !told)
            return true;
        if (missing < 0 || poison) {
            if (told)
                symm_detail::untell(v);
            if (missing < 0)
                return true;
            break;
        }
        symm_wait_record r = {0, SYMM_WAIT_PACKET, 0, 0, flag, 0, 0, {}};
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i == missing) { /* an index that only the device knows would use memory */
                r.from = from[i];
                r.seen = packet[i].w[3];
                r.pad = (uint64_t)(uintptr_t)slots[i];
            }
        told = symm_detail::poll_again(v, polls, told, r);
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = {};
    return false;
}

SYMM_DEV symm_bits12 symm_dev_recv16(const symm_view &v, const symm_packet *slot, uint32_t flag,
                                     int from)
{
    symm_bits12 x[1];
    symm_dev_recv16_all<1>(v, {slot}, flag, {from}, x);
    return x[0];
}

/* ---------------------------------------------------------------- programmatic dependent launch */

SYMM_DEV void symm_dev_pdl_wait(void)
{
    symm_detail::pdl_wait();
}

SYMM_DEV void symm_dev_pdl_release(void)
{
    symm_detail::pdl_release();
}

/* ---------------------------------------------------------------------------------------- block */

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
