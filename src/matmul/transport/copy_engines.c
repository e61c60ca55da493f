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

/* Copies lines of `width` bytes to a peer, with the same pitch there as here. */
static symm_status copy_lines(const struct symm_driver *drv, CUstream stream, CUdeviceptr to,
                              CUdeviceptr from, uint64_t pitch, uint64_t width, uint64_t lines)
{
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
    const CUdeviceptr peer = (CUdeviceptr)t->group->view.peer[target.rank],
                      from = (CUdeviceptr)(uintptr_t)round->shards->own.data + at,
                      slab = (CUdeviceptr)(uintptr_t)symm__transport_own_slab(t) + peer;
    const uint64_t *value = t->signal_values + (uint64_t)target.rank * chunks + target.chunk,
                   *cell = symm__pad_arrived(t->group, t->pad, (int)target.chunk);
    symm_status st;

    TRY(copy_lines(drv, stream, slab + at, from, row, symm__min(piece, row - begin),
                   symm__min(plan->strip_rows, symm__transport_own_rows(t) - first)));
    TRY_CU(drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)cell + peer, (CUdeviceptr)(uintptr_t)value,
           sizeof *value, stream);
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
