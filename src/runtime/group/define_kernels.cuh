/*
 * Defines the kernels of a list: SYMM_..._KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R). The kernels of a
 * traced image record what they do; their names end with "_traced".
 */
#ifndef SYMM_DEFINE_KERNELS_CUH
#define SYMM_DEFINE_KERNELS_CUH

#include <symm/device.cuh>

#ifdef SYMM_TRACED
#define SYMM_DEFINED(name) name##_traced
#else
#define SYMM_DEFINED(name) name
#endif

#define SYMM_DEFINE_K(name, args, max_threads, min_blocks, body)                                   \
    SYMM_DEFINE_BOUNDS_(SYMM_DEFINED(name), args, max_threads, min_blocks)                         \
    {                                                                                              \
        body;                                                                                      \
    }
#define SYMM_DEFINE_R(name, args, max_threads, registers, body)                                    \
    SYMM_DEFINE_REGISTERS_(SYMM_DEFINED(name), args, max_threads, registers)                       \
    {                                                                                              \
        body;                                                                                      \
    }
/* SYMM_DEFINED() is expanded before they are. */
#define SYMM_DEFINE_BOUNDS_(name, args, max_threads, min_blocks)                                   \
    SYMM_KERNEL_BOUNDS(name, args, a, max_threads, min_blocks)
#define SYMM_DEFINE_REGISTERS_(name, args, max_threads, registers)                                 \
    SYMM_KERNEL_REGISTERS(name, args, a, max_threads, registers)

#endif
