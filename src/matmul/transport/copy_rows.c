/*
 * Copies of rows on this device: this rank's rows to its slab, to be sent from there; all of A to
 * one matrix.
 */
#include "runtime/base/numbers.h"
#include "sender.h"

enum { BLOCKS_PER_SM = 32, BLOCK_ELEMENTS = 1024 /* of a row, for one block */ };

static symm_status launch_copy(const struct symm_call *call, const struct symm_transport *t,
                               CUstream stream, const symm_copy_rows_args *args)
{
    const uint64_t most = (uint64_t)call->group->ctx->agreed.nsms * BLOCKS_PER_SM,
                   row_blocks =
                       symm__min(symm__ceil_div((uint64_t)args->from.k, BLOCK_ELEMENTS), most),
                   rows = symm__min((uint64_t)args->from.m, most / row_blocks);
    symm_copy_rows_args shared = *args;

    shared.row_blocks = (uint32_t)row_blocks;
    return symm__transport_launch(call, stream, SYMM_KERNEL_matmul_copy_rows,
                                  (uint32_t)(rows * row_blocks),
                                  symm__transport_threads(t, SYMM_WARP), &shared);
}

static symm_status copy_on_side_stream(const struct symm_call *call, const struct symm_transport *t,
                                       struct symm_side_stream *side,
                                       const symm_copy_rows_args *args)
{
    symm_status st;

    TRY(symm__side_stream_mark(side));
    TRY(symm__side_stream_follow(side));
    st = launch_copy(call, t, symm__side_stream_handle(side), args);
out:
    return st;
}

/*
 * With chunks, other ranks' products wait for the round that follows the copy, and products may
 * occupy this rank's SMs. The copy then runs on the urgent stream.
 */
static symm_status copy_rows(struct symm_call *call, const struct symm_transport *t,
                             const symm_copy_rows_args *args)
{
    struct symm_side_stream *side;
    symm_status st;

    if (args->from.m == 0 || args->from.l == 0)
        return SYMM_OK;
    if (t->plan->chunks == 0)
        return launch_copy(call, t, call->stream, args);
    TRY(symm__side_stream_take(call, SYMM_URGENT, &side));
    st = symm__side_stream_finish(side, copy_on_side_stream(call, t, side, args));
out:
    return st;
}

/* Whether the rows of this run can be sent in place. */
static bool can_be_sent(const struct symm_transport *t, const struct symm_problem *p)
{
    const symm_matrix *a = &p->a.matrix;
    const int64_t rows = p->a.rows, k = p->k;

    return (uintptr_t)a->data % 16 == 0 && k == t->plan->ld && (k <= 1 || a->column == 1) &&
           (rows <= 1 || a->row == k) && (p->l <= 1 || a->batch == rows * k);
}

symm_status symm__transport_locate(struct symm_call *call, const struct symm_transport *t,
                                   const struct symm_problem *p, symm_shards *out)
{
    symm_status st = SYMM_OK;

    *out = (symm_shards){
        .own = p->a.matrix,
        .workspace = t->workspace,
        .slab_nbytes = t->plan->slab_nbytes,
        .ld = t->plan->ld,
        .m = p->m,
        .k = p->k,
        .l = p->l,
        .rank = p->rank,
        .nranks = p->nranks,
    };
    if (!t->workspace || can_be_sent(t, p))
        return SYMM_OK;
    const symm_copy_rows_args args = {
        .from = {.own = p->a.matrix, .m = p->a.rows, .k = p->k, .l = p->l, .nranks = 1},
        .to = {.data = symm__transport_slab(t, t->problem->rank),
               .row = t->plan->ld,
               .column = 1,
               .batch = t->plan->ld * p->a.rows,
               .dtype = p->a.matrix.dtype},
    };
    TRY(copy_rows(call, t, &args));
    out->own = args.to;
out:
    return st;
}

symm_status symm__transport_copy(struct symm_call *call, const struct symm_transport *t,
                                 const symm_shards *shards, const symm_matrix *to)
{
    const symm_copy_rows_args args = {.from = *shards, .to = *to};

    return to->data ? copy_rows(call, t, &args) : SYMM_OK;
}
