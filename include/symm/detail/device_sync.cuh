/*
 * Addresses, signals, and barriers of blocks, grids and ranks, written once for both targets on top
 * of one-instruction functions.
 */
#ifndef SYMM_DETAIL_DEVICE_SYNC_CUH
#define SYMM_DETAIL_DEVICE_SYNC_CUH

#include <symm/detail/wait_record.h>

namespace symm_detail
{

SYMM_DEV int thread_index(void)
{
    return (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
}

SYMM_DEV int block_nthreads(void)
{
    return (int)(blockDim.x * blockDim.y * blockDim.z);
}

/* The cell of the channel with `rank` in this rank's pad. */
SYMM_DEV symm_signal_cell *signal_cell(const symm_view &v, symm_signal_pad *pad, int channel,
                                       int rank)
{
    check_channel(v, pad, channel);
    return reinterpret_cast<symm_signal_cell *>(pad) + (int64_t)channel * v.nranks + rank;
}

/* 1 in images of products, whose views may be SYMM_VIEW_PLAYED. Others save the registers. */
#ifndef SYMM_DETAIL_PLAYED
#define SYMM_DETAIL_PLAYED 0
#endif

SYMM_DEV bool is_played(const symm_view &v)
{
    return SYMM_DETAIL_PLAYED && v.flags & SYMM_VIEW_PLAYED;
}

/*
 * The rank as which `to` hears this one. If one rank plays all others, both are rank 0 to
 * themselves, so each is to the other one as far ahead as that one is behind.
 */
SYMM_DEV int heard_as(const symm_view &v, int to)
{
    return is_played(v) && to != v.rank ? v.nranks - to : v.rank;
}

/* The rank of the group that is rank r of the view. */
SYMM_DEV int player_of(const symm_view &v, int r)
{
    return is_played(v) ? (int)(v.flags >> SYMM_VIEW_PLAYER) : r;
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

/* Claims the record for this thread, until withdraw_record(). */
SYMM_DEV bool claim(const symm_view &v)
{
    return compare_and_swap(&device_line(v)->claim, 0u, 1u);
}

/* Fills in the claimed record and makes it valid. */
SYMM_DEV void write_record(const symm_view &v, const symm_wait_record &r)
{
    symm_wait_record *to = wait_record(v);
    uint32_t *serial = &device_line(v)->serial;
    const uint32_t before = load_scalar(serial), next = before + 1 ? before + 1 : 1;
    store_scalar(serial, next);
    store_relaxed(&to->kind, r.kind);
    store_relaxed(reinterpret_cast<uint32_t *>(&to->from), (uint32_t)player_of(v, r.from));
    store_relaxed(reinterpret_cast<uint32_t *>(&to->channel), (uint32_t)r.channel);
    store_relaxed(&to->expected, r.expected);
    store_relaxed(&to->seen, r.seen);
    store_relaxed(&to->pad, r.pad);
    store_release(&to->valid, next);
}

/* Invalidates the record after the wait and releases the claim. */
SYMM_DEV void withdraw_record(const symm_view &v)
{
    store_relaxed(&wait_record(v)->valid, 0u);
    store_release(&device_line(v)->claim, 0u);
}

/*
 * Ends the group because rank `from` came with another word: ranks called different things. One
 * thread of the rank writes the record and keeps the claim, so that the record stays. Waits that
 * hold the claim see the poison word and release it.
 */
SYMM_DEV void record_mismatch(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                              uint32_t mine, uint32_t theirs)
{
    store_relaxed(v.poison, 1u);
    while (!claim(v)) {
        if (load_relaxed(&wait_record(v)->valid) &&
            load_relaxed(&wait_record(v)->kind) == SYMM_WAIT_MISMATCH)
            return;
        pause();
    }
    write_record(
        v, {0, SYMM_WAIT_MISMATCH, from, channel, mine, theirs, (uint64_t)(uintptr_t)pad, {}});
}

/* ------------------------------------------------------------------------------ signal and wait */

SYMM_DEV void signal(const symm_view &v, symm_signal_pad *pad, int channel, int to, uint32_t n,
                     uint32_t word)
{
    check_rank(v, "symm_dev_signal: to", to);
    uint32_t *sent = &signal_cell(v, pad, channel, to)->sent;
    const uint32_t poison = load_relaxed(v.poison), count = load_relaxed(sent) + n;
    if (poison)
        return;
    store_relaxed(sent, count);
    uint64_t *arrived = &signal_cell(v, pad, channel, heard_as(v, to))->arrived;
    store_release(symm_dev_peer(v, arrived, to), (uint64_t)word << 32 | count);
}

/*
 * Called after an unsuccessful poll. Reads the abort word at intervals, writes the record once the
 * wait is long, and yields. Returns whether the record is written. The threads of a block read the
 * abort word at different polls; the poison word passes it on to the others.
 *
 * ANEW: if rank or value change, withdraws the record and writes a new one later.
 */
template <bool ANEW = false>
SYMM_DEV bool poll_again(const symm_view &v, uint32_t polls, bool recorded,
                         const symm_wait_record &r)
{
    const uint32_t first = ABORT_CHECK_APART * (uint32_t)thread_index(), poll = polls - first;
    if (polls >= first && poll % ABORT_CHECK_EVERY == ABORT_CHECK_AFTER && load_relaxed(v.abort))
        store_relaxed(v.poison, 1u);
    if ((ANEW || !recorded) && polls >= first && poll % RECORD_AFTER == RECORD_AFTER - 1) {
        const symm_wait_record *now = wait_record(v);
        if (!recorded && claim(v)) {
            write_record(v, r);
            recorded = true;
        } else if (ANEW && recorded &&
                   (load_relaxed(&now->seen) != r.seen ||
                    load_relaxed((const uint32_t *)&now->from) != (uint32_t)r.from)) {
            withdraw_record(v);
            recorded = false;
        }
    }
    pause();
    return recorded;
}

/*
 * Waits for n signals after the first `taken` ones, and takes `take` of them. Returns whether they
 * have come, with the word of the last one; false after an abort. Each poll also reads the poison
 * word in parallel, so this costs no round trip.
 */
SYMM_DEV bool wait_after(const symm_view &v, symm_signal_pad *pad, int channel, int from,
                         symm_signal_cell *cell, uint32_t taken, uint32_t n, uint32_t take,
                         uint32_t *word)
{
    bool recorded = false, come = false;
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
        recorded = poll_again(v, polls, recorded,
                              {0,
                               SYMM_WAIT_SIGNAL,
                               from,
                               channel,
                               taken + n,
                               (uint32_t)arrived,
                               (uint64_t)(uintptr_t)pad,
                               {}});
    }
    if (recorded)
        withdraw_record(v);
    return come;
}

/* Waits for n signals that were not taken, and takes `take` of them. */
SYMM_DEV bool wait(const symm_view &v, symm_signal_pad *pad, int channel, int from, uint32_t n,
                   uint32_t take, uint32_t *word)
{
    check_rank(v, "symm_dev_wait: from", from);
    symm_signal_cell *cell = signal_cell(v, pad, channel, from);
    return wait_after(v, pad, channel, from, cell, load_relaxed(&cell->taken), n, take, word);
}

/*
 * Orders unicast and multicast accesses. The fence takes microseconds, so a group without multicast
 * skips it.
 */
SYMM_DEV void fence_if_multicast(const symm_view &v)
{
    if (v.flags & SYMM_VIEW_MULTICAST)
        fence_alias();
}

/*
 * The first half of a barrier with a word, on N channels from this one on, each with its own word.
 * The block's threads share the ranks.
 */
template <int N>
SYMM_DEV void arrive(const symm_view &v, symm_signal_pad *pad, int channel,
                     const uint32_t (&words)[N])
{
    check_view(v);
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

/*
 *  The second half. Each thread returns a rank that came with another word; -1: none; -2: the group
 * is aborted. Thread number `thread`, which must exist, waits for the first rank.
 */
SYMM_DEV int wait_all(const symm_view &v, symm_signal_pad *pad, int channel, uint32_t word,
                      uint32_t *theirs, int thread = 0)
{
    const int t = thread_index() - thread, nthreads = block_nthreads();
    int other = -1;
    check_view(v);
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
 * Counts the arrival of a block of this grid. In the channel's cell of this rank with itself,
 * `sent` counts arrivals and `taken` is its value at the beginning of the round. One thread.
 * Returns whether the block is the last one, which must then call grid_open.
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
    bool recorded = false;
    for (uint32_t polls = 0; load_acquire(&cell->taken) == round; polls++) {
        if (load_relaxed(v.poison))
            break;
        recorded = poll_again(v, polls, recorded,
                              {0,
                               SYMM_WAIT_GRID,
                               v.rank,
                               channel,
                               round + nblocks,
                               load_relaxed(&cell->sent),
                               (uint64_t)(uintptr_t)pad,
                               {}});
    }
    if (recorded)
        withdraw_record(v);
}

/* With `meet`, the last block first performs a barrier with the other ranks' last blocks. */
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

} /* namespace symm_detail */

/* -------------------------------------------------------------------------------- the interface */

template <typename T> SYMM_DEV T *symm_dev_peer(const symm_view &v, T *symmetric, int rank)
{
    symm_detail::check_rank(v, "symm_dev_peer: rank", rank);
    return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(symmetric) + (uintptr_t)v.peer[rank]);
}

template <typename T> SYMM_DEV T *symm_dev_multicast(const symm_view &v, T *symmetric)
{
    symm_detail::check_view(v);
    return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(symmetric) + (uintptr_t)v.multicast);
}

