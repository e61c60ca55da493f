/*
 * Rows on their way, on a side stream, behind a kernel that waits until they may. By copy engines:
 * copies to one rank after the other, of whole rows or of pieces of them, and behind each the copy
 * of a count, which is the signal that it has come. By blocks: one kernel, whose blocks share the
 * work, on the multiprocessors that the product leaves free.
 *
 * Every rank sends to the one before it first: so all links are in use and none twice, and everyone
 * gets the rows of the next rank first.
 */
#include "transport.h"

#include "collectives/collective.h"
#include "matmul/kernels/ids.h"
#include "runtime/base/numbers.h"
#include "matmul/sm90/host.h"

enum {
    WARP = 32,
    COPY_BLOCKS = 32, /* on each SM */
    SENDER_THREADS = 64,
    SLICE_NBYTES = 8 << 10,           /* what a sender sends at a time: 8 packs a thread */
    SENDERS_SHARED_NBYTES = 192 << 10 /* of all senders on an SM */
};

/* What each of them has: more than is left beside the product. */
enum {
    SENDER_SHARED_NBYTES = 12 << 10,         /* the Hopper kernel */
    SENDER_SHARED_PORTABLE_NBYTES = 24 << 10 /* the portable one */
};

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

symm_rows_way symm__gather_way(const struct symm_matmul *m)
{
    return (symm_rows_way){.pad = m->pad,
                           .strip_rows = m->plan.strip_rows,
                           .piece = m->plan.piece,
                           .pieces = m->plan.pieces,
                           .chunks = m->plan.chunks};
}

/* Of this rank's rows. */
static uint64_t own_chunks(const struct symm_matmul *m)
{
    return symm__ceil_div(own_rows(m), m->plan.strip_rows) * m->plan.pieces;
}

/* Slices taken, those sent of each chunk to each other rank, and blocks of the product. */
uint64_t symm__gather_ncounts(const struct symm_matmul *m)
{
    return 1 + (uint64_t)(m->problem.nranks - 1) * m->plan.chunks + 1;
}

uint32_t *symm__gather_begun(const struct symm_matmul *m)
{
    return m->counts ? m->counts + symm__gather_ncounts(m) - 1 : NULL;
}

/* Whole warps, if there are any. */
static uint32_t threads_of(const struct symm_matmul *m, int wanted)
{
    const int most = m->group->ctx->agreed.max_threads,
              whole = most < WARP ? most : most / WARP * WARP;

    return (uint32_t)(wanted < whole ? wanted : whole);
}

/* A kernel of the run on another stream than the caller's. */
static symm_status launch_on(const struct symm_matmul_run *run, CUstream stream,
                             symm_kernel_id kernel, uint32_t blocks, uint32_t threads,
                             const void *args)
{
    struct symm_call on = *run->e;

    on.stream = stream;
    return symm__call_launch_local(&on, kernel, blocks, threads, args);
}

/* ------------------------------------------------------------------------------ copies of rows */

static symm_status launch_copy(const struct symm_matmul_run *run, CUstream stream,
                               const symm_copy_rows_args *args)
{
    const uint64_t rows = (uint64_t)args->from.m,
                   most = (uint64_t)run->m->group->ctx->agreed.nsms * COPY_BLOCKS;

    return launch_on(run, stream, SYMM_KERNEL_matmul_copy_rows,
                     (uint32_t)(rows < most ? rows : most), threads_of(run->m, WARP), args);
}

static symm_status copy_aside(const struct symm_matmul_run *run, struct symm_side_stream *side,
                              const symm_copy_rows_args *args)
{
    symm_status st;

    TRY(symm__side_stream_mark(side));
    TRY(symm__side_stream_follow(side));
    st = launch_copy(run, symm__side_stream_handle(side), args);
out:
    return st;
}

