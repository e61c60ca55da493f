/* Streams and events: thin wrappers of the open driver. */
#include <symm/stream.h>

#include "runtime/group/capture.h"
#include "runtime/group/known_stream.h"
#include "scope.h"

symm_status symm_stream_priorities(symm_context *ctx, int *least, int *greatest)
{
    int range[2];
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    TRY(symm__need(least, "least"));
    TRY(symm__need(greatest, "greatest"));
    TRY(symm__scope_begin_in(&s, ctx));
    TRY_CU(s.drv, cuCtxGetStreamPriorityRange, &range[0], &range[1]);
    *least = range[0];
    *greatest = range[1];
out:
    return symm__scope_end(&s, st, __func__);
}

static symm_status create(symm_context *ctx, int priority, symm_stream *out, const char *call)
{
    CUstream stream;
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    TRY(symm__need(out, "out"));
    TRY(symm__scope_begin_in(&s, ctx));
    TRY_CU(s.drv, cuStreamCreateWithPriority, &stream, CU_STREAM_NON_BLOCKING, priority);
    st = symm__known_stream_add(s.drv, stream);
    if (st == SYMM_OK)
        *out = stream;
    else
        s.drv->cuStreamDestroy(stream);
out:
    return symm__scope_end(&s, st, call);
}

symm_status symm_stream_create(symm_context *ctx, symm_stream *out)
{
    return create(ctx, 0, out, __func__);
}

symm_status symm_stream_create_with_priority(symm_context *ctx, int priority, symm_stream *out)
{
    return create(ctx, priority, out, __func__);
}

void symm_stream_destroy(symm_stream stream)
{
    const struct symm_driver *drv = symm__driver_current();
    struct symm_scope s = {.drv = NULL};

    if (!stream || symm__driver_forked())
        return;
    if (drv)
        symm__scope_begin(&s, stream);
    symm__known_stream_remove(drv, stream);
    symm__capture_ended(stream);
    if (drv)
        drv->cuStreamDestroy(stream);
    symm__scope_end(&s, SYMM_OK, __func__);
}

symm_status symm_stream_wait(symm_stream stream, symm_event event)
{
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    TRY(symm__need(event, "event"));
    TRY(symm__scope_begin(&s, stream));
    TRY_CU(s.drv, cuStreamWaitEvent, stream, event, 0);
out:
    return symm__scope_end(&s, st, __func__);
}

symm_status symm_stream_synchronize(symm_stream stream)
{
    struct symm_scope s = {.drv = NULL};
    int capturing = CU_STREAM_CAPTURE_STATUS_NONE;
    symm_status st;

    TRY(symm__scope_begin(&s, stream));
    TRY_CU(s.drv, cuStreamIsCapturing, stream, &capturing);
    if (capturing != CU_STREAM_CAPTURE_STATUS_NONE) /* the driver would invalidate the capture */
        st = symm__fail(SYMM_ERROR_STATE, "the stream is being captured");
    else
        TRY_CU(s.drv, cuStreamSynchronize, stream);
out:
    return symm__scope_end(&s, st, __func__);
}

symm_status symm_event_create(symm_context *ctx, symm_event *out)
{
    CUevent event;
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    TRY(symm__need(out, "out"));
    TRY(symm__scope_begin_in(&s, ctx));
    TRY_CU(s.drv, cuEventCreate, &event, CU_EVENT_DEFAULT);
    *out = event;
out:
    return symm__scope_end(&s, st, __func__);
}

void symm_event_destroy(symm_event event)
{
    const struct symm_driver *drv = symm__driver_current();

    if (event && drv)
        drv->cuEventDestroy(event);
}

symm_status symm_event_record(symm_event event, symm_stream stream)
{
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    TRY(symm__need(event, "event"));
    TRY(symm__scope_begin(&s, stream));
    TRY_CU(s.drv, cuEventRecord, event, stream);
out:
    return symm__scope_end(&s, st, __func__);
}

symm_status symm_event_query(symm_event event, int *out)
{
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    TRY(symm__need(event, "event"));
    TRY(symm__need(out, "out"));
    TRY(symm__scope_begin(&s, NULL));
    CUresult cu = s.drv->cuEventQuery(event);
    if (cu != CUDA_SUCCESS && cu != CUDA_ERROR_NOT_READY)
        st = symm__driver_fail(s.drv, cu, "cuEventQuery");
    else
        *out = cu == CUDA_SUCCESS;
out:
    return symm__scope_end(&s, st, __func__);
}

symm_status symm_event_synchronize(symm_event event)
{
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    TRY(symm__need(event, "event"));
    TRY(symm__scope_begin(&s, NULL));
    TRY_CU(s.drv, cuEventSynchronize, event);
out:
    return symm__scope_end(&s, st, __func__);
}

symm_status symm_event_elapsed_us(symm_event from, symm_event to, float *out)
{
    struct symm_scope s = {.drv = NULL};
    float ms;
    symm_status st;

    TRY(symm__need(from, "from"));
    TRY(symm__need(to, "to"));
    TRY(symm__need(out, "out"));
    TRY(symm__scope_begin(&s, NULL));
    CUresult cu = s.drv->cuEventElapsedTime(&ms, from, to);
    /* The event has not happened yet, or was never recorded. */
    if (cu == CUDA_ERROR_NOT_READY || cu == CUDA_ERROR_INVALID_HANDLE)
        st = symm__fail(SYMM_ERROR_STATE, "not both events have happened");
    else if (cu != CUDA_SUCCESS)
        st = symm__driver_fail(s.drv, cu, "cuEventElapsedTime");
    else
        *out = ms * 1000;
out:
    return symm__scope_end(&s, st, __func__);
}
