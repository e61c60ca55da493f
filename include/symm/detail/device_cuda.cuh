/*
 * The instructions of device.cuh for GPUs: one PTX instruction per function. Addresses are global.
 * The asm statements are volatile with a memory clobber, so the compiler keeps their order.
 */
#ifndef SYMM_DETAIL_DEVICE_CUDA_CUH
#define SYMM_DETAIL_DEVICE_CUDA_CUH

#include <symm/detail/cuda_cluster.cuh>
#include <symm/detail/cuda_copy.cuh>
#include <symm/detail/cuda_memory.cuh>
#include <symm/detail/cuda_multimem.cuh>
#include <symm/detail/cuda_threads.cuh>

#endif
