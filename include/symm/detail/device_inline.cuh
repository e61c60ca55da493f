/*
 * The bodies of the functions of device.cuh, written once for both targets on top of
 * one-instruction functions.
 */
#ifndef SYMM_DETAIL_DEVICE_INLINE_CUH
#define SYMM_DETAIL_DEVICE_INLINE_CUH

#include <symm/detail/device_sync.cuh>
#include <symm/detail/device_data.cuh>
#include <symm/detail/device_packet.cuh>

#endif
