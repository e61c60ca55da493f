/* Products: making them, running them in one of three ways, giving them back. */
#include <stdio.h>
#include <stdlib.h>
#include "runtime/base/dtype.h"
#include "runtime/group/pad.h"
#include "cublas.h"
#include "matmul/kernels/ids.h"
#include "matmul/sm90/host.h"

SYMM_KERNEL_LIST(matmul, SYMM_MATMUL_KERNELS);

/* ------------------------------------------------------------------------------------ creating */

static symm_status vote(struct symm_call *e, struct symm_vote *step)
{
    step->what = e->text;
    step->fd = -1;
    return symm__host_comm_vote(e->group->comm, step, symm__deadline_in(e->group->ctx->timeout_ms));
}

static const char *const kind_names[] = {
    [SYMM_MATMUL] = "matmul",
    [SYMM_ALL_GATHER_MATMUL] = "all_gather",
};
static const char *const strategy_names[] = {
    [SYMM_STRATEGY_AUTO] = "auto",
    [SYMM_STRATEGY_FUSED] = "fused",
    [SYMM_STRATEGY_PIPELINED] = "pipelined",
    [SYMM_STRATEGY_UNFUSED] = "unfused",
};

/* From now on the call is what the ranks must agree on. */
static void name_call(struct symm_call *e, const struct symm_problem *p)
{
    snprintf(e->text, sizeof e->text,
             "symm_matmul_create(%s, %s, m %d, k %d, l %d, %s, nb %d, gathered_a %s)",
             kind_names[p->kind], strategy_names[p->strategy], p->m, p->k, p->l,
             symm__dtype_name(p->dtype), p->nb, p->gathered_a.l ? "wanted" : "not wanted");
}

/* What may differ between ranks, and matters to the choice. */
struct own_part {
    int64_t columns, cublas, wgmma;
};

/*
 * Where all ranks have the same product; what is wrong on one of them is no difference. Columns may
 * differ: what is chosen is for the most. So may who multiplies, which nobody else sees.
 */
static symm_status agree(struct symm_call *e, symm_status mine, struct symm_matmul *m)
{
    const struct symm_agreed *agreed = &e->group->ctx->agreed;
    struct symm_matmul_limits limits = {.nsms = agreed->nsms,
                                        .max_threads = agreed->max_threads,
                                        .cublas = true,
                                        .engine_nbytes = agreed->matmul_engine_nbytes};
    struct own_part own, all[SYMM_MAX_RANKS];
    struct symm_vote able = {.status = mine},
                     same = {.mine = &own, .nbytes = sizeof own, .all = all};
    int64_t most = 0;
    symm_status st;

    TRY(vote(e, &able));
    name_call(e, &m->problem);
    own = (struct own_part){symm__problem_columns(&m->problem), m->cublas != NULL, m->wgmma};
    TRY(vote(e, &same));
    for (int r = 0; r < e->group->nranks; r++) {
        most = all[r].columns > most ? all[r].columns : most;
        limits.cublas = limits.cublas && all[r].cublas;
        limits.wgmma = limits.wgmma || all[r].wgmma;
    }
    m->plan = symm__matmul_plan(&limits, &m->problem, most);
    if (m->plan.chunks > 0) { /* rows come while they are multiplied */
        symm__cublas_forget(m->cublas);
        m->cublas = NULL;
    }
out:
    return st;
}

static symm_status alloc(struct symm_call *e, struct symm_matmul *m, enum symm_block_kind kind,
                         uint64_t nbytes, void *out)
{
    void *block;
    symm_status st;

    TRY(symm__memory_alloc(e->group->ctx->memory, e->group->comm, m, kind, nbytes, e->text,
                           &block));
    *(void **)out = block;
out:
    return st;
}

/* Counts are 0 when a run begins: its product may count before its turn clears the others. */
static symm_status clear(struct symm_call *e, struct symm_matmul *m, int nchannels)
{
    const struct symm_context *ctx = e->group->ctx;
    symm_status st;

    if (m->counts)
        TRY_CU(ctx->drv, cuMemsetD32Async, (CUdeviceptr)(uintptr_t)m->counts, 0,
               symm__gather_ncounts(m), ctx->own_stream);
    st = symm__pad_clear(e->group, m->pad, nchannels);
out:
    return st;
}

/* What the window cannot have is no wrong argument: nobody has named a number of bytes. */
static symm_status alloc_workspace(struct symm_call *e, struct symm_matmul *m)
{
    const struct symm_problem *p = &m->problem;
    const symm_status st =
        alloc(e, m, SYMM_BLOCK_INTERNAL, m->plan.workspace_nbytes, &m->workspace);

    if (st == SYMM_OK)
        return SYMM_OK;
    return symm__fail_in(st == SYMM_ERROR_ARGUMENT ? SYMM_ERROR_MEMORY : st,
                         "the workspace of m %d, k %d, l %d on rank %d: ", p->m, p->k, p->l,
                         p->rank);
}

