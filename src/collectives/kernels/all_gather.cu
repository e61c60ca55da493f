/* The image all_gather. */
#include "runtime/group/define_kernels.cuh"
#include "all_gather.cuh"
#include "place_blocks.cuh"
#include "all_gather.def"

SYMM_ALL_GATHER_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
