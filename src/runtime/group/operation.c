/* The names of operations, algorithms and reductions. */
#include "operation.h"

const char *symm__operation_name(enum symm_operation operation)
{
    static const char *const names[] = {[SYMM_OPERATION_ALL_REDUCE] = "all_reduce",
                                        [SYMM_OPERATION_REDUCE_SCATTER] = "reduce_scatter",
                                        [SYMM_OPERATION_ALL_GATHER] = "all_gather"};
    return (unsigned)operation < sizeof names / sizeof names[0] ? names[operation] : NULL;
}

const char *symm__redop_name(symm_redop op)
{
    static const char *const names[] = {
        [SYMM_SUM] = "sum", [SYMM_AVG] = "avg", [SYMM_MIN] = "min", [SYMM_MAX] = "max"};
    return (unsigned)op < sizeof names / sizeof names[0] ? names[op] : NULL;
}

const char *symm__algo_name(symm_algo algo)
{
    static const char *const names[] = {
        [SYMM_ALGO_AUTO] = "auto",
        [SYMM_ALGO_LOW_LATENCY] = "low_latency",
        [SYMM_ALGO_ONE_SHOT] = "one_shot",
        [SYMM_ALGO_TWO_SHOT] = "two_shot",
        [SYMM_ALGO_MULTIMEM] = "multimem",
        [SYMM_ALGO_MULTIMEM_ONE_SHOT] = "multimem_one_shot",
        [SYMM_ALGO_COPY_ENGINE] = "copy_engine",
        [SYMM_ALGO_LOW_LATENCY_TWO_SHOT] = "low_latency_two_shot",
    };
    return (unsigned)algo < sizeof names / sizeof names[0] ? names[algo] : NULL;
}