/* What says that rows have come. */
static symm_status alloc_signals(struct symm_call *e, struct symm_matmul *m, int nchannels)
{
    const uint64_t nranks = (uint64_t)m->problem.nranks;
    symm_status st;

    TRY(alloc(e, m, SYMM_BLOCK_INTERNAL, symm__pad_nbytes(nchannels, m->problem.nranks), &m->pad));
    if (m->plan.by_engine)
        st = alloc(e, m, SYMM_BLOCK_INTERNAL, nranks * m->plan.chunks * sizeof *m->values,
                   &m->values);
    else
        st = alloc(e, m, SYMM_BLOCK_INTERNAL, symm__gather_ncounts(m) * sizeof *m->counts,
                   &m->counts);
out:
    return st;
}

/* The side streams of its runs; unfused, of an all-gather by copy engines. */
static symm_status make_sides(struct symm_call *e, const struct symm_matmul *m)
{
    struct symm_side_stream *side;
    symm_status st;

    TRY(symm__side_stream_take(e, SYMM_URGENT, &side));
    if (m->counts) /* blocks send */
        st = symm__side_stream_take(e, SYMM_NOT_URGENT, &side);
out:
    return st;
}

/* Whatever runs need, ready on all ranks before any rank signals. */
static symm_status furnish(struct symm_call *e, struct symm_matmul *m)
{
    const int nchannels = (int)m->plan.chunks + 1;
    struct symm_vote ready = {0};
    symm_status st = SYMM_OK;

    if (m->plan.workspace_nbytes == 0)
        return SYMM_OK;
    TRY(alloc_workspace(e, m));
    if (m->plan.chunks > 0)
        TRY(alloc_signals(e, m, nchannels));
    ready.status = make_sides(e, m);
    if (ready.status == SYMM_OK && m->pad)
        ready.status = clear(e, m, nchannels);
    st = vote(e, &ready);
out:
    return st;
}

static void release(struct symm_attachment *attachment)
{
    struct symm_matmul *m = (struct symm_matmul *)attachment;

    symm__cublas_forget(m->cublas);
    symm__memory_free_owner(m->group->ctx->memory, m);
    free(m);
}

symm_status symm_matmul_create(symm_group *group, const symm_matmul_desc *desc, symm_matmul **out)
{
    struct symm_matmul *m = calloc(1, sizeof *m);
    struct symm_problem p = {.nranks = 1};
    struct symm_call e;
    symm_status st, mine = SYMM_OK;

    if (group)
        mine = symm__problem_read(desc, group->rank, group->nranks, &p);
    if (mine == SYMM_OK && !out)
        mine = symm__fail(SYMM_ERROR_ARGUMENT, "out is NULL");
    if (mine == SYMM_OK && !m)
        mine = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    TRY(symm__collective_begin(&e, group, true, "symm_matmul_create"));
    if (m)
        *m = (struct symm_matmul){
            .attachment.release = release, .group = group, .problem = p, .number = group->ncalls};
    if (mine == SYMM_OK)
        mine = symm__problem_check_data(&p, group->ctx->memory);
    if (mine == SYMM_OK)
        mine = symm__wgmma_look(group->ctx, &m->wgmma);
    if (mine == SYMM_OK)
        mine = symm__cublas_prepare(group->ctx, &p, &m->cublas);
    st = agree(&e, mine, m);
    if (st == SYMM_OK)
        st = furnish(&e, m);
    TRY(symm__collective_end(&e, st));
    symm__group_attach(group, &m->attachment);
    *out = m;
    m = NULL;
out:
    symm_matmul_destroy(m);
    return st;
}

void symm_matmul_destroy(symm_matmul *m)
{
    if (!m)
        return;
    if (!m->group || symm__forked(m->group->ctx)) {
        free(m);
        return;
    }
    symm__group_detach(m->group, &m->attachment);
    release(&m->attachment);
}

symm_strategy symm_matmul_strategy(const symm_matmul *m)
{
    return m ? m->plan.strategy : SYMM_STRATEGY_AUTO;
}

/* ------------------------------------------------------------------------------------- running */

static symm_kernel_id product_kernel(symm_dtype dtype)
{
    return dtype == SYMM_FLOAT16 ? SYMM_KERNEL_matmul_product_float16
                                 : SYMM_KERNEL_matmul_product_bfloat16;
}

/* All of A for cuBLASLt: its rows have come, or were there. */
static const void *whole_a(const struct symm_matmul_run *run)
{
    const void *packed = symm__cublas_packed(run->m->cublas)->data;

    if (packed)
        return packed;
    return run->shards.workspace ? run->shards.workspace : run->shards.own.data;
}

