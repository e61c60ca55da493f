/* The image reduce_scatter, with the local reductions of copy_engine. */
#include "runtime/group/define_kernels.cuh"
#include "local_reduce.cuh"
#include "reduce_scatter.cuh"
#include "reduce_scatter.def"

SYMM_REDUCE_SCATTER_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
