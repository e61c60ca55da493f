/*
 * Copy engines as senders: the copy of a chunk to a receiver, and behind it the copy of the chunk's
 * signal value to the cell of the receiver's pad. Copies of one stream run in order, so a rank that
 * sees the value has the rows.
 */
#include <symm/names.h>
#include "matmul/kernels/chunk_order.h"
#include "runtime/base/numbers.h"
#include "runtime/group/pad.h"
#include "sender.h"

static uint64_t nbytes(const struct symm_transport *t)
{
    return (uint64_t)t->problem->nranks * t->plan->chunks * sizeof *t->signal_values;
}

static void set_memory(struct symm_transport *t, void *memory)
{
    t->signal_values = memory;
}

static symm_status copy_chunk(const struct symm_round *round, CUstream stream, uint32_t chunks,
                              symm_chunk_target target)
{
    const struct symm_transport *t = round->t;
    const struct symm_matmul_plan *plan = t->plan;
    const struct symm_driver *drv = t->group->ctx->drv;
    const uint64_t row = symm__transport_row_nbytes(t),
                   piece = plan->k_piece * symm_dtype_size(t->problem->dtype),
                   first = (uint64_t)(target.chunk / plan->k_pieces) * plan->strip_rows,
                   begin = target.chunk % plan->k_pieces * piece, at = first * row + begin;
    const char *own = symm__transport_slab(t, symm__pad_heard_as(&t->view, target.rank));
    const CUdeviceptr from = (CUdeviceptr)(uintptr_t)round->shards->own.data + at,
                      slab = (CUdeviceptr)(uintptr_t)own + (CUdeviceptr)t->view.peer[target.rank],
                      cell = symm__pad_arrived(&t->view, t->pad, (int)target.chunk, target.rank);
    const uint64_t *value = t->signal_values + (uint64_t)target.rank * chunks + target.chunk;
    symm_status st;

    TRY(symm__driver_copy_rows(drv, slab + at, row, from, row, symm__min(piece, row - begin),
                               symm__min(plan->strip_rows, symm__transport_own_rows(t) - first),
                               stream));
    TRY_CU(drv, cuMemcpyAsync, cell, (CUdeviceptr)(uintptr_t)value, sizeof *value, stream);
out:
    return st;
}

static symm_status push(const struct symm_round *round, CUstream stream)
{
    const struct symm_transport *t = round->t;
    const uint32_t chunks = symm__transport_own_chunks(t), rank = (uint32_t)t->problem->rank,
                   nranks = (uint32_t)t->problem->nranks;
    symm_status st = SYMM_OK;

    for (uint32_t i = 0; i < (nranks - 1) * chunks; i++)
        TRY(copy_chunk(round, stream, chunks,
                       symm__chunk_target(i, chunks, rank, nranks, t->plan->shards_interleaved)));
out:
    return st;
}

const struct symm_sender_ops symm__copy_engines = {
    .nbytes = nbytes,
    .set_memory = set_memory,
    .push = push,
};