static symm_status multiply_by_cublas(const struct symm_matmul_run *run)
{
    const struct symm_cublas_product *product = run->m->cublas;
    symm_status st;

    TRY(symm__gather_copy(run, symm__cublas_packed(product)));
    st = symm__cublas_enqueue(product, &run->problem, whole_a(run), run->e->stream);
out:
    return st;
}

/* The shards of some steps; with waiting, their rows may be on their way. */
static symm_status multiply(const struct symm_matmul_run *run, int first_step, int last_step)
{
    const struct symm_matmul *m = run->m;
    const struct symm_problem *p = &run->problem;
    symm_product_args args = {
        .a = run->shards,
        .way = symm__gather_way(m),
        .nb = p->nb,
        .first_step = first_step,
        .last_step = last_step,
        .alpha = p->alpha,
        .beta = p->beta,
        .activation = (uint32_t)p->activation,
        .begun = first_step == 0 ? symm__gather_begun(m) : NULL,
        .view = m->group->view,
    };

    for (int i = 0; i < p->nb; i++) {
        args.b[i] = p->b[i].matrix;
        args.c[i] = p->c[i].matrix;
        args.d[i] = p->d[i].matrix;
        args.bias[i] = p->bias[i].matrix;
        args.n[i] = p->n[i];
    }
    if (m->cublas && symm__cublas_suits(p, whole_a(run)))
        return multiply_by_cublas(run);
    if (symm__wgmma_multiplies(run))
        return symm__wgmma_enqueue(run, &args);
    if (p->alpha == 0)
        args.a.k = 0; /* reads neither a nor b */
    return symm__call_launch_local(run->e, product_kernel(p->dtype), m->plan.blocks,
                                   m->plan.threads, &args);
}

/* Products beside the copies: one that takes the rows as they come, or one for each rank's rows. */
static symm_status run_beside(struct symm_matmul_run *run)
{
    const int nranks = run->problem.nranks,
              steps = run->m->plan.strategy == SYMM_STRATEGY_FUSED ? nranks : 1;
    struct symm_side_stream *side;
    symm_status st;

    run->sends = true;
    TRY(symm__side_stream_take(run->e, SYMM_URGENT, &side));
    TRY(symm__side_stream_mark(side));
    st = symm__gather_push(run, side);
    for (int s = 0; s < nranks && st == SYMM_OK; s += steps)
        st = multiply(run, s, s + steps);
    if (st == SYMM_OK)
        st = symm__gather_finish(run, side);
    st = symm__side_stream_finish(side, st);
out:
    return st;
}

static symm_status run_all(struct symm_matmul_run *run)
{
    symm_status st;

    TRY(symm__gather_begin(run));
    switch (run->m->plan.strategy) {
    case SYMM_STRATEGY_FUSED:
    case SYMM_STRATEGY_PIPELINED:
        TRY(run_beside(run));
        break;
    case SYMM_STRATEGY_UNFUSED:
        TRY(symm__gather_all(run));
        TRY(multiply(run, 0, run->problem.nranks));
        break;
    default:
        TRY(multiply(run, 0, 1));
    }
    st = symm__gather_copy(run, &run->problem.gathered_a.matrix);
out:
    return st;
}

/*
 * A run that is not whole leaves ranks without rows, or signals that the next run would take for
 * its own; and what cannot be waited for, the next run would not wait for.
 */
static symm_status end_group(const struct symm_matmul_run *run, symm_status st)
{
    char why[SYMM_TEXT_MAX];

    snprintf(why, sizeof why, "%s", symm__failure_text());
    symm__host_comm_abort(run->m->group->comm, SYMM_ERROR_PEER, why);
    return symm__fail(st, "%s", why);
}

symm_status symm_matmul_run(symm_matmul *m, const symm_matmul_args *args, symm_stream stream)
{
    struct symm_matmul_run run = {.m = m};
    struct symm_call e;
    symm_status st;

    if (!m)
        return symm__fail(SYMM_ERROR_ARGUMENT, "symm_matmul_run: m is NULL");
    TRY(symm__enter(m->group, "symm_matmul_run"));
    st = symm__problem_bind(&m->problem, args, m->group->ctx->memory, &run.problem);
    if (st != SYMM_OK)
        return symm__fail_on(m->group->rank, st, "symm_matmul_run: ");
    TRY(symm__call_begin(&e, m->group, stream, m->problem.kind == SYMM_ALL_GATHER_MATMUL,
                         "symm_matmul_run(the product of call %llu, %s, m %d, k %d)",
                         (unsigned long long)m->number, kind_names[m->problem.kind], m->problem.m,
                         m->problem.k));
    run.e = &e;
    st = symm__call_end(&e, run_all(&run));
    /* What a capture has got so far is run by nobody. */
    if (st != SYMM_OK && run.sends && !e.capturing)
        st = end_group(&run, st);
out:
    return st;
}
