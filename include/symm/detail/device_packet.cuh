/* Packets, for both targets. */
#ifndef SYMM_DETAIL_DEVICE_PACKET_CUH
#define SYMM_DETAIL_DEVICE_PACKET_CUH

#include <symm/detail/device_sync.cuh>

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
    bool recorded = false;
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
        if (missing < 0 && !recorded)
            return true;
        if (missing < 0 || poison) {
            if (recorded)
                symm_detail::withdraw_record(v);
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
        recorded = symm_detail::poll_again<true>(v, polls, recorded, r);
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

#endif
