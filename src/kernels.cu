/* Defines every kernel of kernels.def, for GPUs and for the emulated driver alike. */
#include "collectives/all_gather_kernels.cuh"
#include "collectives/all_reduce_kernels.cuh"
#include "collectives/local_reduce_kernels.cuh"
#include "collectives/reduce_scatter_kernels.cuh"
#include "collectives/stream_kernels.cuh"
#include "matmul/product_kernels.cuh"
#include "matmul/sm90_kernels.cuh"
#include "matmul/transfer_kernels.cuh"
#include "kernels.def"

#define DEFINE(name, args, max_threads, min_blocks, body)                                          \
    SYMM_KERNEL_BOUNDS(name, args, a, max_threads, min_blocks)                                     \
    {                                                                                              \
        body;                                                                                      \
    }
#define DEFINE_WITH_ROOM(name, args, max_threads, registers, body)                                 \
    SYMM_KERNEL_REGISTERS(name, args, a, max_threads, registers)                                   \
    {                                                                                              \
        body;                                                                                      \
    }
SYMM_KERNELS(DEFINE, DEFINE_WITH_ROOM)
