/* The image of the collecting kernels. */
#define SYMM_DETAIL_PLAYED 1
#include "runtime/group/define_kernels.cuh"
#include "collect.def"
#include "collect.cuh"
#include "sum_bands.cuh"

SYMM_MATMUL_COLLECT_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
