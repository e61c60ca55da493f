/* The ids of sm90.def's kernels. */
#ifndef SYMM_MATMUL_SM90_IDS_H
#define SYMM_MATMUL_SM90_IDS_H

#include "runtime/group/kernel.h"
#include "args.h"
#include "sm90.def"

SYMM_KERNEL_IDS(matmul_sm90, SYMM_MATMUL_SM90_KERNELS);

#endif
