/* Selects the instructions of the Hopper kernel: of GPUs, or of the emulated driver. */
#ifndef SYMM_MATMUL_SM90_PTX_CUH
#define SYMM_MATMUL_SM90_PTX_CUH

#ifdef __CUDACC__
#include "ptx_cuda.cuh"
#else
#include "ptx_emulated.cuh"
#endif

#endif
