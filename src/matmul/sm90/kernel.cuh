/* The product on Hopper GPUs, where the compiler makes code for one. */
#ifndef SYMM_MATMUL_SM90_KERNELS_CUH
#define SYMM_MATMUL_SM90_KERNELS_CUH

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "mainloop.cuh"
#else

#include <symm/device.cuh>
#include "matmul/kernels/args.h"

/* Never launched. */
template <typename T, int COLUMNS, int CLUSTER> SYMM_DEV void matmul_wgmma(const symm_wgmma_args &)
{
}

#endif

#endif
