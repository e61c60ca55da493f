#include "rms_norm.h"

#include "runtime/base/numbers.h"

enum {
    THREADS = 512, /* of the kernel of one rank, at most */
    BLOCKS = 2     /* for each SM */
};

symm_status symm__rms_norm_begin(struct symm_call *e, symm_group *group,
                                 const struct symm_collective_call *call, const symm_rms_norm *norm,
                                 symm_stream stream)
{
    return symm__call_begin(
        e, group, stream, true,
        "symm_all_reduce_rms_norm(rows %zu, hidden %zu, %s, eps %g%s%s, %s, flags %u, max_blocks "
        "%u)",
        norm->rows, norm->hidden, symm_dtype_name(call->dtype), (double)norm->eps,
        norm->residual ? ", residual" : "", norm->weight ? ", weight" : "",
        symm_algo_name(call->algo), call->flags, call->max_blocks);
}

static symm_norm_args norm_args(const struct symm_collective_call *call, uint64_t block_rows,
                                symm_row_threads row, const symm_collective_args *all,
                                const struct symm_norm_arguments *norm)
{
    return (symm_norm_args){
        .all = *all,
        .residual = norm->residual.address,
        .weight = norm->weight.address,
        .residual_out = norm->residual_out.address,
        .rows = call->count / call->row,
        .hidden = call->row,
        .block_rows = block_rows,
        .threads = row,
        .eps = norm->eps,
    };
}

symm_status symm__rms_norm_launch(struct symm_call *e, const struct symm_planned *planned, bool pdl,
                                  const symm_collective_args *all,
                                  const struct symm_norm_arguments *norm)
{
    const struct symm_plan *plan = &planned->plan;
    const symm_norm_args args = norm_args(&planned->call, plan->block_rows, plan->row, all, norm);

    if (plan->row.blocks > 1)
        return symm__call_launch_cluster(e, plan->kernel, plan->blocks, plan->threads,
                                         plan->row.blocks, 0, pdl, &args);
    return symm__call_launch(e, plan->kernel, plan->blocks, plan->threads, pdl, &args);
}

symm_status symm__rms_norm_alone(struct symm_call *e, const struct symm_limits *limits,
                                 const struct symm_collective_call *call,
                                 const struct symm_arguments *args)
{
    const symm_collective_args all = {.in = args->in.address, .out = args->out.address};
    const uint64_t rows = call->count / call->row,
                   block_rows = symm__ceil_div(rows, BLOCKS * (uint64_t)limits->nsms);
    const uint32_t threads = symm__plan_row_threads(limits, call->row, THREADS);
    const symm_norm_args norm =
        norm_args(call, block_rows, symm__plan_row(call->row, threads), &all, &args->norm);

    return symm__call_launch_local(e,
                                   call->dtype == SYMM_FLOAT16 ? SYMM_KERNEL_rms_norm_float16
                                                               : SYMM_KERNEL_rms_norm_bfloat16,
                                   (uint32_t)symm__ceil_div(rows, block_rows), threads, &norm);
}
