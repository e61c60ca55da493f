/* The ids of transport.def's kernels. */
#ifndef SYMM_MATMUL_TRANSPORT_IDS_H
#define SYMM_MATMUL_TRANSPORT_IDS_H

#include "runtime/group/kernel.h"
#include "args.h"
#include "transport.def"

SYMM_KERNEL_IDS(matmul_transport, SYMM_MATMUL_TRANSPORT_KERNELS);

#endif
