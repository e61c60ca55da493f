/* The multipliers, and the product of a run by one of them. */
#include "cublas.h"
#include "matmul.h"
#include "matmul/portable/host.h"
#include "matmul/sm90/host.h"

/* ------------------------------------------------------------------------------------- cuBLASLt */

/* All of A as one matrix, after its rows have arrived. */
static const void *gathered_a(const struct symm_matmul_run *run)
{
    const void *packed = symm__cublas_packed(run->m->cublas)->data;

    if (packed)
        return packed;
    return run->shards.workspace ? run->shards.workspace : run->shards.own.data;
}

static bool suits_cublas(const struct symm_matmul_run *run)
{
    return run->m->cublas && symm__cublas_suits(&run->problem, gathered_a(run));
}

static symm_status enqueue_cublas(const struct symm_matmul_run *run, const symm_product_args *args)
{
    const struct symm_cublas_product *product = run->m->cublas;
    symm_status st;

    (void)args;
    TRY(symm__transport_copy(run->call, &run->m->transport, &run->shards,
                             symm__cublas_packed(product)));
    st = symm__cublas_enqueue(product, &run->problem, gathered_a(run), run->call->stream);
out:
    return st;
}

/* ------------------------------------------------------------------------------- symm's kernels */

static bool suits_sm90(const struct symm_matmul_run *run)
{
    return run->m->wgmma && symm__wgmma_suits(&run->problem, &run->shards);
}

static symm_status enqueue_sm90(const struct symm_matmul_run *run, const symm_product_args *args)
{
    return symm__wgmma_enqueue(run->call, &run->problem, &run->m->plan, args);
}

static bool suits_portable(const struct symm_matmul_run *run)
{
    (void)run;
    return true;
}

static symm_status enqueue_portable(const struct symm_matmul_run *run,
                                    const symm_product_args *args)
{
    return symm__portable_enqueue(run->call, &run->problem, &run->m->plan, args);
}

/* By preference. The last one suits every run. cuBLASLt's products never run beside senders. */
static const struct symm_multiplier multipliers[] = {
    {suits_cublas, enqueue_cublas, 0},
    {suits_sm90, enqueue_sm90, SYMM_WGMMA_SENDER_NBYTES},
    {suits_portable, enqueue_portable, SYMM_PORTABLE_SENDER_NBYTES},
};

void symm__matmul_choose(struct symm_matmul_run *run)
{
    run->multiplier = multipliers;
    while (!run->multiplier->suits(run))
        run->multiplier++;
}

symm_status symm__matmul_multiply(const struct symm_matmul_run *run, int first_step, int last_step)
{
    const struct symm_matmul *m = run->m;
    const struct symm_problem *p = &run->problem;
    symm_product_args args = {
        .a = run->shards,
        .arrivals = symm__transport_arrivals(&m->transport),
        .nb = p->nb,
        .first_step = first_step,
        .last_step = last_step,
        .alpha = p->alpha,
        .beta = p->beta,
        .activation = (uint32_t)p->activation,
        .blocks_started = first_step == 0 ? symm__transport_blocks_started(&m->transport) : NULL,
        .view = m->group->view,
    };

    if (p->alpha == 0)
        args.a.k = 0; /* reads neither a nor b */
    for (int i = 0; i < p->nb; i++) {
        args.b[i] = p->b[i].matrix;
        args.c[i] = p->c[i].matrix;
        args.d[i] = p->d[i].matrix;
        args.bias[i] = p->bias[i].matrix;
        args.n[i] = p->n[i];
    }
    return run->multiplier->enqueue(run, &args);
}
