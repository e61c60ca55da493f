/* Defines every kernel of kernels.def, for GPUs and for the emulated driver alike. */
#include "all_gather_kernels.cuh"
#include "all_reduce_kernels.cuh"
#include "local_reduce_kernels.cuh"
#include "reduce_scatter_kernels.cuh"
#include "stream_kernels.cuh"
#include "kernels.def"

#define DEFINE(name, args, max_threads, min_blocks, body)                                          \
    SYMM_KERNEL_BOUNDS(name, args, a, max_threads, min_blocks)                                     \
    {                                                                                              \
        body;                                                                                      \
    }
SYMM_KERNELS(DEFINE)
