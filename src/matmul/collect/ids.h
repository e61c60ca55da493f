/* The ids of collect.def's kernels. */
#ifndef SYMM_MATMUL_COLLECT_IDS_H
#define SYMM_MATMUL_COLLECT_IDS_H

#include "runtime/group/kernel.h"
#include "args.h"
#include "collect.def"

SYMM_KERNEL_IDS(matmul_collect, SYMM_MATMUL_COLLECT_KERNELS);

#endif
