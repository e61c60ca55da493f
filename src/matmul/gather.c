/*
 * Rows on their way. By copy engines: copies on a side stream, to one rank after the other, and
 * between them kernels of one warp that signal what has come. By blocks: one kernel there, whose
 * blocks each bring a part of everything.
 *
 * Every rank sends to the one before it first: so all links are in use and none twice, and everyone
 * gets the rows of the next rank first.
 */
#include "gather.h"

#include "../collectives/collective.h"

enum { WARP = 32, SIDE = 0, COPY_THREADS = 256, COPY_BLOCKS = 2 /* on each SM */ };

static uint64_t row_nbytes(const struct symm_matmul *m)
{
    return (uint64_t)m->plan.ld * symm__dtype_size(m->problem.dtype);
}

static char *own_slab(const struct symm_matmul *m)
{
    return m->workspace + (uint64_t)m->problem.rank * m->plan.slab_nbytes;
}

/* Rows of this rank, over all batches. */
static uint64_t own_rows(const struct symm_matmul *m)
{
    return (uint64_t)m->problem.a.rows * (uint64_t)m->problem.l;
}

static symm_rows_way way_of(const struct symm_matmul *m)
{
    return (symm_rows_way){.pad = m->pad, .parts = m->plan.parts, .chunk_rows = m->plan.chunk_rows};
}

static uint32_t threads_of(const struct symm_matmul *m, int wanted)
{
    const int most = m->group->ctx->agreed.max_threads;

    return (uint32_t)(wanted < most ? wanted : most);
}

/* ------------------------------------------------------------------------------ copies of rows */

static symm_status copy_rows(const struct symm_matmul_run *run, const symm_copy_rows_args *args)
{
    const uint64_t rows = (uint64_t)args->from.m * (uint64_t)args->from.l,
                   most = (uint64_t)run->m->group->ctx->agreed.nsms * COPY_BLOCKS;

    if (rows == 0)
        return SYMM_OK;
    return symm__enqueue_local_kernel(run->e, SYMM_KERNEL_matmul_copy_rows,
                                      (uint32_t)(rows < most ? rows : most),
                                      threads_of(run->m, COPY_THREADS), args);
}

/* Whether the other ranks can get this rank's rows from where they lie. */
static bool can_be_sent(const struct symm_matmul_run *run)
{
    const symm_matrix *a = &run->problem.a.matrix;
    const struct symm_matmul_plan *plan = &run->m->plan;
    const int64_t rows = run->problem.a.rows, k = run->problem.k;

    if ((uintptr_t)a->data % 16 || k != plan->ld || (k > 1 && a->column != 1) ||
        (rows > 1 && a->row != k) || (run->problem.l > 1 && a->batch != rows * k))
        return false;
    /* An all-gather takes as many from everyone. */
    return plan->strategy != SYMM_STRATEGY_UNFUSED ||
           own_rows(run->m) * row_nbytes(run->m) == plan->slab_nbytes;
}

symm_status symm__gather_begin(struct symm_matmul_run *run)
{
    const struct symm_matmul *m = run->m;
    const struct symm_problem *p = &run->problem;
    symm_status st = SYMM_OK;

    run->shards = (symm_shards){
        .own = p->a.matrix,
        .workspace = m->workspace,
        .slab_nbytes = m->plan.slab_nbytes,
        .ld = m->plan.ld,
        .m = p->m,
        .k = p->k,
        .l = p->l,
        .rank = p->rank,
        .nranks = p->nranks,
    };
    if (!m->workspace || can_be_sent(run))
        return SYMM_OK;
    const symm_copy_rows_args args = {
        .from = {.own = p->a.matrix, .m = p->a.rows, .k = p->k, .l = p->l, .nranks = 1},
        .to = {.data = own_slab(m),
               .row = m->plan.ld,
               .column = 1,
               .batch = m->plan.ld * p->a.rows,
               .dtype = p->a.matrix.dtype},
    };
    TRY(copy_rows(run, &args));
    run->shards.own = args.to;
out:
    return st;
}

symm_status symm__gather_copy(struct symm_matmul_run *run)
{
    const symm_copy_rows_args args = {.from = run->shards, .to = run->problem.gathered_a.matrix};

    return args.to.data ? copy_rows(run, &args) : SYMM_OK;
}

