/* The image lamport: collectives by packs that are their own flag. */
#include "runtime/group/define_kernels.cuh"
#include "lamport.cuh"
#include "lamport.def"

SYMM_LAMPORT_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
