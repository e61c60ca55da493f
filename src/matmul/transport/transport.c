/*
 * The transport of a product: its memory, and the rounds of its runs. A round runs on a side
 * stream: open_round, which waits until the rows may be sent, and the transfers.
 */
#include "transport.h"

#include <symm/names.h>
#include "collectives/collective.h"
#include "runtime/group/group.h"
#include "runtime/group/pad.h"
#include "sender.h"

SYMM_KERNEL_LISTS(matmul_transport, SYMM_MATMUL_TRANSPORT_KERNELS);

static const struct symm_sender_ops *const senders[SYMM_SENDERS] = {
    [SYMM_SENDER_SMS] = &symm__sender_sms,
    [SYMM_SENDER_COPY_ENGINES] = &symm__copy_engines,
};

uint64_t symm__transport_row_nbytes(const struct symm_transport *t)
{
    return (uint64_t)t->plan->ld * symm_dtype_size(t->problem->dtype);
}

uint64_t symm__transport_own_rows(const struct symm_transport *t)
{
    return (uint64_t)t->problem->a.rows * (uint64_t)t->problem->l;
}

uint32_t symm__transport_own_chunks(const struct symm_transport *t)
{
    return symm__chunks_of_rows(symm__transport_own_rows(t), t->plan->strip_rows,
                                t->plan->k_pieces);
}

char *symm__transport_slab(const struct symm_transport *t, int rank)
{
    return t->workspace + (uint64_t)rank * t->plan->slab_nbytes;
}

uint32_t symm__transport_threads(const struct symm_transport *t, int nthreads)
{
    const int max = t->group->ctx->agreed.max_threads,
              aligned = max < SYMM_WARP ? max : max / SYMM_WARP * SYMM_WARP;

    return (uint32_t)(nthreads < aligned ? nthreads : aligned);
}

symm_status symm__transport_launch(const struct symm_call *call, CUstream stream,
                                   symm_kernel_id kernel, uint32_t blocks, uint32_t threads,
                                   const void *args)
{
    struct symm_call on = *call;

    on.stream = stream;
    return symm__call_launch_local(&on, kernel, blocks, threads, args);
}

/* ----------------------------------------------------------------------------------- its memory */

static symm_status alloc_workspace(struct symm_call *call, void *owner, struct symm_transport *t)
{
    const struct symm_problem *p = t->problem;
    void *block;
    const symm_status st = symm__call_alloc(call, owner, t->plan->workspace_nbytes, &block);

    if (st != SYMM_OK)
        return symm__fail_in(st, "the workspace of m %d, k %d, l %d on rank %d: ", p->m, p->k, p->l,
                             p->rank);
    t->workspace = block;
    return SYMM_OK;
}

static int nchannels(const struct symm_transport *t)
{
    return (int)t->plan->chunks + 1;
}

symm_status symm__transport_alloc(struct symm_call *call, void *owner, struct symm_transport *t)
{
    const struct symm_sender_ops *sender = senders[t->plan->sender];
    void *block;
    symm_status st;

    TRY(alloc_workspace(call, owner, t));
    if (t->plan->chunks == 0)
        return SYMM_OK;
    TRY(symm__call_alloc(call, owner, symm__pad_nbytes(nchannels(t), t->problem->nranks), &block));
    t->pad = block;
    TRY(symm__call_alloc(call, owner, sender->nbytes(t), &block));
    sender->set_memory(t, block);
    TRY(symm__call_alloc(call, owner, sizeof *t->round, &block));
    t->round = block;
out:
    return st;
}

/* Side streams: for the rounds, or unfused for an all-gather by copy engines; and for senders. */
static symm_status create_side_streams(struct symm_call *call, const struct symm_transport *t)
{
    struct symm_side_stream *side;
    symm_status st;

    TRY(symm__side_stream_take(call, SYMM_URGENT, &side));
    if (t->plan->chunks > 0 && senders[t->plan->sender]->needs_sms)
        st = symm__side_stream_take(call, SYMM_NOT_URGENT, &side);
out:
    return st;
}

