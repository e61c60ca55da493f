/* The image of the product for Hopper GPUs. */
#define SYMM_DETAIL_PLAYED 1
#include "runtime/group/define_kernels.cuh"
#include "sm90.def"
#include "kernel.cuh"

SYMM_MATMUL_SM90_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
