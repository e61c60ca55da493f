/* Events. Each record outside of captures makes a mark. */
#include <stdlib.h>
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"
#include "emulator/state/handle.h"
#include "capture.h"
#include "mark.h"
#include "queue.h"

/* ---- The two works on marks ---- */

struct mark_work {
    struct emu_work work;
    struct emu_mark *mark;
};

static void mark_work_destroy(struct emu_work *work)
{
    struct mark_work *w = (struct mark_work *)work;
    emu__mark_release(w->mark);
    free(w);
}

static void record_run(struct emu_work *work, struct CUstream_st *stream)
{
    (void)stream;
    emu__mark_reach(((struct mark_work *)work)->mark);
}

static void wait_run(struct emu_work *work, struct CUstream_st *stream)
{
    emu__mark_wait(((struct mark_work *)work)->mark, stream->execution);
}

static struct emu_work *mark_work_create(struct emu_mark *mark, bool record)
{
    struct mark_work *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->work = (struct emu_work){.references = 1,
                                .run = record ? record_run : wait_run,
                                .destroy = mark_work_destroy,
                                .always = record};
    w->mark = emu__mark_retain(mark);
    return &w->work;
}

/* ---- Events ---- */

struct CUevent_st {
    struct emu_device *device;
    unsigned flags;
    pthread_mutex_t lock;
    struct emu_mark *mark;          /* of the last record outside of captures */
    struct emu_capture_point point; /* of the last record, if it was inside of one */
};

CUresult emu_cuEventCreate(CUevent *event, unsigned int flags)
{
    EMU_BEGIN_HEALTHY("flags=%u", flags);
    EMU_NOT_NULL(event);
    if (flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING))
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "unknown flags %#x", flags));
    struct CUevent_st *created = calloc(1, sizeof *created);
    if (!created || !emu__handle_add(EMU_HANDLE_EVENT, created)) {
        free(created);
        return EMU_END(CUDA_ERROR_OUT_OF_MEMORY);
    }
    created->device = emu__device_current();
    created->flags = flags;
    pthread_mutex_init(&created->lock, NULL);
    emu__count(EMU_EVENTS, 1);
    *event = created;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuEventDestroy(CUevent event)
{
    EMU_BEGIN("event=%p", (void *)event);
    EMU_TRY(emu__handle_remove(EMU_HANDLE_EVENT, event));
    struct emu_device *device = event->device;
    emu__mark_release(event->mark);
    emu__capture_point_clear(&event->point);
    pthread_mutex_destroy(&event->lock);
    free(event);
    emu__count(EMU_EVENTS, -1);
    return EMU_END(atomic_load(&device->sticky));
}

/* Makes the event stand for a mark or a point, whose references it takes over. */
static void event_set(CUevent event, struct emu_mark *mark, struct emu_capture_point point)
{
    pthread_mutex_lock(&event->lock);
    struct emu_mark *old_mark = event->mark;
    struct emu_capture_point old_point = event->point;
    event->mark = mark;
    event->point = point;
    pthread_mutex_unlock(&event->lock);
    emu__mark_release(old_mark);
    emu__capture_point_clear(&old_point);
}

static CUresult record(CUevent event, struct CUstream_st *stream)
{
    if (emu__capturing(stream)) {
        struct emu_capture_point point = {0};
        CUresult result = emu__capture_record(stream, &point);
        if (result == CUDA_SUCCESS)
            event_set(event, NULL, point);
        return result;
    }
    struct emu_mark *mark = emu__mark_create();
    struct emu_work *work = mark ? mark_work_create(mark, true) : NULL;
    if (!work) {
        emu__mark_release(mark);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = emu__stream_enqueue(stream, work);
    if (result == CUDA_SUCCESS)
        event_set(event, mark, (struct emu_capture_point){0});
    else
        emu__mark_release(mark);
    return result;
}

CUresult emu_cuEventRecord(CUevent event, CUstream stream)
{
    EMU_BEGIN_HEALTHY("event=%p stream=%p", (void *)event, (void *)stream);
    struct CUstream_st *s;
    CUresult result = emu__handle_check(EMU_HANDLE_EVENT, event);
    if (result == CUDA_SUCCESS)
        result = emu__stream_get(stream, true, &s);
    if (result == CUDA_SUCCESS && s->execution->device != event->device)
        result = emu__rule(CUDA_ERROR_INVALID_HANDLE, "the event belongs to device %d",
                           event->device->ordinal);
    return EMU_END(result == CUDA_SUCCESS ? record(event, s) : result);
}

static CUresult wait_for(struct CUstream_st *stream, CUevent event)
{
    struct emu_mark *mark = NULL;
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&event->lock);
    if (event->point.capture)
        result = emu__capture_wait(stream, &event->point);
    else if (event->mark)
        mark = emu__mark_retain(event->mark);
    pthread_mutex_unlock(&event->lock);
    if (!mark) /* captured, or never recorded */
        return result;
    if (emu__capturing(stream)) {
        result = emu__capture_isolation(stream);
    } else if (!emu__mark_reached(mark)) {
        struct emu_work *work = mark_work_create(mark, false);
        result = work ? emu__stream_enqueue(stream, work) : CUDA_ERROR_OUT_OF_MEMORY;
    }
    emu__mark_release(mark);
    return result;
}

