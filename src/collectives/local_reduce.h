/* Reductions within a rank's own memory. */
#ifndef SYMM_LOCAL_REDUCE_H
#define SYMM_LOCAL_REDUCE_H

#include "collectives/kernels/args.h"
#include "runtime/group/call.h"
#include "algorithms.h"

/* Enqueues a local reduction; nothing if args->count is 0. */
symm_status symm__local_reduce(struct symm_call *e, const struct symm_limits *limits,
                               symm_dtype dtype, const symm_local_reduce_args *args);

#endif