SYMM_DEV bool symm_dev_has_multicast(const symm_view &v)
{
    symm_detail::check_view(v);
    return v.flags & SYMM_VIEW_MULTICAST;
}

SYMM_DEV void symm_dev_signal(const symm_view &v, symm_signal_pad *pad, int channel, int to,
                              uint32_t n)
{
    symm_detail::signal(v, pad, channel, to, n, 0);
}

SYMM_DEV uint64_t symm_dev_signal_reserve(const symm_view &v, symm_signal_pad *pad, int channel,
                                          int to, uint32_t n)
{
    symm_detail::check_rank(v, "symm_dev_signal_reserve: to", to);
    uint32_t *const sent = &symm_detail::signal_cell(v, pad, channel, to)->sent;
    const uint32_t count = symm_detail::load_relaxed(sent) + n;
    symm_detail::store_relaxed(sent, count);
    return count;
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

/*
 * For symm's own collectives, not for user kernels: two barriers in the time of one. Arrives on
 * `channel` with `word` and on the next channel with `next_word`. Whole block. Until
 * symm_dev_wait_all_both() the two channels serve nothing else.
 */
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

SYMM_DEV bool symm_dev_wait_all_test_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                           uint32_t word)
{
    uint32_t theirs;
    return !__syncthreads_or(symm_detail::wait_all(v, pad, channel, word, &theirs) != -1);
}

