/* Allocates, clears and finds signal pads. */
#include "pad.h"

#include <stdlib.h>
#include "call.h"

static size_t cells_nbytes(int nchannels, int nranks)
{
    return (size_t)nchannels * (size_t)nranks * sizeof(struct symm_signal_cell);
}

size_t symm__pad_nbytes(int nchannels, int nranks)
{
    return cells_nbytes(nchannels, nranks) + sizeof(struct symm_signal_cell);
}

symm_status symm__pad_clear(const struct symm_context *ctx, symm_signal_pad *pad, int nchannels,
                            int nranks)
{
    static const struct symm_signal_cell end = {SYMM_PAD_END_ARRIVED, SYMM_PAD_END_SENT,
                                                SYMM_PAD_END_TAKEN};
    const size_t nbytes = cells_nbytes(nchannels, nranks);
    symm_status st = SYMM_OK;

    /*
     * Every word of a cell may start at the epoch. The upper half of `arrived` is read only after a
     * signal.
     */
    TRY_CU(ctx->drv, cuMemsetD32Async, (CUdeviceptr)(uintptr_t)pad, ctx->agreed.epoch_start,
           nbytes / sizeof(uint32_t), ctx->own_stream);
    TRY_CU(ctx->drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)pad + nbytes,
           (CUdeviceptr)(uintptr_t)&end, sizeof end, ctx->own_stream);
    TRY_CU(ctx->drv, cuStreamSynchronize, ctx->own_stream);
out:
    return st;
}

symm_status symm__pad_clear_runs(const struct symm_group *group, void *state, size_t nbytes)
{
    const struct symm_context *ctx = group->ctx;
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)state;
    symm_status st = SYMM_OK;

    TRY_CU(ctx->drv, cuMemsetD32Async, at, 0, nbytes / sizeof(uint32_t), ctx->own_stream);
    TRY_CU(ctx->drv, cuMemsetD32Async, at, ctx->agreed.epoch_start, 1, ctx->own_stream);
out:
    return st;
}

int symm__pad_heard_as(const symm_view *view, int to)
{
    return view->flags & SYMM_VIEW_PLAYED && to != view->rank ? view->nranks - to : view->rank;
}

CUdeviceptr symm__pad_arrived(const symm_view *view, const symm_signal_pad *pad, int channel,
                              int to)
{
    const struct symm_signal_cell *cells = (const struct symm_signal_cell *)(const void *)pad;
    const struct symm_signal_cell *cell =
        &cells[(int64_t)channel * view->nranks + symm__pad_heard_as(view, to)];

    return (CUdeviceptr)(uintptr_t)&cell->arrived + (CUdeviceptr)view->peer[to];
}

symm_status symm__pad_find(const struct symm_group *group, const symm_signal_pad *pad,
                           int *nchannels)
{
    struct symm_context *ctx = group->ctx;
    int nranks = 0;
    uint64_t off;

    pthread_mutex_lock(&ctx->owned_lock);
    for (const struct symm_user_pad *p = ctx->user_pads; p && nranks == 0; p = p->next)
        if (p->pad == pad) {
            nranks = p->nranks;
            *nchannels = p->nchannels;
        }
    pthread_mutex_unlock(&ctx->owned_lock);
    if (nranks == 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "pad %p is no signal pad, or was freed",
                          (const void *)pad);
    if (nranks != group->nranks)
        return symm__fail(SYMM_ERROR_ARGUMENT, "pad %p is for %d ranks, the group has %d",
                          (const void *)pad, nranks, group->nranks);
    if (!symm__memory_find(ctx->memory, pad, 1, group->members, &off))
        return symm__fail_in(SYMM_ERROR_ARGUMENT, "pad: ");
    return SYMM_OK;
}

void symm__pads_forget(struct symm_context *ctx, const struct symm_group *owner, const void *pad)
{
    struct symm_user_pad **at = &ctx->user_pads, *p;

    pthread_mutex_lock(&ctx->owned_lock);
    while ((p = *at)) {
        if (p->owner == owner && (!pad || p->pad == pad)) {
            *at = p->next;
            free(p);
        } else {
            at = &p->next;
        }
    }
    pthread_mutex_unlock(&ctx->owned_lock);
}

/* No rank may signal before every rank's pad is ready. */
static symm_status make_ready(struct symm_call *call, symm_signal_pad *pad, int nchannels)
{
    struct symm_group *group = call->group;
    struct symm_user_pad *entry = calloc(1, sizeof *entry);
    struct symm_vote ready = {.text = call->text, .fd = -1};
    symm_status st;

    ready.status = entry ? symm__pad_clear(group->ctx, pad, nchannels, group->nranks)
                         : symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    st = symm__host_comm_vote(group->comm, &ready, symm__deadline_in(group->ctx->timeout_ms));
    if (st != SYMM_OK) {
        free(entry);
        return st;
    }
    *entry = (struct symm_user_pad){
        .owner = group, .pad = pad, .nchannels = nchannels, .nranks = group->nranks};
    pthread_mutex_lock(&group->ctx->owned_lock);
    entry->next = group->ctx->user_pads;
    group->ctx->user_pads = entry;
    pthread_mutex_unlock(&group->ctx->owned_lock);
    return SYMM_OK;
}

symm_status symm_signal_pad_alloc(symm_group *group, int nchannels, symm_signal_pad **out)
{
    struct symm_call call;
    void *block = NULL;
    symm_status st;

    TRY(symm__collective_begin(&call, group, true, "symm_signal_pad_alloc(%d channels)",
                               nchannels));
    if (nchannels < 1 || !out)
        return symm__collective_refuse(
            &call, "%s%d", out ? "nchannels is " : "out is NULL; nchannels is ", nchannels);
    st = symm__memory_alloc(group->ctx->memory, group->comm, group, SYMM_BLOCK_PAD,
                            symm__pad_nbytes(nchannels, group->nranks), call.text, &block);
    if (st == SYMM_OK) {
        st = make_ready(&call, block, nchannels);
        if (st != SYMM_OK)
            symm__memory_free(group->ctx->memory, group, block, NULL);
    }
    TRY(symm__collective_end(&call, st));
    *out = block;
out:
    return st;
}
