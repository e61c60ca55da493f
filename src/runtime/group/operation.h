/* The collectives and their names. */
#ifndef SYMM_OPERATION_H
#define SYMM_OPERATION_H

#include <stdbool.h>
#include <symm/collectives.h>

enum symm_operation {
    SYMM_OPERATION_ALL_REDUCE,
    SYMM_OPERATION_REDUCE_SCATTER,
    SYMM_OPERATION_ALL_GATHER,
    SYMM_OPERATION_ALL_REDUCE_RMS_NORM,
    SYMM_OPERATION_BROADCAST,
    SYMM_OPERATION_COUNT
};

/* "all_reduce", "symm_all_reduce"; NULL for values outside of the enum. */
const char *symm__operation_name(enum symm_operation operation);
const char *symm__operation_call(enum symm_operation operation);

/* Whether it is how a group of several domains runs a call: flat or hierarchical. */
bool symm__algo_is_form(symm_algo algo);

/*
 * Why AUTO must not take the algorithm, for calls with or without SYMM_SYMMETRIC; NULL: it may. The
 * table of algorithms implements this: collectives/algorithms.c.
 */
const char *symm__auto_refuses(enum symm_operation operation, symm_algo algo, bool symmetric);

#endif
