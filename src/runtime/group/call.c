/* Begins and ends calls on a group, and launches the library's kernels. */
#include "call.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "capture.h"
#include "domains.h"
#include "known_stream.h"

bool symm__forked(const struct symm_context *ctx)
{
    return symm__forked_since(&ctx->process);
}

/* The checks of symm__enter(), without the call's name in the text. */
static symm_status check_alive(const struct symm_group *group)
{
    if (!group)
        return symm__fail(SYMM_ERROR_ARGUMENT, "group is NULL");
    if (symm__forked(group->ctx))
        return symm__fail(SYMM_ERROR_STATE, SYMM_GONE("group"));
    return symm__host_comm_check(group->comm);
}

static symm_status refuse(const struct symm_group *group, symm_status st, const char *call)
{
    return group ? symm__fail_on(SYMM_ON(group), st, "%s: ", call)
                 : symm__fail_in(st, "%s: ", call);
}

symm_status symm__enter(const struct symm_group *group, const char *call)
{
    const symm_status st = check_alive(group);

    return st == SYMM_OK ? SYMM_OK : refuse(group, st, call);
}

/* The call's text, written when it is first needed. */
static const char *text_of(struct symm_call *call)
{
    return *call->text ? call->text
                       : symm__late_text_write(&call->late, call->text, sizeof call->text);
}

/* The call's name: its text up to the parenthesis. */
static const char *name_of(struct symm_call *call, char *name, size_t nbytes)
{
    const char *text = text_of(call);

    snprintf(name, nbytes, "%.*s", (int)strcspn(text, "("), text);
    return name;
}

/*
 * Notes an enqueued call, for ranks that ask for this rank's activity. Counts only calls that all
 * ranks make, so that equal numbers mean the same call.
 */
static void note_enqueued(struct symm_call *call, bool all_ranks)
{
    struct symm_group *group = call->group;

    pthread_mutex_lock(&group->lock);
    group->collective_last = false;
    group->has_graphs |= call->capturing;
    group->ncalls += all_ranks;
    group->enqueued = (struct symm_enqueued){call->late, group->ncalls, all_ranks};
    pthread_mutex_unlock(&group->lock);
}

void symm__enqueued_write(const struct symm_enqueued *enqueued, char *text, size_t nbytes)
{
    const unsigned long long number = enqueued->number;
    char call[SYMM_CALL_MAX];

    symm__late_text_write(&enqueued->call, call, sizeof call);
    if (!*call)
        *text = 0;
    else if (enqueued->all_ranks)
        snprintf(text, nbytes, "call %llu: %.160s", number, call);
    else
        snprintf(text, nbytes, "%.150s (after call %llu)", call, number);
}

/* Notes a collective call. */
static void note_collective(struct symm_call *call, bool all_ranks)
{
    struct symm_group *group = call->group;

    pthread_mutex_lock(&group->lock);
    group->ncalls += all_ranks;
    pthread_mutex_unlock(&group->lock);
    symm__collective_note(group, call->text);
}

void symm__collective_note(struct symm_group *group, const char *call)
{
    pthread_mutex_lock(&group->lock);
    group->in_collective = call != NULL;
    if (call) {
        group->collective_last = true;
        snprintf(group->collective, sizeof group->collective, "%s", call);
    }
    pthread_mutex_unlock(&group->lock);
}

/* *entered: the group is alive, so other ranks may be waiting for this call. */
static symm_status begin(struct symm_call *call, bool *entered)
{
    const struct symm_group *group = call->group;
    const struct symm_driver *drv;
    CUcontext current;
    char name[64];
    symm_status st = check_alive(group);

    *entered = st == SYMM_OK;
    if (st == SYMM_OK && !call->spans)
        TRY(symm__domains_refuse(group));
    if (!*entered)
        return refuse(group, st, name_of(call, name, sizeof name));
    drv = group->ctx->drv;
    TRY_CU(drv, cuCtxGetCurrent, &current);
    call->pushed = current != group->ctx->primary;
    if (call->pushed)
        TRY_CU(drv, cuCtxPushCurrent, group->ctx->primary);
out:
    return st;
}

