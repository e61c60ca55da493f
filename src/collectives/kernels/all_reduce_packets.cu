/* The image all_reduce_packets: all-reduce by packets. */
#include "runtime/group/define_kernels.cuh"
#include "all_reduce_packets.cuh"
#include "all_reduce_packets.def"

SYMM_ALL_REDUCE_PACKETS_KERNELS(SYMM_DEFINE_K, SYMM_DEFINE_R)