symm_status symm__transport_prepare(struct symm_call *call, struct symm_transport *t)
{
    symm_status st;

    TRY(create_side_streams(call, t));
    if (t->plan->chunks == 0)
        return SYMM_OK;
    TRY(symm__pad_clear_runs(t->group, t->round, sizeof *t->round));
    st = symm__pad_clear(t->group->ctx, t->pad, nchannels(t), t->problem->nranks);
out:
    return st;
}

/* --------------------------------------------------------------------------------------- rounds */

symm_arrival_plan symm__transport_arrivals(const struct symm_transport *t)
{
    return (symm_arrival_plan){.pad = t->pad,
                               .strip_rows = t->plan->strip_rows,
                               .k_piece = t->plan->k_piece,
                               .k_pieces = t->plan->k_pieces,
                               .chunks = t->plan->chunks};
}

static symm_status open_round(const struct symm_round *round, CUstream stream)
{
    const struct symm_transport *t = round->t;
    const bool let_begin = t->tickets && t->plan->strategy == SYMM_STRATEGY_FUSED;
    const symm_open_round_args args = {
        .view = t->view,
        .arrivals = symm__transport_arrivals(t),
        .signal_values = t->signal_values,
        .tickets = t->tickets,
        .product = let_begin ? t->round : NULL,
        .chunks = symm__transport_own_chunks(t),
        .blocks = t->plan->blocks,
    };

    return symm__transport_launch(round->call, stream,
                                  symm__trace_kernel(SYMM_KERNEL_matmul_open_round, &args.view), 1,
                                  symm__transport_threads(t, SYMM_WARP), &args);
}

symm_status symm__transport_open(const struct symm_round *round)
{
    const CUstream stream = symm__side_stream_handle(round->side);
    symm_status st;

    TRY(symm__side_stream_follow(round->side));
    TRY(open_round(round, stream));
    st = senders[round->t->plan->sender]->push(round, stream);
out:
    return st;
}

symm_status symm__transport_await(const struct symm_call *call, const struct symm_transport *t,
                                  int step)
{
    const struct symm_problem *p = t->problem;
    const symm_await_rows_args args = {.view = t->view,
                                       .arrivals = symm__transport_arrivals(t),
                                       .m = p->m,
                                       .l = p->l,
                                       .round = t->round,
                                       .shard = (p->rank + step) % p->nranks,
                                       .last = step + 1 == p->nranks};

    if (!args.last && symm__rows_of_rank(p->m, p->nranks, args.shard) == 0)
        return SYMM_OK;
    return symm__transport_launch(call, call->stream,
                                  symm__trace_kernel(SYMM_KERNEL_matmul_await_rows, &args.view), 1,
                                  symm__transport_threads(t, SYMM_WARP), &args);
}

static struct symm_collective_call gather_of(const struct symm_transport *t)
{
    return (struct symm_collective_call){
        .operation = SYMM_OPERATION_ALL_GATHER,
        .algo = SYMM_ALGO_AUTO,
        .flags = SYMM_SYMMETRIC,
        .dtype = t->problem->dtype,
        .op = SYMM_SUM,
        .count = t->plan->slab_nbytes / symm_dtype_size(t->problem->dtype),
    };
}

symm_status symm__transport_provide(struct symm_call *call, const struct symm_transport *t)
{
    const struct symm_collective_call gather = gather_of(t);

    return t->plan->chunks == 0 ? symm__collective_provide(call, &gather) : SYMM_OK;
}

symm_status symm__transport_all_gather(struct symm_call *call, const struct symm_transport *t,
                                       const symm_shards *shards)
{
    const struct symm_collective_call gather = gather_of(t);
    const uint64_t rows = symm__transport_own_rows(t),
                   own = rows * symm__transport_row_nbytes(t) / symm_dtype_size(gather.dtype);

    return symm__collective_enqueue(call, &gather,
                                    &(struct symm_data){.in = shards->own.data,
                                                        .out = t->workspace,
                                                        .lacks = gather.count - own});
}
