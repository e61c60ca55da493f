/* The ids of the products' kernels. */
#ifndef SYMM_MATMUL_IDS_H
#define SYMM_MATMUL_IDS_H

#include "runtime/group/kernel.h"
#include "args.h"
#include "matmul.def"

SYMM_KERNEL_IDS(matmul, SYMM_MATMUL_KERNELS);

#endif
