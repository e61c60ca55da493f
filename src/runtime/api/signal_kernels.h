/* The ids of the kernels of signals. */
#ifndef SYMM_SIGNAL_KERNELS_H
#define SYMM_SIGNAL_KERNELS_H

#include "runtime/group/kernel.h"
#include "signal.def"
#include "signal_args.h"

SYMM_KERNEL_IDS(signal, SYMM_SIGNAL_KERNELS);

#endif