static void leave(struct symm_call *call)
{
    CUcontext popped;

    if (call->pushed)
        call->group->ctx->drv->cuCtxPopCurrent(&popped);
}

/* Asks whether the stream is being captured. Refuses an invalidated capture. */
static symm_status ask_capturing(struct symm_call *call)
{
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    symm_status st = SYMM_OK;

    TRY_CU(call->group->ctx->drv, cuStreamIsCapturing, call->stream, &status);
    if (status == CU_STREAM_CAPTURE_STATUS_INVALIDATED)
        st = symm__fail(SYMM_ERROR_STATE, "the capture of this stream has been invalidated");
    call->capturing = status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
out:
    return st;
}

/* With SYMM_CHECK=1, votes on the text of the call before it is enqueued. */
static symm_status compare(struct symm_call *call)
{
    struct symm_vote vote = {.text = text_of(call), .fd = -1};
    const symm_status st = symm__host_comm_vote(call->group->comm, &vote,
                                                symm__deadline_in(call->group->ctx->timeout_ms));

    if (st == SYMM_ERROR_TIMEOUT)
        symm__fail(st,
                   "%.870s (SYMM_CHECK=1 compares calls before they are enqueued: calls on several "
                   "groups need the same order on all ranks)",
                   symm__failure_text());
    return st;
}

symm_status symm__group_last(struct symm_group *group, CUevent *out)
{
    *out = group->last;
    return group->known ? symm__known_stream_end(group->ctx->drv, group->known, out) : SYMM_OK;
}

/*
 * Puts the call behind the group's last one. If the stream is the same, its own order does that. A
 * stream that symm does not know may have the handle of a destroyed one.
 */
static symm_status follow_last(struct symm_call *call)
{
    struct symm_group *group = call->group;
    CUevent last;
    symm_status st = SYMM_OK;

    if (!group->has_last || symm__known_stream_is(group->known, call->stream))
        return SYMM_OK;
    TRY(symm__group_last(group, &last));
    TRY_CU(group->ctx->drv, cuStreamWaitEvent, call->stream, last, 0);
out:
    return st;
}

/*
 * Notes the last call for the order of the group, also if it has failed: it may have enqueued a
 * part of its work. A failure in *st stays. Inside a capture the edges of the graph give the order,
 * and an event would become part of the graph.
 */
static void note_last(struct symm_call *call, symm_status *st)
{
    struct symm_group *group = call->group;
    const struct symm_driver *drv = group->ctx->drv;
    struct symm_known_stream *known;
    CUresult cu = CUDA_SUCCESS;

    if (call->capturing || symm__known_stream_is(group->known, call->stream))
        return;
    known = symm__known_stream_hold(call->stream);
    if (!known)
        cu = drv->cuEventRecord(group->last, call->stream);
    if (cu != CUDA_SUCCESS) {
        group->has_unrecorded = true;
        symm__driver_note(drv, cu, "cuEventRecord", st);
        return;
    }
    symm__known_stream_let_go(drv, group->known);
    group->known = known;
    group->last_stream = call->stream;
    group->has_last = true;
}

/* Asks whether the call's next kernel comes right behind one of its group that has settled. */
static void take_settled(struct symm_call *call)
{
    struct symm_group *group = call->group;

    group->settled = symm__settled_take(&group->ctx->settled, group, call->stream, call->capturing);
}

/* The call has its group, its stream and its text. */
static symm_status begin_on_stream(struct symm_call *call, bool all_ranks)
{
    struct symm_group *group = call->group;
    symm_status st;
    char name[64];
    bool entered;

    st = begin(call, &entered);
    if (st != SYMM_OK)
        return entered ? symm__fail_on(SYMM_ON(group), st, "%s: ", name_of(call, name, sizeof name))
                       : st;

    TRY(ask_capturing(call));
    note_enqueued(call, all_ranks);
    take_settled(call); /* a user's kernel may follow */
    if (all_ranks && group->ctx->agreed.check && group->nranks > 1) {
        st = compare(call);
        if (st != SYMM_OK) {
            leave(call);
            return symm__fail_in(st, "%s: ", name_of(call, name, sizeof name));
        }
    }
    if (call->capturing) {
        group->captured = call->stream;
        group->has_captured = true;
    } else {
        TRY(follow_last(call));
    }
out:
    if (st != SYMM_OK) {
        leave(call);
        st = symm__fail_on(SYMM_ON(group), st, "%s: ", name_of(call, name, sizeof name));
    }
    return st;
}

