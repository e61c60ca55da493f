/* The image of the portable product. */
#define SYMM_DETAIL_PLAYED 1
#include "runtime/group/define_kernels.cuh"
#include "portable.def"
#include "product.cuh"

SYMM_MATMUL_PORTABLE_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
