/* Defines the kernels of a list: SYMM_..._KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R). */
#ifndef SYMM_DEFINE_KERNELS_CUH
#define SYMM_DEFINE_KERNELS_CUH

#include <symm/device.cuh>

#define SYMM_DEFINE_K(name, args, max_threads, min_blocks, body)                                   \
    SYMM_KERNEL_BOUNDS(name, args, a, max_threads, min_blocks)                                     \
    {                                                                                              \
        body;                                                                                      \
    }
#define SYMM_DEFINE_R(name, args, max_threads, registers, body)                                    \
    SYMM_KERNEL_REGISTERS(name, args, a, max_threads, registers)                                   \
    {                                                                                              \
        body;                                                                                      \
    }

#endif
