/* All of them are one image. */
#include "device_sync.cuh"
#include "device_data.cuh"
#include "device_move.cuh"
#include "device_multimem.cuh"
#include "device_packet.cuh"
#include "device_stall.cuh"
