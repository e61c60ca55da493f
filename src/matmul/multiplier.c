/* The multipliers, and the product of a run by one of them. */
#include <symm/names.h>
#include "as_if.h"
#include "matmul/cublas/cublas.h"
#include "matmul/kernels/tile_order.h"
#include "matmul/portable/host.h"
#include "matmul/sm90/host.h"
#include "product.h"

/* ------------------------------------------------------------------------------------- cuBLASLt */

/* Rows arrive during the run, so each rank's rows have a product of their own. */
static bool is_by_shards(const struct symm_matmul_run *run)
{
    return run->m->plan.chunks > 0;
}

/* The product of an owner's rows, stored in its slot. */
static symm_status enqueue_owner(const struct symm_matmul_run *run, const symm_product_args *args,
                                 int step)
{
    const struct symm_problem *p = &run->product;
    const symm_matrix *a = &run->shards.own;
    const int nranks = p->collect_nranks,
              owner = symm__owner_of_step(p->collect_rank, nranks, step);
    const int32_t rows = symm__rows_of_rank(p->m, nranks, owner);
    const int64_t first = symm__first_row_of_rank(p->m, nranks, owner),
                  a_offset = first * a->row * (int64_t)symm_dtype_size(p->dtype);
    struct symm_problem to_owner = *p;

    if (rows == 0)
        return SYMM_OK;
    for (int i = 0; i < p->nb; i++)
        to_owner.d[i].matrix.data = (char *)p->d[i].matrix.data + args->view.peer[owner];
    return symm__cublas_enqueue(run->m->cublas, &to_owner, (char *)a->data + a_offset, 0, rows,
                                run->call->stream);
}

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
    return run->m->cublas &&
           symm__cublas_suits(run->m->cublas, &run->product,
                              is_by_shards(run) ? run->shards.own.data : gathered_a(run));
}

/* The product of the rows of a step's rank, which have arrived. */
static symm_status enqueue_shard(const struct symm_matmul_run *run, int step)
{
    const struct symm_problem *p = &run->product;
    const int shard = (p->rank + step) % p->nranks;
    const int32_t rows = symm__rows_of_rank(p->m, p->nranks, shard),
                  first = symm__first_row_of_rank(p->m, p->nranks, shard);
    const void *a = step == 0 ? run->shards.own.data
                              : run->shards.workspace + (uint64_t)shard * run->shards.slab_nbytes;

    if (rows == 0)
        return SYMM_OK;
    return symm__cublas_enqueue(run->m->cublas, p, a, first, rows, run->call->stream);
}

static symm_status enqueue_gathered(const struct symm_matmul_run *run)
{
    const struct symm_cublas_product *product = run->m->cublas;
    symm_status st;

    TRY(symm__transport_copy(run->call, &run->m->transport, &run->shards,
                             symm__cublas_packed(product)));
    st = symm__cublas_enqueue(product, &run->product, gathered_a(run), 0, run->product.m,
                              run->call->stream);
out:
    return st;
}

static symm_status enqueue_cublas(const struct symm_matmul_run *run, const symm_product_args *args)
{
    symm_status st = SYMM_OK;

    if (args->sink == SYMM_TO_D && !is_by_shards(run))
        return enqueue_gathered(run);
    for (int step = args->first_step; step < args->last_step && st == SYMM_OK; step++)
        st = args->sink == SYMM_TO_OWNERS ? enqueue_owner(run, args, step)
                                          : enqueue_shard(run, step);
    return st;
}

/* ------------------------------------------------------------------------------- symm's kernels */

static bool suits_sm90(const struct symm_matmul_run *run)
{
    return run->m->wgmma.usable && symm__wgmma_suits(&run->product, &run->shards);
}

static symm_status enqueue_sm90(const struct symm_matmul_run *run, const symm_product_args *args)
{
    return symm__wgmma_enqueue(run->call, &run->product, &run->problem, &run->m->plan, args);
}

/* Puts all rows of A, which have arrived as one matrix, in place of the ranks' shards. */
static void gather(const struct symm_matmul_run *run, struct symm_problem *p, symm_shards *a)
{
    *p = run->product;
    *a = run->shards;
    if (p->nranks == 1)
        return;
    p->rank = a->rank = 0;
    p->nranks = a->nranks = 1;
    a->own = (symm_matrix){.data = a->workspace, .row = a->ld, .column = 1, .dtype = a->own.dtype};
    a->workspace = NULL;
}