/* ------------------------------------------------------------------------------------- sending */

/* A kernel of the run on another stream than the caller's. */
static symm_status launch_on(const struct symm_matmul_run *run, CUstream stream,
                             enum symm_kernel_id kernel, uint32_t blocks, const void *args)
{
    struct symm_enqueue on = *run->e;

    on.stream = stream;
    return symm__enqueue_local_kernel(&on, kernel, blocks, threads_of(run->m, WARP), args);
}

static symm_status turn(const struct symm_matmul_run *run, CUstream stream, bool first, int sent_to,
                        int next_to)
{
    const symm_turn_args args = {
        .view = run->m->group->view,
        .way = way_of(run->m),
        .first = first,
        .sent_to = sent_to,
        .next_to = next_to,
    };

    return launch_on(run, stream, SYMM_KERNEL_matmul_turn, 1, &args);
}

/* The rank to which this one sends as the s-th, from 1; SYMM_NOBODY: it has sent to all. */
static int receiver(const struct symm_matmul *m, int s)
{
    const int n = m->problem.nranks;

    return s < n && own_rows(m) > 0 ? (m->problem.rank + n - s) % n : SYMM_NOBODY;
}

static symm_status push_by_engine(const struct symm_matmul_run *run, CUstream stream)
{
    const struct symm_matmul *m = run->m;
    const struct symm_driver *drv = m->group->ctx->drv;
    const uint64_t nbytes = own_rows(m) * row_nbytes(m), chunk = m->plan.chunk_rows * row_nbytes(m);
    symm_status st;

    TRY(turn(run, stream, true, SYMM_NOBODY, receiver(m, 1)));
    for (int s = 1; receiver(m, s) != SYMM_NOBODY; s++) {
        const CUdeviceptr from = (CUdeviceptr)(uintptr_t)run->shards.own.data,
                          to = (CUdeviceptr)(uintptr_t)own_slab(m) +
                               (CUdeviceptr)m->group->view.peer[receiver(m, s)];
        for (uint64_t at = 0; at < nbytes; at += chunk) {
            const bool last = nbytes - at <= chunk;
            TRY_CU(drv, cuMemcpyAsync, to + at, from + at, last ? nbytes - at : chunk, stream);
            TRY(turn(run, stream, false, receiver(m, s), last ? receiver(m, s + 1) : SYMM_NOBODY));
        }
    }
out:
    return st;
}

static symm_status push_by_blocks(const struct symm_matmul_run *run, CUstream stream)
{
    const symm_push_args args = {
        .view = run->m->group->view,
        .way = way_of(run->m),
        .from = run->shards.own.data,
        .to = own_slab(run->m),
        .row_nbytes = row_nbytes(run->m),
        .rows = own_rows(run->m),
    };

    symm_status st;

    TRY(turn(run, stream, true, SYMM_NOBODY, SYMM_EVERYBODY));
    st = launch_on(run, stream, SYMM_KERNEL_matmul_push, (uint32_t)run->m->plan.parts, &args);
out:
    return st;
}

symm_status symm__gather_push(struct symm_matmul_run *run, struct symm_sides *sides)
{
    const CUstream stream = symm__side_stream(sides, SIDE);
    symm_status st;

    TRY(symm__side_follow(sides, SIDE));
    st = run->m->plan.by_engine ? push_by_engine(run, stream) : push_by_blocks(run, stream);
out:
    return st;
}

symm_status symm__gather_finish(struct symm_matmul_run *run)
{
    const symm_finish_args args = {.view = run->m->group->view,
                                   .way = way_of(run->m),
                                   .m = run->problem.m,
                                   .l = run->problem.l};

    return launch_on(run, run->e->stream, SYMM_KERNEL_matmul_finish, 1, &args);
}

symm_status symm__gather_all(struct symm_matmul_run *run)
{
    const struct symm_collective_call call = {
        .operation = SYMM_OPERATION_ALL_GATHER,
        .algo = SYMM_ALGO_AUTO,
        .flags = SYMM_SYMMETRIC,
        .dtype = run->problem.dtype,
        .op = SYMM_SUM,
        .count = run->m->plan.slab_nbytes / symm__dtype_size(run->problem.dtype),
    };

    return symm__collective_enqueue(run->e, &call, run->shards.own.data, run->m->workspace);
}
