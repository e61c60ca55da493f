/* The image all_reduce_rms_norm: all-reduce, residual and RMS norm. */
#include "runtime/group/define_kernels.cuh"
#include "all_reduce_rms_norm.cuh"
#include "all_reduce_rms_norm.def"

SYMM_ALL_REDUCE_RMS_NORM_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