symm_status symm__call_begin(struct symm_call *call, struct symm_group *group, symm_stream stream,
                             bool all_ranks, const char *fmt, ...)
{
    va_list args;

    call->group = group;
    call->stream = stream;
    call->spans = false;
    call->text[0] = 0;
    va_start(args, fmt);
    symm__late_text_keep(&call->late, fmt, args);
    va_end(args);
    return begin_on_stream(call, all_ranks);
}

symm_status symm__call_begin_spanning(struct symm_call *call, struct symm_group *group,
                                      symm_stream stream, bool all_ranks, const char *fmt, ...)
{
    va_list args;

    call->group = group;
    call->stream = stream;
    call->spans = true;
    call->text[0] = 0;
    va_start(args, fmt);
    symm__late_text_keep(&call->late, fmt, args);
    va_end(args);
    return begin_on_stream(call, all_ranks);
}

symm_status symm__call_end(struct symm_call *call, symm_status st)
{
    struct symm_group *group = call->group;
    char name[64];

    note_last(call, &st);
    leave(call);
    if (st != SYMM_OK)
        st = symm__fail_on(SYMM_ON(group), st, "%s: ", name_of(call, name, sizeof name));
    return st;
}

static symm_status launch(struct symm_call *call, symm_kernel_id id, uint32_t blocks,
                          uint32_t threads, uint32_t shared_nbytes, CUlaunchAttribute *attributes,
                          uint32_t nattributes, const void *args)
{
    const struct symm_context *ctx = call->group->ctx;
    const CUlaunchConfig config = {
        .gridDimX = blocks,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = shared_nbytes,
        .hStream = call->stream,
        .attrs = attributes,
        .numAttrs = nattributes,
    };
    /* The driver only copies the arguments; its interface has no const. */
    void *params[] = {(void *)(uintptr_t)args};
    symm__call_unsettles(call);
    CUresult cu =
        ctx->drv->cuLaunchKernelEx(&config, symm__kernels_function(ctx->kernels, id), params, NULL);

    if (cu == CUDA_SUCCESS)
        return SYMM_OK;
    symm_status st = symm__driver_fail(ctx->drv, cu, "cuLaunchKernelEx");
    return symm__fail_in(st, "%s<<<%u, %u>>>: ", symm__kernels_name(id), blocks, threads);
}

