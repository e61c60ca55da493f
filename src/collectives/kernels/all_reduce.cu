/* The image all_reduce: all-reduce by loads and stores. */
#include "runtime/group/define_kernels.cuh"
#include "all_reduce.cuh"
#include "all_reduce.def"

SYMM_ALL_REDUCE_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
