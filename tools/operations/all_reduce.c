/* The all-reduce: the variants of symm_all_reduce(), and NCCL's. */
#include "operation.h"

static const struct variant variants[] = {
    {.name = "auto", .algo = SYMM_ALGO_AUTO},
    {.name = "low_latency", .algo = SYMM_ALGO_LOW_LATENCY},
    {.name = "low_latency_two_shot", .algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT},
    {.name = "one_shot", .algo = SYMM_ALGO_ONE_SHOT},
    {.name = "two_shot", .algo = SYMM_ALGO_TWO_SHOT},
    {.name = "multimem", .algo = SYMM_ALGO_MULTIMEM},
    {.name = "multimem_one_shot", .algo = SYMM_ALGO_MULTIMEM_ONE_SHOT},
    {.name = "copy_engine", .algo = SYMM_ALGO_COPY_ENGINE},
    {0},
};

/* A reduce-scatter and an all-gather. */
static double bus_factor(int nranks)
{
    return 2 * operation_part_factor(nranks);
}

static const char *unavailable(symm_group *group, const struct variant *v, const struct element *e,
                               symm_redop op)
{
    return symm_all_reduce_unavailable(group, v->algo, e->dtype, op);
}

static symm_status enqueue(const struct operation_call *call)
{
    const symm_options options = operation_options(call);

    if (call->variant->nccl)
        return nccl_all_reduce(call->nccl, call->in, call->out, call->count, call->element->dtype,
                               call->op, call->stream);
    return symm_all_reduce(call->group, call->in, call->out, call->count, call->element->dtype,
                           call->op, &options, call->stream);
}

const struct operation operation_all_reduce = {.name = "all-reduce",
                                               .variants = variants,
                                               .reduces = true,
                                               .bus_factor = bus_factor,
                                               .unavailable = unavailable,
                                               .enqueue = enqueue};
