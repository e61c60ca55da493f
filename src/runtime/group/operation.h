/* The collectives, and what texts call them, their algorithms and their reductions. */
#ifndef SYMM_OPERATION_H
#define SYMM_OPERATION_H

#include <stdbool.h>
#include <symm/collectives.h>

enum symm_operation {
    SYMM_OPERATION_ALL_REDUCE,
    SYMM_OPERATION_REDUCE_SCATTER,
    SYMM_OPERATION_ALL_GATHER,
    SYMM_OPERATION_COUNT
};

/* NULL for values that are none of the enum's. */
const char *symm__operation_name(enum symm_operation operation); /* "all_reduce" */
const char *symm__redop_name(symm_redop op);
const char *symm__algo_name(symm_algo algo);

/*
 * Whether it takes symmetric memory only: copies write into other ranks' `out`, where they cannot
 * go through staging as kernels do.
 */
bool symm__needs_symmetric(enum symm_operation operation, symm_algo algo);

#endif
