/* The image with the kernels of signals. */
#include "runtime/group/define_kernels.cuh"
#include "signal.def"
#include "signal_kernels.cuh"

SYMM_SIGNAL_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
