/* The image of the collectives' kernels. */
#include "runtime/group/define_kernels.cuh"
#include "all_gather.cuh"
#include "all_reduce.cuh"
#include "collectives.def"
#include "local_reduce.cuh"
#include "reduce_scatter.cuh"

SYMM_COLLECTIVES_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
