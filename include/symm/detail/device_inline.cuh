/*
 * The bodies of what device.cuh declares, written once for both machines in terms of their single
 * instructions.
 */
#ifndef SYMM_DETAIL_DEVICE_INLINE_CUH
#define SYMM_DETAIL_DEVICE_INLINE_CUH

#include <symm/detail/device_sync.cuh>
#include <symm/detail/device_data.cuh>
#include <symm/detail/device_packet.cuh>

#endif
