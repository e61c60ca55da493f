/* The all-gather: the variants of symm_all_gather(), and NCCL's. */
#include "operation.h"

static const struct variant variants[] = {
    {.name = "auto", .algo = SYMM_ALGO_AUTO},
    {.name = "low_latency", .algo = SYMM_ALGO_LOW_LATENCY},
    {.name = "one_shot", .algo = SYMM_ALGO_ONE_SHOT},
    {.name = "multimem", .algo = SYMM_ALGO_MULTIMEM},
    {.name = "copy_engine", .algo = SYMM_ALGO_COPY_ENGINE},
    {0},
};

static const char *unavailable(symm_group *group, const struct variant *v, const struct element *e,
                               symm_redop op)
{
    (void)op;
    return symm_all_gather_unavailable(group, v->algo, e->dtype);
}

static symm_status enqueue(const struct operation_call *call)
{
    const symm_options options = operation_options(call);
    const size_t part = call->count / (size_t)symm_nranks(call->group);

    if (call->variant->nccl)
        return nccl_all_gather(call->nccl, call->in, call->out, part, call->element->dtype,
                               call->stream);
    return symm_all_gather(call->group, call->in, call->out, part, call->element->dtype, &options,
                           call->stream);
}

const struct operation operation_all_gather = {.name = "all-gather",
                                               .variants = variants,
                                               .in_is_part = true,
                                               .bus_factor = operation_part_factor,
                                               .unavailable = unavailable,
                                               .enqueue = enqueue};
