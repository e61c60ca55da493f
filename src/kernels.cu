/* Defines every kernel of kernels.def, for GPUs and for the emulated driver alike. */
#include "collectives/kernels/all_gather.cuh"
#include "collectives/kernels/all_reduce.cuh"
#include "collectives/kernels/local_reduce.cuh"
#include "collectives/kernels/reduce_scatter.cuh"
#include "runtime/api/signal_kernels.cuh"
#include "matmul/portable/product.cuh"
#include "matmul/sm90/kernel.cuh"
#include "matmul/kernels/transfer.cuh"
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
