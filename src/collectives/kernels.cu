/* Defines every kernel of kernels.def, for GPUs and for the emulated driver alike. */
#include "all_reduce_kernels.cuh"
#include "stream_kernels.cuh"
#include "kernels.def"

#define DEFINE(name, args, max_threads, body)                                                      \
    SYMM_KERNEL(name, args, a, max_threads)                                                        \
    {                                                                                              \
        body;                                                                                      \
    }
SYMM_KERNELS(DEFINE)
