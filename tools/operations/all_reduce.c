/* The all-reduce: the variants of symm_all_reduce(), and NCCL's. */
#include "operation.h"

static const struct variant variants[] = {
    {.name = "auto", .algo = SYMM_ALGO_AUTO},
    {.name = "low_latency", .algo = SYMM_ALGO_LOW_LATENCY},
    {.name = "one_shot", .algo = SYMM_ALGO_ONE_SHOT},
    {.name = "two_shot", .algo = SYMM_ALGO_TWO_SHOT},
    {.name = "multimem", .algo = SYMM_ALGO_MULTIMEM},
    {.name = "multimem_one_shot", .algo = SYMM_ALGO_MULTIMEM_ONE_SHOT},
    {.name = "copy_engine", .algo = SYMM_ALGO_COPY_ENGINE},
    {0},
};

/* A reduce-scatter and an all-gather, each of which brings (R-1)/R of a buffer to every rank. */
static double bus_factor(int nranks)
{
    return 2.0 * (nranks - 1) / nranks;
}

static const char *unavailable(symm_group *group, const struct variant *v, const struct element *e)
{
    return symm_all_reduce_unavailable(group, v->algo, e->dtype, SYMM_SUM);
}

static symm_status enqueue(const struct operation_call *call)
{
    if (call->variant->nccl)
        return nccl_all_reduce(call->nccl, call->in, call->out, call->count, call->element,
                               call->stream);
    return symm_all_reduce(
        call->group, call->in, call->out, call->count, call->element->dtype, SYMM_SUM,
        &(symm_options){.algo = call->variant->algo, .max_blocks = call->max_blocks}, call->stream);
}

/* Whatever may use the switch adds in an order of the switch's own; NCCL rounds to the type on the
 * way. */
static enum sums_rule rule(symm_group *group, const struct variant *v, const struct element *e)
{
    if (v->nccl)
        return SUMS_TYPE;
    bool may_use_switch =
        v->algo == SYMM_ALGO_MULTIMEM || v->algo == SYMM_ALGO_MULTIMEM_ONE_SHOT ||
        (v->algo == SYMM_ALGO_AUTO &&
         !symm_all_reduce_unavailable(group, SYMM_ALGO_MULTIMEM, e->dtype, SYMM_SUM));

    return may_use_switch ? SUMS_SWITCH : SUMS_EXACT;
}

const struct operation operation_all_reduce = {.name = "all-reduce",
                                               .op = "sum",
                                               .variants = variants,
                                               .bus_factor = bus_factor,
                                               .unavailable = unavailable,
                                               .enqueue = enqueue,
                                               .rule = rule};
