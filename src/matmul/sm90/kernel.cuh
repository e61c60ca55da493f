/*
 * The product for Hopper GPUs, if the compiler targets one or the emulated driver; an empty kernel
 * for all other GPUs.
 */
#ifndef SYMM_MATMUL_SM90_KERNEL_CUH
#define SYMM_MATMUL_SM90_KERNEL_CUH

#if !defined(__CUDACC__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#include "persistent.cuh"
#include "plain.cuh"
#include "split.cuh"
#else

#include <symm/device.cuh>
#include "args.h"

/* Never launched. */
template <typename T, int ROWS, int COLUMNS, int BLOCKS>
SYMM_DEV void matmul_wgmma(const symm_wgmma_args &)
{
}

template <typename T, int ROWS, int COLUMNS, int BLOCKS>
SYMM_DEV void matmul_plain(const symm_wgmma_args &)
{
}

template <typename T, int ROWS, int COLUMNS, int STAGES>
SYMM_DEV void matmul_split(const symm_wgmma_args &)
{
}

#endif

#endif
