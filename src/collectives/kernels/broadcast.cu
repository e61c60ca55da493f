/* The image broadcast. */
#include "runtime/group/define_kernels.cuh"
#include "broadcast.cuh"
#include "broadcast.def"

SYMM_BROADCAST_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
