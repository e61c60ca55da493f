/* The image all_reduce_two_shot. */
#include "runtime/group/define_kernels.cuh"
#include "all_reduce_two_shot.cuh"
#include "all_reduce_two_shot.def"

SYMM_ALL_REDUCE_TWO_SHOT_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
