/* Packets, for both targets. */
#ifndef SYMM_DETAIL_DEVICE_PACKET_CUH
#define SYMM_DETAIL_DEVICE_PACKET_CUH

#include <symm/detail/device_sync.cuh>

namespace symm_detail
{

/*
 * Polls N slots until has_come(last word) is true of all. Returns false after an abort. kind,
 * expected: of the record.
 */
template <int N, typename HasCome>
SYMM_DEV bool poll_packets(const symm_view &v, const symm_packet *const (&slots)[N],
                           const int (&from)[N], uint32_t kind, uint32_t expected, bits16 (&x)[N],
                           const HasCome &has_come)
{
    bool recorded = false;
    for (uint32_t polls = 0;; polls++) {
        const uint32_t poison = load_relaxed(v.poison);
        int missing = -1;
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = load_packet(slots[i]);
#pragma unroll
        for (int i = 0; i < N; i++)
            if (!has_come(x[i].w[3]))
                missing = i;
        if (missing < 0 && !recorded)
            return true;
        if (missing < 0 || poison) {
            if (recorded)
                withdraw_record(v);
            return missing < 0;
        }
        symm_wait_record r = {0, kind, 0, 0, expected, 0, 0, {}};
#pragma unroll
        for (int i = 0; i < N; i++)
            if (i == missing) { /* an index that only the device knows would use memory */
                r.from = from[i];
                r.seen = x[i].w[3];
                r.pad = (uint64_t)(uintptr_t)slots[i];
            }
        recorded = poll_again<true>(v, polls, recorded, r);
    }
}

} /* namespace symm_detail */

/* -------------------------------------------------------------------------------------- packets */

SYMM_DEV uint32_t symm_dev_epoch(const symm_view &v, symm_signal_pad *pad, int channel)
{
    uint32_t *count = &symm_detail::signal_cell(v, pad, channel, v.rank)->sent;
    const uint32_t poison = symm_detail::load_relaxed(v.poison),
                   before = symm_detail::load_relaxed(count);
    const uint32_t epoch = before == UINT32_MAX ? 2 : before + 1;
    __syncthreads(); /* all threads have read it */
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
    symm_bits16 packet[N];
    if (!flag || !symm_detail::poll_packets(v, slots, from, SYMM_WAIT_PACKET, flag, packet,
                                            [=](uint32_t word) { return word == flag; })) {
#pragma unroll
        for (int i = 0; i < N; i++)
            x[i] = {};
        return false;
    }
#pragma unroll
    for (int i = 0; i < N; i++)
        x[i] = {{packet[i].w[0], packet[i].w[1], packet[i].w[2]}};
    return true;
}

SYMM_DEV symm_bits12 symm_dev_recv16(const symm_view &v, const symm_packet *slot, uint32_t flag,
                                     int from)
{
    symm_bits12 x[1];
    symm_dev_recv16_all<1>(v, {slot}, flag, {from}, x);
    return x[0];
}

/* ------------------------------------------------------------------- packs that are their own flag
 *
 * For symm's own collectives, not for user kernels. A slot is free while its last word is all ones.
 * Elements are floats, of which all ones is a NaN.
 */

/* The last word of a free slot. */
static constexpr uint32_t SYMM_DEV_SLOT_FREE = UINT32_MAX;

/* The same floats; a NaN that would look like a free slot loses its lowest bit. */
SYMM_DEV symm_bits16 symm_dev_sendable(const symm_bits16 &x)
{
    const uint32_t last = x.w[3] == SYMM_DEV_SLOT_FREE ? SYMM_DEV_SLOT_FREE - 1 : x.w[3];
    return {{x.w[0], x.w[1], x.w[2], last}};
}

/* Stores a sendable pack into rank `to`'s copy of a free slot. Thread. Orders nothing. */
SYMM_DEV void symm_dev_send_pack(const symm_view &v, symm_packet *slot, const symm_bits16 &x,
                                 int to)
{
    symm_detail::store_packet(symm_dev_peer(v, slot, to), x);
}

/*
 * Waits for packs in N slots of this rank, takes them and frees the slots. Thread. Returns false
 * after an abort. Orders nothing: a rank may send into the slots again if it knows by other means
 * that they are free.
 */
template <int N>
SYMM_DEV bool symm_dev_take_packs(const symm_view &v, symm_packet *const (&slots)[N],
                                  const int (&from)[N], symm_bits16 (&x)[N])
{
    const symm_packet *polled[N];
#pragma unroll
    for (int i = 0; i < N; i++)
        polled[i] = slots[i];
    const bool come =
        symm_detail::poll_packets(v, polled, from, SYMM_WAIT_PACK, 0, x,
                                  [](uint32_t word) { return word != SYMM_DEV_SLOT_FREE; });
#pragma unroll
    for (int i = 0; come && i < N; i++)
        symm_detail::store_relaxed(&slots[i]->word[3], SYMM_DEV_SLOT_FREE);
    return come;
}

/*
 * Tells rank `to`, on this channel, that this rank has begun an epoch, with a word. Thread; behind
 * symm_dev_epoch(), whose __syncthreads() it makes a release of the whole block: rank `to` then
 * knows that the block has done everything of its epochs before.
 */
SYMM_DEV void symm_dev_epoch_begun(const symm_view &v, symm_signal_pad *pad, int channel,
                                   uint32_t epoch, uint32_t word, int to)
{
    uint64_t *arrived = &symm_detail::signal_cell(v, pad, channel, v.rank)->arrived;
    if (epoch)
        symm_detail::store_release(symm_dev_peer(v, arrived, to), (uint64_t)word << 32 | epoch);
}

/*
 * Waits until rank `from` has told of this epoch, and requires its word. Thread. Acquires. Returns
 * false if the word is another one, and after an abort.
 */
SYMM_DEV bool symm_dev_await_epoch(const symm_view &v, symm_signal_pad *pad, int channel,
                                   uint32_t epoch, uint32_t word, int from)
{
    uint32_t theirs = word;
    symm_signal_cell *cell = symm_detail::signal_cell(v, pad, channel, from);
    if (!epoch || !symm_detail::wait_after(v, pad, channel, from, cell, epoch, 0, 0, &theirs))
        return false;
    if (theirs != word)
        symm_detail::record_mismatch(v, pad, channel, from, word, theirs);
    return theirs == word;
}

#endif
