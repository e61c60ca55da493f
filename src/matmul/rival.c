/* symm's kernels as a candidate of trials. */
#include "rival.h"

/* Kernels that need all rows as one matrix compete only if the product's runs have them so. */
static bool has_one_matrix(const struct symm_matmul *m)
{
    return symm__rows_are_gathered(&m->problem);
}

struct symm_matmul_plan symm__rival_plan(const struct symm_matmul *m, const struct symm_problem *p)
{
    const struct symm_agreed *agreed = &m->group->ctx->agreed;
    const struct symm_matmul_limits limits = {.nsms = agreed->nsms,
                                              .max_threads = agreed->max_threads,
                                              .wgmma = m->wgmma.usable,
                                              .split = m->wgmma.splits && has_one_matrix(m),
                                              .shape = m->wgmma.shape,
                                              .plain = has_one_matrix(m) ? m->wgmma.plain : -1};

    return symm__matmul_plan(&limits, p, symm__problem_columns(p));
}

static symm_status enqueue(const struct symm_cublas_rival *base, const struct symm_problem *p,
                           CUstream stream)
{
    const struct symm_rival *rival = (const struct symm_rival *)base;
    const struct symm_matmul *m = rival->m;
    struct symm_call call = *rival->call;
    struct symm_matmul one = {.group = m->group,
                              .operation = symm__matmul_operation(p->kind),
                              .problem = *p,
                              .wgmma = m->wgmma,
                              .plan = symm__rival_plan(m, p)};
    struct symm_matmul_run run = {.m = &one, .call = &call, .problem = *p, .product = *p};
    symm_status st;

    call.stream = stream;
    symm__call_unsettles(&call);
    one.transport = (struct symm_transport){
        .group = m->group, .problem = &one.problem, .plan = &one.plan, .view = m->transport.view};
    one.collect =
        (struct symm_collect){.group = m->group, .problem = &one.problem, .plan = &one.plan};
    TRY(symm__transport_locate(&call, &one.transport, &run.product, &run.shards));
    if (!symm__wgmma_suits(&run.product, &run.shards))
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "only the portable kernel has this layout");
    symm__matmul_choose(&run);
    st = symm__matmul_multiply(&run, 0, 1);
    symm__call_unsettles(&call); /* the trial's stream will be gone */
out:
    return st;
}

const struct symm_cublas_rival *symm__rival(const struct symm_call *call,
                                            const struct symm_matmul *m, struct symm_rival *out)
{
    *out = (struct symm_rival){
        .base = {.enqueue = enqueue, .one_matrix = has_one_matrix(m)}, .call = call, .m = m};
    return m->wgmma.usable && !m->problem.traced ? &out->base : NULL;
}
