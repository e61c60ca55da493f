/* Calls that were taken and forwarded. */
#ifndef SYMM_NCCL_STATS_H
#define SYMM_NCCL_STATS_H

#include "take.h"

void nccl__count(const struct nccl_call *call, bool taken);

#endif