SYMM_DEV bool symm_dev_wait_all_require_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                              uint32_t word)
{
    uint32_t theirs = 0;
    const int other = symm_detail::wait_all(v, pad, channel, word, &theirs);
    if (other >= 0)
        symm_detail::record_mismatch(v, pad, channel, other, word, theirs);
    return !__syncthreads_or(other != -1);
}

/*
 * The second half of symm_dev_arrive_both(), in the time of one wait. Whole block. Requires
 * `next_word` of all ranks on the next channel and returns whether all came with it. *agreed: all
 * ranks came with `word` on `channel`. All threads get the same answers. After an abort it returns
 * false, and *agreed has no meaning.
 *
 * Blocks of more than one warp wait for the two channels in different warps. A rank that called
 * something else may never arrive on `channel`. This must not delay the check of `next_word`.
 */
SYMM_DEV bool symm_dev_wait_all_both(const symm_view &v, symm_signal_pad *pad, int channel,
                                     uint32_t word, uint32_t next_word, bool *agreed)
{
    uint32_t theirs = 0;
    const int other = symm_detail::wait_all(v, pad, channel + 1, next_word, &theirs);
    if (other >= 0)
        symm_detail::record_mismatch(v, pad, channel + 1, other, next_word, theirs);
    const int differs = symm_detail::wait_all(v, pad, channel, word, &theirs,
                                              symm_detail::block_nthreads() > 32 ? 32 : 0);
    const bool well = !__syncthreads_or(other != -1 || differs == -2);
    *agreed = !__syncthreads_or(differs != -1);
    return well;
}

SYMM_DEV bool symm_dev_barrier_test_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                          uint32_t word)
{
    symm_detail::arrive(v, pad, channel, word);
    return symm_dev_wait_all_test_equal(v, pad, channel, word);
}

SYMM_DEV bool symm_dev_barrier_require_equal(const symm_view &v, symm_signal_pad *pad, int channel,
                                             uint32_t word)
{
    symm_detail::arrive(v, pad, channel, word);
    return symm_dev_wait_all_require_equal(v, pad, channel, word);
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
    symm_detail::check_view(v);
    return __syncthreads_or(symm_detail::thread_index() == 0 &&
                            symm_detail::load_relaxed(v.poison));
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

#endif
