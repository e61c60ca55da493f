/* The number by which a rank multiplies its elements before a reduction. */
#ifndef SYMM_SCALE_H
#define SYMM_SCALE_H

#include "collectives/kernels/args.h"
#include "runtime/group/group.h"
#include "algorithms.h"

/* Whether a scaled call can run. named: the algorithm that it names; NULL: AUTO. */
symm_status symm__scale_check(const struct symm_collective_call *call,
                              const struct symm_algorithm *named);

/* Reads options->scale, which is not NULL. Errors: ERROR_ARGUMENT: the device cannot access it. */
symm_status symm__scale_read(const struct symm_group *group, const symm_options *options,
                             symm_dtype dtype, symm_scale *out);

#endif
