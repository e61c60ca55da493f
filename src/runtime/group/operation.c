/* The names of the collectives. */
#include "operation.h"

#include <string.h>

const char *symm__operation_call(enum symm_operation operation)
{
    static const char *const calls[] = {
        [SYMM_OPERATION_ALL_REDUCE] = "symm_all_reduce",
        [SYMM_OPERATION_REDUCE_SCATTER] = "symm_reduce_scatter",
        [SYMM_OPERATION_ALL_GATHER] = "symm_all_gather",
        [SYMM_OPERATION_ALL_REDUCE_RMS_NORM] = "symm_all_reduce_rms_norm",
        [SYMM_OPERATION_BROADCAST] = "symm_broadcast",
    };
    return (unsigned)operation < sizeof calls / sizeof calls[0] ? calls[operation] : NULL;
}

const char *symm__operation_name(enum symm_operation operation)
{
    const char *const call = symm__operation_call(operation);

    return call ? call + strlen("symm_") : NULL;
}

bool symm__algo_is_form(symm_algo algo)
{
    return algo == SYMM_ALGO_FLAT || algo == SYMM_ALGO_HIERARCHICAL;
}
