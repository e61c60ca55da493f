/* Blocks of a rank's own memory, between the order of a group and another one. */
#ifndef SYMM_PLACE_BLOCKS_H
#define SYMM_PLACE_BLOCKS_H

#include "collectives/kernels/args.h"
#include "runtime/group/call.h"
#include "algorithms.h"

/* Enqueues the copies; nothing if there are no bytes. */
symm_status symm__place_blocks(struct symm_call *e, const struct symm_limits *limits,
                               const symm_place_blocks_args *args);

#endif
