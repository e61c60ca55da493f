/* The ids of portable.def's kernels. */
#ifndef SYMM_MATMUL_PORTABLE_IDS_H
#define SYMM_MATMUL_PORTABLE_IDS_H

#include "runtime/group/kernel.h"
#include "matmul/kernels/args.h"
#include "portable.def"

SYMM_KERNEL_IDS(matmul_portable, SYMM_MATMUL_PORTABLE_KERNELS);

#endif