static CUlaunchAttribute programmatic(void)
{
    return (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
}

symm_status symm__call_launch(struct symm_call *call, symm_kernel_id id, uint32_t blocks,
                              uint32_t threads, bool pdl, const void *args)
{
    CUlaunchAttribute attributes[2];
    uint32_t n = 0;

    /*
     * Blocks that wait for other blocks must be resident together. A cooperative launch fails if
     * they cannot be.
     */
    if (blocks > 1)
        attributes[n++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    if (pdl)
        attributes[n++] = programmatic();
    return launch(call, id, blocks, threads, 0, attributes, n, args);
}

symm_status symm__call_launch_local(struct symm_call *call, symm_kernel_id id, uint32_t blocks,
                                    uint32_t threads, const void *args)
{
    return launch(call, id, blocks, threads, 0, NULL, 0, args);
}

symm_status symm__call_launch_cluster(struct symm_call *call, symm_kernel_id id, uint32_t blocks,
                                      uint32_t threads, uint32_t cluster, uint32_t shared_nbytes,
                                      bool pdl, const void *args)
{
    CUlaunchAttribute attributes[2];
    uint32_t n = 0;

    if (cluster > 1)
        attributes[n++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                              .value.clusterDim = {cluster, 1, 1}};
    if (pdl)
        attributes[n++] = programmatic();
    return launch(call, id, blocks, threads, shared_nbytes, attributes, n, args);
}

void symm__call_settles(struct symm_call *call)
{
    struct symm_group *group = call->group;

    group->settled = true;
    symm__settled_note(&group->ctx->settled, group, call->stream, call->capturing);
}

void symm__call_unsettles(struct symm_call *call)
{
    take_settled(call);
    call->group->settled = false;
}

symm_status symm__call_alloc(struct symm_call *call, void *owner, uint64_t nbytes, void **out)
{
    const struct symm_group *group = call->group;
    const symm_status st = symm__memory_alloc(group->ctx->memory, group->comm, owner,
                                              SYMM_BLOCK_INTERNAL, nbytes, call->text, out);

    return st == SYMM_ERROR_ARGUMENT ? symm__fail_in(SYMM_ERROR_MEMORY, "%s", "") : st;
}

/* The other ranks vote on this call. Votes this rank's failure and returns the verdict. */
static symm_status refuse_together(struct symm_call *call, symm_status mine)
{
    struct symm_group *group = call->group;
    struct symm_vote vote = {.text = call->text, .status = mine, .fd = -1};

    return symm__host_comm_vote(group->comm, &vote, symm__deadline_in(group->ctx->timeout_ms));
}

/* The call has its group and its text. */
static symm_status begin_collective(struct symm_call *call, bool all_ranks)
{
    symm_status st;
    char name[64];
    bool entered;

    st = begin(call, &entered);
    if (!entered)
        return st;
    note_collective(call, all_ranks); /* also after a failure: other ranks count it too */
    if (st == SYMM_OK) {
        st = symm__capture_forbids(call->group);
        if (st != SYMM_OK)
            leave(call);
    }
    if (st != SYMM_OK && all_ranks)
        st = refuse_together(call, st);
    if (st != SYMM_OK) {
        symm__collective_note(call->group, NULL);
        st = symm__fail_in(st, "%s: ", name_of(call, name, sizeof name));
    }
    return st;
}

symm_status symm__collective_begin(struct symm_call *call, struct symm_group *group, bool all_ranks,
                                   const char *fmt, ...)
{
    va_list args;

    *call = (struct symm_call){.group = group};
    va_start(args, fmt);
    vsnprintf(call->text, sizeof call->text, fmt, args);
    va_end(args);
    return begin_collective(call, all_ranks);
}

symm_status symm__collective_begin_spanning(struct symm_call *call, struct symm_group *group,
                                            bool all_ranks, const char *fmt, ...)
{
    va_list args;

    *call = (struct symm_call){.group = group, .spans = true};
    va_start(args, fmt);
    vsnprintf(call->text, sizeof call->text, fmt, args);
    va_end(args);
    return begin_collective(call, all_ranks);
}

symm_status symm__collective_end(struct symm_call *call, symm_status st)
{
    char name[64];

    symm__collective_note(call->group, NULL);
    leave(call);
    if (st != SYMM_OK)
        st = symm__fail_in(st, "%s: ", name_of(call, name, sizeof name));
    return st;
}

symm_status symm__collective_refuse(struct symm_call *call, const char *fmt, ...)
{
    struct symm_vote vote = {.text = call->text, .status = SYMM_ERROR_ARGUMENT, .fd = -1};
    const struct symm_group *group = call->group;
    char name[64], why[SYMM_TEXT_MAX];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    symm__fail(SYMM_ERROR_ARGUMENT, "%s", why);
    symm__host_comm_vote(group->comm, &vote, symm__deadline_in(group->ctx->timeout_ms));
    symm__collective_note(call->group, NULL);
    leave(call);
    symm__fail(SYMM_ERROR_ARGUMENT, "%s", why);
    return symm__fail_on(SYMM_ON(group), SYMM_ERROR_ARGUMENT,
                         "%s: ", name_of(call, name, sizeof name));
}