/* Other ranks' products wait for what is behind a copy, while products here may be in its way. */
static symm_status copy_rows(const struct symm_matmul_run *run, const symm_copy_rows_args *args)
{
    struct symm_side_stream *side;
    symm_status st;

    if (args->from.m == 0 || args->from.l == 0)
        return SYMM_OK;
    if (run->m->plan.chunks == 0)
        return launch_copy(run, run->e->stream, args);
    TRY(symm__side_stream_take(run->e, SYMM_URGENT, &side));
    st = symm__side_stream_finish(side, copy_aside(run, side, args));
out:
    return st;
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

symm_status symm__gather_copy(const struct symm_matmul_run *run, const symm_matrix *to)
{
    const symm_copy_rows_args args = {.from = run->shards, .to = *to};

    return to->data ? copy_rows(run, &args) : SYMM_OK;
}

/* ------------------------------------------------------------------------------------- sending */

static symm_status turn(const struct symm_matmul_run *run, CUstream stream)
{
    const struct symm_matmul *m = run->m;
    const symm_turn_args args = {
        .view = m->group->view,
        .way = symm__gather_way(m),
        .values = m->values,
        .counts = m->counts,
        .begun = symm__gather_begun(m),
        .chunks = (uint32_t)own_chunks(m),
        .blocks = m->plan.blocks,
    };

    return launch_on(run, stream, SYMM_KERNEL_matmul_turn, 1, threads_of(m, WARP), &args);
}

/* Where rank `to` looks for this rank's signal of chunk c. */
static CUdeviceptr count_at(const struct symm_matmul *m, int to, uint64_t c)
{
    const struct symm_signal_cell *cells = (const struct symm_signal_cell *)(const void *)m->pad,
                                  *channel = cells + c * (uint64_t)m->problem.nranks;

    return (CUdeviceptr)(uintptr_t)&channel[m->problem.rank].arrived +
           (CUdeviceptr)m->group->view.peer[to];
}

/* So many lines of bytes to a peer; they lie as far apart there as here. */
static symm_status copy_lines(const struct symm_matmul_run *run, CUstream stream, CUdeviceptr to,
                              CUdeviceptr from, uint64_t pitch, uint64_t width, uint64_t lines)
{
    const struct symm_driver *drv = run->m->group->ctx->drv;
    const CUDA_MEMCPY2D copy = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = from,
        .srcPitch = pitch,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstDevice = to,
        .dstPitch = pitch,
        .WidthInBytes = width,
        .Height = lines,
    };
    symm_status st = SYMM_OK;

    if (width == pitch)
        TRY_CU(drv, cuMemcpyAsync, to, from, width * lines, stream);
    else
        TRY_CU(drv, cuMemcpy2DAsync, &copy, stream);
out:
    return st;
}

/* A stream's copies follow each other, so whoever sees the count finds the rows. */
static symm_status copy_chunk(const struct symm_matmul_run *run, CUstream stream, int to,
                              uint64_t chunks, uint64_t chunk)
{
    const struct symm_matmul *m = run->m;
    const struct symm_driver *drv = m->group->ctx->drv;
    const uint64_t row = row_nbytes(m), piece = m->plan.piece * symm__dtype_size(m->problem.dtype),
                   first = chunk / m->plan.pieces * m->plan.strip_rows,
                   begin = chunk % m->plan.pieces * piece, at = first * row + begin;
    const CUdeviceptr from = (CUdeviceptr)(uintptr_t)run->shards.own.data + at,
                      slab = (CUdeviceptr)(uintptr_t)own_slab(m) +
                             (CUdeviceptr)m->group->view.peer[to],
                      count = (CUdeviceptr)(uintptr_t)(m->values + (uint64_t)to * chunks + chunk);
    symm_status st;

    TRY(copy_lines(run, stream, slab + at, from, row, symm__min(piece, row - begin),
                   symm__min(m->plan.strip_rows, own_rows(m) - first)));
    TRY_CU(drv, cuMemcpyAsync, count_at(m, to, chunk), count, sizeof *m->values, stream);
out:
    return st;
}

