/* Side streams: for each urgency, one for calls outside of captures and one for each capture. */
#include "side_stream.h"

#include <stdlib.h>

struct symm_side_stream {
    struct symm_side_stream *next;
    struct symm_group *group;
    CUstream main; /* the stream of the last call that took it */
    CUstream stream;
    enum symm_urgency urgency;
    /* Recorded again at each mark and each join. A wait refers to the last record before it. */
    CUevent mark, event;
    bool forked;
};

/* ---------------------------------------------------------------------------------- their lives */

/* After a failure, the created objects stay for the next attempt. */
static symm_status make(struct symm_side_stream *side)
{
    const struct symm_driver *drv = side->group->ctx->drv;
    int least, greatest;
    symm_status st = SYMM_OK;

    TRY_CU(drv, cuCtxGetStreamPriorityRange, &least, &greatest);
    if (!side->mark)
        TRY_CU(drv, cuEventCreate, &side->mark, CU_EVENT_DISABLE_TIMING);
    if (!side->event)
        TRY_CU(drv, cuEventCreate, &side->event, CU_EVENT_DISABLE_TIMING);
    TRY_CU(drv, cuStreamCreateWithPriority, &side->stream, CU_STREAM_NON_BLOCKING,
           side->urgency == SYMM_URGENT ? greatest : least);
out:
    return st;
}

/*
 * Creating objects could invalidate a capture of this thread, so the capture mode is relaxed
 * meanwhile.
 */
static symm_status make_relaxed(struct symm_side_stream *side)
{
    const struct symm_driver *drv = side->group->ctx->drv;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    symm_status st = SYMM_OK;

    if (side->stream)
        return SYMM_OK;
    TRY_CU(drv, cuThreadExchangeStreamCaptureMode, &mode);
    st = make(side);
    drv->cuThreadExchangeStreamCaptureMode(&mode);
out:
    return st;
}

/*
 * Whether this call may take the stream: it is in no capture, or in the capture of the call's own
 * stream.
 */
static symm_status ask_free(const struct symm_side_stream *side, const struct symm_call *call,
                            bool *is_free)
{
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    symm_status st = SYMM_OK;

    if (side->stream)
        TRY_CU(call->group->ctx->drv, cuStreamIsCapturing, side->stream, &status);
    *is_free =
        status == CU_STREAM_CAPTURE_STATUS_NONE || (status == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
                                                    call->capturing && side->main == call->stream);
out:
    return st;
}

symm_status symm__side_stream_take(struct symm_call *call, enum symm_urgency urgency,
                                   struct symm_side_stream **out)
{
    struct symm_group *group = call->group;
    struct symm_side_stream *side;
    bool is_free = false;
    symm_status st = SYMM_OK;

    for (side = group->side_streams; side; side = side->next) {
        if (side->urgency != urgency)
            continue;
        TRY(ask_free(side, call, &is_free));
        if (is_free)
            break;
    }
    if (!side) {
        side = calloc(1, sizeof *side);
        if (!side)
            return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
        side->group = group;
        side->urgency = urgency;
        side->next = group->side_streams;
        group->side_streams = side;
    }
    TRY(make_relaxed(side));
    side->main = call->stream;
    *out = side;
out:
    return st;
}

static void release(struct symm_side_stream *side, symm_status *st)
{
    const struct symm_driver *drv = side->group->ctx->drv;

    if (side->event)
        symm__driver_note(drv, drv->cuEventDestroy(side->event), "cuEventDestroy", st);
    if (side->stream)
        symm__driver_note(drv, drv->cuStreamDestroy(side->stream), "cuStreamDestroy", st);
    if (side->mark)
        symm__driver_note(drv, drv->cuEventDestroy(side->mark), "cuEventDestroy", st);
    free(side);
}

void symm__side_streams_release(struct symm_group *group, symm_status *st)
{
    while (group->side_streams) {
        struct symm_side_stream *side = group->side_streams;
        group->side_streams = side->next;
        release(side, st);
    }
}

/* -------------------------------------------------------------------------------- fork and join */

CUstream symm__side_stream_handle(const struct symm_side_stream *side)
{
    return side->stream;
}

symm_status symm__side_stream_mark(struct symm_side_stream *side)
{
    symm_status st = SYMM_OK;

    TRY_CU(side->group->ctx->drv, cuEventRecord, side->mark, side->main);
out:
    return st;
}

symm_status symm__side_stream_follow(struct symm_side_stream *side)
{
    symm_status st = SYMM_OK;

    TRY_CU(side->group->ctx->drv, cuStreamWaitEvent, side->stream, side->mark, 0);
    side->forked = true;
out:
    return st;
}

static void join(struct symm_side_stream *side, symm_status *st)
{
    const struct symm_driver *drv = side->group->ctx->drv;
    CUresult cu;

    if (!side->forked)
        return;
    side->forked = false;
    cu = drv->cuEventRecord(side->event, side->stream);
    symm__driver_note(drv, cu, "cuEventRecord", st);
    if (cu == CUDA_SUCCESS)
        symm__driver_note(drv, drv->cuStreamWaitEvent(side->main, side->event, 0),
                          "cuStreamWaitEvent", st);
}

symm_status symm__side_stream_join(struct symm_side_stream *side)
{
    symm_status st = SYMM_OK;

    join(side, &st);
    return st;
}

symm_status symm__side_stream_finish(struct symm_side_stream *side, symm_status st)
{
    join(side, &st);
    if (st != SYMM_OK)
        side->group->has_unrecorded = true;
    return st;
}
