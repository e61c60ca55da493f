/* The image multimem: the collectives of the switch. */
#include "runtime/group/define_kernels.cuh"
#include "multimem.cuh"
#include "multimem.def"

SYMM_MULTIMEM_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
