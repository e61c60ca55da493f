/*
 * Rows on their way, on a side stream, behind a kernel that waits until they may. By copy engines:
 * copies to one rank after the other, and behind each the copy of a count, which is the signal that
 * it has come. By blocks: one kernel, whose blocks each bring a part of everything.
 *
 * Every rank sends to the one before it first: so all links are in use and none twice, and everyone
 * gets the rows of the next rank first.
 */
#include "gather.h"

#include "../collectives/collective.h"

enum { WARP = 32, COPY_THREADS = 256, COPY_BLOCKS = 2 /* on each SM */ };

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

static symm_status turn(const struct symm_matmul_run *run, CUstream stream, uint64_t chunks)
{
    const symm_turn_args args = {
        .view = run->m->group->view,
        .way = way_of(run->m),
        .values = run->m->values,
        .chunks = (uint32_t)chunks,
    };

    return launch_on(run, stream, SYMM_KERNEL_matmul_turn, 1, &args);
}

/* Where rank `to` looks for what this one has sent. */
static CUdeviceptr count_at(const struct symm_matmul *m, int to)
{
    const struct symm_signal_cell *channel = (const struct symm_signal_cell *)(const void *)m->pad;

    return (CUdeviceptr)(uintptr_t)&channel[m->problem.rank].arrived +
           (CUdeviceptr)m->group->view.peer[to];
}

/* A stream's copies follow each other, so whoever sees the count finds the rows. */
static symm_status copy_chunk(const struct symm_matmul_run *run, CUstream stream, int to,
                              uint64_t chunks, uint64_t c)
{
    const struct symm_matmul *m = run->m;
    const struct symm_driver *drv = m->group->ctx->drv;
    const uint64_t chunk = m->plan.chunk_rows * row_nbytes(m), at = c * chunk,
                   left = own_rows(m) * row_nbytes(m) - at;
    const CUdeviceptr from = (CUdeviceptr)(uintptr_t)run->shards.own.data + at,
                      slab = (CUdeviceptr)(uintptr_t)own_slab(m) +
                             (CUdeviceptr)m->group->view.peer[to],
                      count = (CUdeviceptr)(uintptr_t)(m->values + (uint64_t)to * chunks + c);
    symm_status st = SYMM_OK;

    TRY_CU(drv, cuMemcpyAsync, slab + at, from, left < chunk ? left : chunk, stream);
    TRY_CU(drv, cuMemcpyAsync, count_at(m, to), count, sizeof *m->values, stream);
out:
    return st;
}

static symm_status push_by_engine(const struct symm_matmul_run *run, CUstream stream)
{
    const struct symm_matmul *m = run->m;
    const int n = m->problem.nranks;
    const uint64_t chunks = (own_rows(m) + m->plan.chunk_rows - 1) / m->plan.chunk_rows;
    symm_status st;

    TRY(turn(run, stream, chunks));
    for (int s = 1; s < n; s++)
        for (uint64_t c = 0; c < chunks; c++)
            TRY(copy_chunk(run, stream, (m->problem.rank + n - s) % n, chunks, c));
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

    TRY(turn(run, stream, 0));
    st = launch_on(run, stream, SYMM_KERNEL_matmul_push, (uint32_t)run->m->plan.parts, &args);
out:
    return st;
}

symm_status symm__gather_push(struct symm_matmul_run *run, struct symm_side *side)
{
    const CUstream stream = symm__side_stream(side);
    symm_status st;

    TRY(symm__side_follow(side));
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
