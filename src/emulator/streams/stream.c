/* The entries of streams, and their end with the context. */
#include "stream.h"

#include <stdlib.h>
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"
#include "emulator/state/handle.h"
#include "capture.h"
#include "queue.h"

/* Of streams, as on GPUs; the greatest priority has the lowest number. */
enum { PRIORITY_LEAST = 0, PRIORITY_GREATEST = -5 };

void emu__streams_close(struct emu_device *device)
{
    emu__streams_drain(device);
    struct emu_execution *execution = emu__execution_detach(device);
    if (!execution)
        return;
    emu__capture_close(execution);
    emu__sms_close(execution->sms);
    pthread_mutex_lock(&execution->lock);
    for (struct CUstream_st *s = execution->streams, *next; s; s = next) {
        next = s->next;
        if (s->destroyed)
            continue;
        if (s != execution->legacy) /* which has no handle */
            emu__handle_remove(EMU_HANDLE_STREAM, s);
        emu__stream_end_locked(s);
    }
    emu__execution_release_unlock(execution);
}

CUresult emu_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    EMU_BEGIN_HEALTHY("%s", "");
    if (least)
        *least = PRIORITY_LEAST;
    if (greatest)
        *greatest = PRIORITY_GREATEST;
    return EMU_END(CUDA_SUCCESS);
}

static int within_range(int priority)
{
    if (priority > PRIORITY_LEAST)
        return PRIORITY_LEAST;
    return priority < PRIORITY_GREATEST ? PRIORITY_GREATEST : priority;
}

static CUresult create(CUstream *stream, unsigned flags, int priority)
{
    if (flags > CU_STREAM_NON_BLOCKING)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "unknown flags %#x", flags);
    struct emu_execution *execution = emu__execution(emu__device_current());
    struct CUstream_st *created = execution ? emu__stream_create(execution, flags) : NULL;
    if (!created || !emu__handle_add(EMU_HANDLE_STREAM, created)) {
        free(created);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    created->priority = within_range(priority);
    pthread_mutex_lock(&execution->lock);
    emu__stream_link_locked(created);
    pthread_mutex_unlock(&execution->lock);
    emu__count(EMU_STREAMS, 1);
    *stream = created;
    return CUDA_SUCCESS;
}

CUresult emu_cuStreamCreate(CUstream *stream, unsigned int flags)
{
    EMU_BEGIN_HEALTHY("flags=%u", flags);
    EMU_NOT_NULL(stream);
    return EMU_END(create(stream, flags, PRIORITY_LEAST));
}

CUresult emu_cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
    EMU_BEGIN_HEALTHY("flags=%u priority=%d", flags, priority);
    EMU_NOT_NULL(stream);
    return EMU_END(create(stream, flags, priority));
}

CUresult emu_cuStreamDestroy(CUstream stream)
{
    EMU_BEGIN("stream=%p", (void *)stream);
    EMU_TRY(emu__handle_remove(EMU_HANDLE_STREAM, stream));
    emu__capture_forget(stream);
    struct emu_execution *execution = stream->execution;
    struct emu_device *device = execution->device;
    pthread_mutex_lock(&execution->lock);
    emu__execution_retain_locked(execution);
    emu__stream_end_locked(stream);
    emu__execution_release_unlock(execution);
    emu__count(EMU_STREAMS, -1);
    return EMU_END(atomic_load(&device->sticky));
}

/* Gets the stream of a call that asks for its state or waits for it. */
static CUresult get_to_ask(CUstream handle, const char *call, struct CUstream_st **out)
{
    CUresult result = emu__stream_get(handle, false, out);
    if (result == CUDA_SUCCESS && emu__capturing(*out))
        return emu__capture_refuse_stream(*out, call);
    if (result == CUDA_SUCCESS && *out == (*out)->execution->legacy)
        return emu__capture_implicit((*out)->execution, true);
    return result;
}

CUresult emu_cuStreamSynchronize(CUstream stream)
{
    EMU_BEGIN("stream=%p", (void *)stream);
    struct CUstream_st *s;
    EMU_TRY(get_to_ask(stream, "waits for a stream that captures", &s));
    struct emu_device *device = s->execution->device;
    emu__stream_wait(s);
    return EMU_END(atomic_load(&device->sticky));
}

CUresult emu_cuStreamQuery(CUstream stream)
{
    EMU_BEGIN("stream=%p", (void *)stream);
    struct CUstream_st *s;
    EMU_TRY(get_to_ask(stream, "asks for the state of a stream that captures", &s));
    CUresult result = emu__sticky(s->execution);
    pthread_mutex_lock(&s->execution->lock);
    if (result == CUDA_SUCCESS && emu__stream_busy_locked(s, UINT64_MAX - 1))
        result = CUDA_ERROR_NOT_READY;
    pthread_mutex_unlock(&s->execution->lock);
    return EMU_END(result);
}

CUresult emu_cuStreamGetCtx(CUstream stream, CUcontext *ctx)
{
    EMU_BEGIN("stream=%p", (void *)stream);
    EMU_NOT_NULL(ctx);
    struct CUstream_st *s = NULL;
    CUresult result = emu__stream_get(stream, false, &s);
    if (result == CUDA_SUCCESS)
        *ctx = &s->execution->device->primary;
    return EMU_END(result);
}

CUresult emu_cuCtxSynchronize(void)
{
    EMU_BEGIN_HEALTHY("%s", "");
    struct emu_device *device = emu__device_current();
    struct emu_execution *execution = emu__execution(device);
    if (!execution)
        return EMU_END(CUDA_ERROR_OUT_OF_MEMORY);
    EMU_TRY(emu__capture_refuse_device(execution, "waits for a device that captures"));
    emu__execution_wait(execution);
    return EMU_END(atomic_load(&device->sticky));
}