/* Shards that are multiplied at a time get a chunk each by turns, as in find_chunk(). */
static symm_status push_by_engine(const struct symm_matmul_run *run, CUstream stream)
{
    const struct symm_matmul *m = run->m;
    const int n = m->problem.nranks, together = (int)m->plan.together;
    const uint64_t chunks = own_chunks(m);
    symm_status st = SYMM_OK;

    for (int first = 1, end; first < n; first = end) {
        end = (first / together + 1) * together;
        for (uint64_t chunk = 0; chunk < chunks; chunk++)
            for (int s = first; s < end && s < n; s++)
                TRY(copy_chunk(run, stream, (m->problem.rank + n - s) % n, chunks, chunk));
    }
out:
    return st;
}

/* As many rows of a chunk as make a slice. */
static uint64_t slice_rows(const struct symm_matmul *m)
{
    const uint64_t piece = m->plan.piece * symm__dtype_size(m->problem.dtype);

    return piece < SLICE_NBYTES ? SLICE_NBYTES / piece : 1;
}

/*
 * A block of one warp, which has room anywhere: so rows are sent whatever products do. And many
 * that have room on free multiprocessors only, for beside a product they would slow it down.
 */
static symm_status launch_senders(const struct symm_matmul_run *run, CUstream stream,
                                  struct symm_side_stream *apart)
{
    const struct symm_matmul *m = run->m;
    const symm_push_args args = {
        .view = m->group->view,
        .way = symm__gather_way(m),
        .from = run->shards.own.data,
        .to = own_slab(m),
        .row_nbytes = row_nbytes(m),
        .rows = own_rows(m),
        .counts = m->counts,
        .slice_rows = (uint32_t)slice_rows(m),
        .slices = (uint32_t)symm__ceil_div(m->plan.strip_rows, slice_rows(m)),
        .together = m->plan.together,
    };
    const uint32_t shared_nbytes = symm__wgmma_multiplies(run) ? SENDER_SHARED_NBYTES
                                                               : SENDER_SHARED_PORTABLE_NBYTES,
                   senders = SENDERS_SHARED_NBYTES / shared_nbytes * m->plan.free;
    struct symm_call on = *run->e;
    symm_status st;

    TRY(symm__side_stream_mark(apart));
    TRY(symm__side_stream_follow(apart));
    on.stream = symm__side_stream_handle(apart);
    TRY(symm__call_launch_cluster(&on, SYMM_KERNEL_matmul_push_apart, senders,
                                  threads_of(m, SENDER_THREADS), 1, shared_nbytes, &args));
    st = launch_on(run, stream, SYMM_KERNEL_matmul_push, 1, threads_of(m, WARP), &args);
out:
    return st;
}

static symm_status push_by_blocks(const struct symm_matmul_run *run, CUstream stream)
{
    struct symm_call on = *run->e;
    struct symm_side_stream *apart;
    symm_status st;

    on.stream = stream;
    TRY(symm__side_stream_take(&on, SYMM_NOT_URGENT, &apart));
    st = symm__side_stream_finish(apart, launch_senders(run, stream, apart));
out:
    return st;
}

symm_status symm__gather_push(struct symm_matmul_run *run, struct symm_side_stream *side)
{
    const CUstream stream = symm__side_stream_handle(side);
    symm_status st;

    TRY(symm__side_stream_follow(side));
    TRY(turn(run, stream));
    st = run->m->plan.by_engine ? push_by_engine(run, stream) : push_by_blocks(run, stream);
out:
    return st;
}

symm_status symm__gather_finish(struct symm_matmul_run *run, struct symm_side_stream *side)
{
    const symm_finish_args args = {.view = run->m->group->view,
                                   .way = symm__gather_way(run->m),
                                   .m = run->problem.m,
                                   .l = run->problem.l,
                                   .begun = symm__gather_begun(run->m)};
    symm_status st;

    TRY(symm__side_stream_mark(side));
    TRY(symm__side_stream_follow(side));
    st = launch_on(run, symm__side_stream_handle(side), SYMM_KERNEL_matmul_finish, 1,
                   threads_of(run->m, WARP), &args);
out:
    return st;
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
