/*
 * SMs as senders: one kernel whose blocks share the units of all chunks, on the SMs that the
 * product leaves free, and one block of one warp that always fits.
 */
#include <symm/names.h>
#include "runtime/base/numbers.h"
#include "sender.h"

enum {
    SENDER_THREADS = 64,
    UNIT_NBYTES = 8 << 10,            /* 8 packs a thread */
    SENDERS_SHARED_NBYTES = 192 << 10 /* of all senders on an SM */
};

uint32_t symm__transport_sends(const struct symm_transport *t)
{
    return t->tickets ? (uint32_t)(t->problem->nranks - 1) * symm__transport_own_chunks(t) : 0;
}

/* Tickets of units, and units sent of each chunk to each other rank. */
static uint64_t nbytes(const struct symm_transport *t)
{
    return (1 + (uint64_t)(t->problem->nranks - 1) * t->plan->chunks) * sizeof *t->tickets;
}

static void set_memory(struct symm_transport *t, void *memory)
{
    t->tickets = memory;
}

/* The number of a chunk's rows in a unit. */
static uint64_t unit_rows(const struct symm_transport *t)
{
    const uint64_t piece = t->plan->k_piece * symm_dtype_size(t->problem->dtype);

    return piece < UNIT_NBYTES ? UNIT_NBYTES / piece : 1;
}

static symm_status launch_senders(const struct symm_round *round, CUstream stream,
                                  struct symm_side_stream *free_sms)
{
    const struct symm_transport *t = round->t;
    const symm_push_args args = {
        .view = t->view,
        .arrivals = symm__transport_arrivals(t),
        .from = round->shards->own.data,
        .workspace = t->workspace,
        .slab_nbytes = t->plan->slab_nbytes,
        .row_nbytes = symm__transport_row_nbytes(t),
        .rows = symm__transport_own_rows(t),
        .tickets = t->tickets,
        .unit_rows = (uint32_t)unit_rows(t),
        .units = (uint32_t)symm__ceil_div(t->plan->strip_rows, unit_rows(t)),
        .shards_interleaved = t->plan->shards_interleaved,
    };
    const uint32_t blocks = SENDERS_SHARED_NBYTES / round->sender_nbytes * t->plan->comm_sms;
    struct symm_call on = *round->call;
    symm_status st;

    TRY(symm__side_stream_mark(free_sms));
    TRY(symm__side_stream_follow(free_sms));
    on.stream = symm__side_stream_handle(free_sms);
    TRY(symm__call_launch_cluster(
        &on, symm__trace_kernel(SYMM_KERNEL_matmul_push_free_sms, &args.view), blocks,
        symm__transport_threads(t, SENDER_THREADS), 1, round->sender_nbytes, false, &args));
    st = symm__transport_launch(round->call, stream,
                                symm__trace_kernel(SYMM_KERNEL_matmul_push, &args.view), 1,
                                symm__transport_threads(t, SYMM_WARP), &args);
out:
    return st;
}

static symm_status push(const struct symm_round *round, CUstream stream)
{
    struct symm_call on = *round->call;
    struct symm_side_stream *free_sms;
    symm_status st;

    on.stream = stream;
    TRY(symm__side_stream_take(&on, SYMM_NOT_URGENT, &free_sms));
    st = symm__side_stream_finish(free_sms, launch_senders(round, stream, free_sms));
out:
    return st;
}

const struct symm_sender_ops symm__sender_sms = {
    .nbytes = nbytes,
    .set_memory = set_memory,
    .needs_sms = true,
    .push = push,
};
