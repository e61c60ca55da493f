/* The ids of the collectives' kernels. */
#ifndef SYMM_COLLECTIVES_IDS_H
#define SYMM_COLLECTIVES_IDS_H

#include "runtime/group/kernel.h"
#include "args.h"
#include "all_gather.def"
#include "all_reduce_one_shot.def"
#include "all_reduce_packets.def"
#include "all_reduce_rms_norm.def"
#include "all_reduce_two_shot.def"
#include "broadcast.def"
#include "lamport.def"
#include "multimem.def"
#include "reduce_scatter.def"

SYMM_KERNEL_IDS(all_reduce_packets, SYMM_ALL_REDUCE_PACKETS_KERNELS);
SYMM_KERNEL_IDS(all_reduce_one_shot, SYMM_ALL_REDUCE_ONE_SHOT_KERNELS);
SYMM_KERNEL_IDS(all_reduce_rms_norm, SYMM_ALL_REDUCE_RMS_NORM_KERNELS);
SYMM_KERNEL_IDS(all_reduce_two_shot, SYMM_ALL_REDUCE_TWO_SHOT_KERNELS);
SYMM_KERNEL_IDS(reduce_scatter, SYMM_REDUCE_SCATTER_KERNELS);
SYMM_KERNEL_IDS(all_gather, SYMM_ALL_GATHER_KERNELS);
SYMM_KERNEL_IDS(broadcast, SYMM_BROADCAST_KERNELS);
SYMM_KERNEL_IDS(lamport, SYMM_LAMPORT_KERNELS);
SYMM_KERNEL_IDS(multimem, SYMM_MULTIMEM_KERNELS);

#endif
