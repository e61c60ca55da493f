/* The rules that a capture imposes on other calls. */
#include "emulator/state/call.h"
#include "capture_state.h"

CUresult emu__capture_invalidate_locked(struct emu_capture *capture, CUresult error,
                                        const char *rule)
{
    capture->invalid = true;
    return emu__rule(error, "%s; the capture is invalid now", rule);
}

CUresult emu__capture_isolation(struct CUstream_st *stream)
{
    pthread_mutex_lock(&emu__captures.lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    CUresult result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (capture)
        emu__capture_invalidate_locked(capture, result,
                                       "waits in a capture for an event recorded outside of it");
    pthread_mutex_unlock(&emu__captures.lock);
    return result;
}

CUresult emu__capture_refuse(struct emu_capture *capture, CUresult error, const char *call)
{
    pthread_mutex_lock(&emu__captures.lock);
    if (capture->active)
        emu__capture_invalidate_locked(capture, error, call);
    else
        emu__rule(error, "%s", call);
    pthread_mutex_unlock(&emu__captures.lock);
    return error;
}

CUresult emu__capture_refuse_stream(struct CUstream_st *stream, const char *call)
{
    pthread_mutex_lock(&emu__captures.lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (capture)
        emu__capture_invalidate_locked(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call);
    pthread_mutex_unlock(&emu__captures.lock);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Whether a stream of the execution, and a blocking one if `blocking`, takes part. */
static bool involves(const struct emu_capture *capture, const struct emu_execution *execution,
                     bool blocking)
{
    for (unsigned i = 0; i < capture->nmembers; i++) {
        const struct CUstream_st *stream = capture->members[i].stream;
        if (stream && stream->execution == execution &&
            !(blocking && stream->flags & CU_STREAM_NON_BLOCKING))
            return true;
    }
    return false;
}

CUresult emu__capture_implicit(struct emu_execution *execution, bool invalidate)
{
    CUresult result = CUDA_SUCCESS;
    if (atomic_load(&emu__captures.count) == 0)
        return result;
    pthread_mutex_lock(&emu__captures.lock);
    for (struct emu_capture *capture = emu__captures.first; capture; capture = capture->next) {
        if (!involves(capture, execution, true))
            continue;
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        if (invalidate)
            emu__capture_invalidate_locked(
                capture, result, "uses the legacy stream while a blocking stream captures");
    }
    pthread_mutex_unlock(&emu__captures.lock);
    return result;
}

CUresult emu__capture_refuse_device(struct emu_execution *execution, const char *call)
{
    CUresult result = CUDA_SUCCESS;
    if (atomic_load(&emu__captures.count) == 0)
        return result;
    pthread_mutex_lock(&emu__captures.lock);
    for (struct emu_capture *capture = emu__captures.first; capture; capture = capture->next)
        if (involves(capture, execution, false))
            result = emu__capture_invalidate_locked(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                                    call);
    pthread_mutex_unlock(&emu__captures.lock);
    return result;
}

/* Whether the capture forbids unsafe calls to this thread (cuThreadExchangeStreamCaptureMode). */
static bool forbids(const struct emu_capture *capture)
{
    if (emu__capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->owner == &emu__capture_mode)
        return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return emu__capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult emu__capture_forbids(void)
{
    CUresult result = CUDA_SUCCESS;
    if (atomic_load(&emu__captures.count) == 0)
        return result;
    pthread_mutex_lock(&emu__captures.lock);
    for (struct emu_capture *capture = emu__captures.first; capture; capture = capture->next)
        if (forbids(capture))
            result = emu__capture_invalidate_locked(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                                    "a call that is forbidden during a capture");
    pthread_mutex_unlock(&emu__captures.lock);
    return result;
}
