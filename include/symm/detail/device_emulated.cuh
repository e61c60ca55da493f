/*
 * The target of device.cuh under the emulated driver: the same functions as device_cuda.cuh on CPU
 * memory, and the CUDA C++ that kernels use.
 *
 * A block is one thread of the operating system, so a thread_local variable is its shared memory.
 * Another CUDA thread of the block may run inside every call of the driver, and nowhere else.
 */
#ifndef SYMM_DETAIL_DEVICE_EMULATED_CUH
#define SYMM_DETAIL_DEVICE_EMULATED_CUH

#include <symm/detail/emulated_cluster.cuh>
#include <symm/detail/emulated_image.cuh>
#include <symm/detail/emulated_memory.cuh>
#include <symm/detail/emulated_multimem.cuh>
#include <symm/detail/emulated_threads.cuh>

#endif
