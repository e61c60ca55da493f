/* The image of the transport's kernels. */
#define SYMM_DETAIL_PLAYED 1
#include "runtime/group/define_kernels.cuh"
#include "transport.def"
#include "copy_rows.cuh"
#include "rounds.cuh"
#include "senders.cuh"

SYMM_MATMUL_TRANSPORT_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
