/* The ids of the collectives' kernels. */
#ifndef SYMM_COLLECTIVES_IDS_H
#define SYMM_COLLECTIVES_IDS_H

#include "runtime/group/kernel.h"
#include "args.h"
#include "collectives.def"

SYMM_KERNEL_IDS(collectives, SYMM_COLLECTIVES_KERNELS);

#endif