static bool suits_split(const struct symm_matmul_run *run)
{
    struct symm_problem p;
    symm_shards a;

    gather(run, &p, &a);
    return run->m->wgmma.splits && run->m->plan.split.k_parts > 0 && symm__wgmma_suits(&p, &a);
}

/* The product of all rows as one matrix: *p and *all. */
static void as_one(const struct symm_matmul_run *run, const symm_product_args *args,
                   struct symm_problem *p, symm_product_args *all)
{
    *all = *args;
    gather(run, p, &all->a);
    all->first_step = 0;
    all->last_step = 1;
}

static symm_status enqueue_split(const struct symm_matmul_run *run, const symm_product_args *args)
{
    symm_product_args all;
    struct symm_problem p;

    as_one(run, args, &p, &all);
    return symm__split_enqueue(run->call, &p, &run->problem, &run->m->plan, &all);
}

static bool suits_plain(const struct symm_matmul_run *run)
{
    struct symm_problem p;
    symm_shards a;

    gather(run, &p, &a);
    return run->m->wgmma.usable && run->m->plan.plain > 0 && symm__plain_suits(&p, &a);
}

static symm_status enqueue_plain(const struct symm_matmul_run *run, const symm_product_args *args)
{
    symm_product_args all;
    struct symm_problem p;

    as_one(run, args, &p, &all);
    return symm__plain_enqueue(run->call, &p, &run->m->plan, &all);
}

static bool suits_portable(const struct symm_matmul_run *run)
{
    (void)run;
    return true;
}

static symm_status enqueue_portable(const struct symm_matmul_run *run,
                                    const symm_product_args *args)
{
    return symm__portable_enqueue(run->call, &run->product, &run->m->plan, args);
}

/*
 * By preference. The last one suits every run. SMs send beside products by cuBLASLt only if the
 * ranks' multipliers differ, or by SYMM_MATMUL_ENGINE_BYTES.
 */
static const struct symm_multiplier multipliers[] = {
    {suits_split, enqueue_split, SYMM_WGMMA_SENDER_NBYTES, 1 << SYMM_SUMS_PACKS},
    {suits_cublas, enqueue_cublas, SYMM_WGMMA_SENDER_NBYTES, 0},
    {suits_plain, enqueue_plain, SYMM_WGMMA_SENDER_NBYTES, 0},
    {suits_sm90, enqueue_sm90, SYMM_WGMMA_SENDER_NBYTES,
     1 << SYMM_SUMS_PARTS | 1 << SYMM_SUMS_BANDS},
    {suits_portable, enqueue_portable, SYMM_PORTABLE_SENDER_NBYTES, 0},
};

void symm__matmul_choose(struct symm_matmul_run *run)
{
    run->multiplier = multipliers;
    while (!run->multiplier->suits(run))
        run->multiplier++;
}

bool symm__matmul_adds(const struct symm_matmul_run *run)
{
    return run->multiplier->adds >> run->m->plan.sums & 1;
}

symm_status symm__matmul_multiply(const struct symm_matmul_run *run, int first_step, int last_step)
{
    const struct symm_matmul *m = run->m;
    const struct symm_problem *p = &run->product;
    symm_product_args args = {
        .a = run->shards,
        .nb = p->nb,
        .first_step = first_step,
        .last_step = last_step,
        .sink = m->plan.sink,
        .alpha = p->alpha,
        .beta = p->beta,
        .activation = (uint32_t)p->activation,
        .view = m->transport.view,
    };

    if (m->plan.sums != SYMM_SUMS_PACKS || symm__matmul_adds(run))
        symm__collect_parts(&m->collect, &run->problem, symm__matmul_adds(run), &args.parts);
    if (m->plan.sink != SYMM_TO_D && args.view.flags & SYMM_VIEW_PLAYED)
        symm__as_if_slots(&args.view, symm__collect_slot_nbytes(&m->collect, &run->problem));
    if (m->plan.strategy == SYMM_STRATEGY_FUSED) { /* else the rows have arrived */
        args.arrivals = symm__transport_arrivals(&m->transport);
        args.round = m->transport.round;
    }
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