CUresult emu_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    EMU_BEGIN_HEALTHY("stream=%p event=%p flags=%u", (void *)stream, (void *)event, flags);
    struct CUstream_st *s;
    CUresult result = flags ? emu__rule(CUDA_ERROR_INVALID_VALUE, "flags must be 0")
                            : emu__handle_check(EMU_HANDLE_EVENT, event);
    if (result == CUDA_SUCCESS)
        result = emu__stream_get(stream, true, &s);
    return EMU_END(result == CUDA_SUCCESS ? wait_for(s, event) : result);
}

/* Gets the mark of an event for the host. NULL with success: never recorded. */
static CUresult get_to_ask(CUevent event, struct emu_mark **out)
{
    *out = NULL;
    CUresult result = emu__handle_check(EMU_HANDLE_EVENT, event);
    if (result != CUDA_SUCCESS)
        return result;
    pthread_mutex_lock(&event->lock);
    if (event->point.capture)
        result = emu__capture_refuse(event->point.capture, CUDA_ERROR_CAPTURED_EVENT,
                                     "asks for an event that was recorded in a capture");
    else if (event->mark)
        *out = emu__mark_retain(event->mark);
    pthread_mutex_unlock(&event->lock);
    return result;
}

CUresult emu_cuEventQuery(CUevent event)
{
    EMU_BEGIN("event=%p", (void *)event);
    struct emu_mark *mark;
    CUresult result = emu__capture_forbids();
    if (result == CUDA_SUCCESS)
        result = get_to_ask(event, &mark);
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    result = atomic_load(&event->device->sticky);
    if (result == CUDA_SUCCESS && mark && !emu__mark_reached(mark))
        result = CUDA_ERROR_NOT_READY;
    emu__mark_release(mark);
    return EMU_END(result);
}

CUresult emu_cuEventSynchronize(CUevent event)
{
    EMU_BEGIN("event=%p", (void *)event);
    struct emu_mark *mark;
    EMU_TRY(get_to_ask(event, &mark));
    struct emu_device *device = event->device;
    if (mark) {
        emu__mark_wait(mark, NULL);
        emu__mark_release(mark);
    }
    return EMU_END(atomic_load(&device->sticky));
}

CUresult emu_cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    EMU_BEGIN("from=%p to=%p", (void *)from, (void *)to);
    EMU_NOT_NULL(ms);
    struct emu_mark *first = NULL, *second = NULL;
    CUresult result = get_to_ask(from, &first);
    if (result == CUDA_SUCCESS)
        result = get_to_ask(to, &second);
    if (result == CUDA_SUCCESS && ((from->flags | to->flags) & CU_EVENT_DISABLE_TIMING))
        result = emu__rule(CUDA_ERROR_INVALID_HANDLE, "an event without timing");
    if (result == CUDA_SUCCESS && (!first || !second))
        result = emu__rule(CUDA_ERROR_INVALID_HANDLE, "an event that was never recorded");
    if (result == CUDA_SUCCESS)
        result = atomic_load(&from->device->sticky);
    if (result == CUDA_SUCCESS && !(emu__mark_reached(first) && emu__mark_reached(second)))
        result = CUDA_ERROR_NOT_READY;
    if (result == CUDA_SUCCESS)
        *ms = (float)((double)(second->ns - first->ns) / 1e6);
    emu__mark_release(first);
    emu__mark_release(second);
    return EMU_END(result);
}
