/* Selects the target: nvcc compiles for GPUs, any other compiler for the emulated driver. */
#ifndef SYMM_DETAIL_DEVICE_SELECT_CUH
#define SYMM_DETAIL_DEVICE_SELECT_CUH

#include <symm/types.h>

namespace symm_detail
{
struct alignas(16) bits16 { /* 16 bytes, as one access moves them */
    uint32_t w[4];
};
} /* namespace symm_detail */

#ifdef __CUDACC__
#include <symm/detail/device_cuda.cuh>
#else
#include <symm/detail/device_emulated.cuh>
#endif

#endif
