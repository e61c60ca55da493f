/* The names of the collectives. */
#include "operation.h"

const char *symm__operation_name(enum symm_operation operation)
{
    static const char *const names[] = {[SYMM_OPERATION_ALL_REDUCE] = "all_reduce",
                                        [SYMM_OPERATION_REDUCE_SCATTER] = "reduce_scatter",
                                        [SYMM_OPERATION_ALL_GATHER] = "all_gather"};
    return (unsigned)operation < sizeof names / sizeof names[0] ? names[operation] : NULL;
}
