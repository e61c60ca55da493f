/* The image of the collecting kernels. */
#include "runtime/group/define_kernels.cuh"
#include "collect.def"
#include "collect.cuh"
#include "sum_bands.cuh"

SYMM_MATMUL_COLLECT_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
