/*
 * One-sided copies, and signal, wait and barrier on streams. The last three are kernels of one
 * block, because only the value itself could end a cuStreamWaitValue.
 */
#include <stdlib.h>
#include "runtime/group/call.h"
#include "runtime/group/domains.h"
#include "runtime/group/group.h"
#include "runtime/group/pad.h"
#include "signal_kernels.h"
#include "stream_barrier.h"

SYMM_KERNEL_LIST(signal, SYMM_SIGNAL_KERNELS);

enum { WARP = 32 };

/* Checks the group of a call, and the other rank, which is the argument `what`. */
static symm_status enter(const struct symm_group *group, const char *call, const char *what,
                         int rank)
{
    symm_status st;

    TRY(symm__enter(group, call));
    st = symm__domains_refuse(group);
    if (st == SYMM_OK && (rank < 0 || rank >= group->nranks))
        st = symm__fail(SYMM_ERROR_ARGUMENT, "%s is %d; the group has ranks 0 to %d", what, rank,
                        group->nranks - 1);
    if (st != SYMM_OK)
        symm__fail_on(SYMM_ON(group), st, "%s: ", call);
out:
    return st;
}

/* ------------------------------------------------------------------------------ put and get */

struct copy {
    const char *call;
    const char *remote_name, *local_name, *rank_name;
    const void *remote, *local; /* remote: this rank's address of the symmetric object */
    size_t nbytes;
    int rank;
};

static symm_status check_copy(const struct symm_group *group, const struct copy *c)
{
    uint64_t off;
    symm_status st;

    TRY(enter(group, c->call, c->rank_name, c->rank));
    if (!c->remote || (!c->local && c->nbytes > 0)) {
        symm__fail(SYMM_ERROR_ARGUMENT, "%s is NULL", c->remote ? c->local_name : c->remote_name);
        return symm__fail_on(SYMM_ON(group), SYMM_ERROR_ARGUMENT, "%s: ", c->call);
    }
    if (!symm__memory_find(group->ctx->memory, c->remote, c->nbytes,
                           symm__group_pair(group, c->rank), &off))
        return symm__fail_on(SYMM_ON(group), SYMM_ERROR_ARGUMENT, "%s: %s: ", c->call,
                             c->remote_name);
out:
    return st;
}

static symm_status enqueue_copy(symm_group *group, const struct copy *c, bool put,
                                symm_stream stream)
{
    struct symm_call call;
    symm_status st = check_copy(group, c);

    if (st == SYMM_OK)
        st = symm__call_begin(&call, group, stream, false, "%s(%zu bytes %s rank %d)", c->call,
                              c->nbytes, c->rank_name, c->rank);
    if (st != SYMM_OK)
        return st;
    const CUdeviceptr local = (CUdeviceptr)(uintptr_t)c->local,
                      remote = (CUdeviceptr)(uintptr_t)c->remote +
                               (CUdeviceptr)group->view.peer[c->rank];
    if (c->nbytes > 0 && local != remote)
        TRY_CU(group->ctx->drv, cuMemcpyAsync, put ? remote : local, put ? local : remote,
               c->nbytes, stream);
out:
    return symm__call_end(&call, st);
}

symm_status symm_put(symm_group *group, void *dst, const void *src, size_t nbytes, int to,
                     symm_stream stream)
{
    const struct copy c = {"symm_put", "dst", "src", "to", dst, src, nbytes, to};

    return enqueue_copy(group, &c, true, stream);
}

symm_status symm_get(symm_group *group, void *dst, const void *src, size_t nbytes, int from,
                     symm_stream stream)
{
    const struct copy c = {"symm_get", "src", "dst", "from", src, dst, nbytes, from};

    return enqueue_copy(group, &c, false, stream);
}

/* --------------------------------------------------------------------------------- signals */

struct signal_call {
    const char *call, *rank_name;
    symm_signal_pad *pad;
    int channel, rank;
    uint32_t n;
};

static symm_status check_signal(struct symm_group *group, const struct signal_call *c)
{
    int nchannels;
    symm_status st = enter(group, c->call, c->rank_name, c->rank);

    if (st != SYMM_OK)
        return st;
    if (!c->pad)
        st = symm__fail(SYMM_ERROR_ARGUMENT, "pad is NULL");
    else if (c->n == 0 || c->n > INT32_MAX)
        st = symm__fail(SYMM_ERROR_ARGUMENT, "n is %u; it may be 1 to %d", c->n, INT32_MAX);
    else
        st = symm__pad_find(group, c->pad, &nchannels);
    if (st == SYMM_OK && (c->channel < 0 || c->channel >= nchannels))
        st = symm__fail(SYMM_ERROR_ARGUMENT, "channel is %d; the pad has channels 0 to %d",
                        c->channel, nchannels - 1);
    return st == SYMM_OK ? SYMM_OK : symm__fail_on(SYMM_ON(group), st, "%s: ", c->call);
}

/* Whole warps with one thread for each of n, up to the limit of a block. */
static uint32_t threads_for(const struct symm_group *group, int n)
{
    const uint32_t threads = ((uint32_t)n + WARP - 1) / WARP * WARP,
                   most = (uint32_t)group->ctx->agreed.max_threads;

    return threads < most ? threads : most;
}

static symm_status enqueue_signal(struct symm_group *group, const struct signal_call *c,
                                  symm_kernel_id kernel, symm_stream stream)
{
    symm_signal_args args = {
        .view = group->view, .pad = c->pad, .channel = c->channel, .rank = c->rank, .n = c->n};
    struct symm_call call;
    symm_status st;

    TRY(check_signal(group, c));
    TRY(symm__call_begin(&call, group, stream, false, "%s(pad %p, channel %d, %s rank %d, n %u)",
                         c->call, (const void *)c->pad, c->channel, c->rank_name, c->rank, c->n));
    st = symm__call_end(&call,
                        symm__call_launch(&call, kernel, 1, threads_for(group, 1), false, &args));
out:
    return st;
}

symm_status symm_signal(symm_group *group, symm_signal_pad *pad, int channel, int to, uint32_t n,
                        symm_stream stream)
{
    const struct signal_call c = {"symm_signal", "to", pad, channel, to, n};

    return enqueue_signal(group, &c, SYMM_KERNEL_symm_stream_signal, stream);
}

symm_status symm_wait(symm_group *group, symm_signal_pad *pad, int channel, int from, uint32_t n,
                      symm_stream stream)
{
    const struct signal_call c = {"symm_wait", "from", pad, channel, from, n};

    return enqueue_signal(group, &c, SYMM_KERNEL_symm_stream_wait, stream);
}

symm_status symm__stream_barrier(struct symm_call *call)
{
    const struct symm_group *group = call->group;
    symm_signal_args args = {
        .view = group->view, .pad = group->first.pad, .channel = SYMM_CHANNEL_BARRIER};

    return symm__call_launch(call, SYMM_KERNEL_symm_stream_barrier, 1,
                             threads_for(group, group->nranks), false, &args);
}
