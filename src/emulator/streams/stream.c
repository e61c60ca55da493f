/*
 * Streams: a queue each, and a thread that takes work from it in order. The thread is started with
 * the first work and ends with the stream. The legacy stream of a context waits for all that its
 * blocking streams have got before, and they wait for it.
 */
#include <stdlib.h>
#include "emulator/streams/execution.h"
#include "emulator/blocks/grid.h"

/* ---- The worker ---- */

static void *stream_worker(void *arg)
{
    struct CUstream_st *stream = arg;
    struct emu_execution *execution = stream->execution;
    emu__running = execution->device;
    pthread_mutex_lock(&execution->lock);
    for (;;) {
        while (!stream->first && !stream->destroyed)
            pthread_cond_wait(&stream->work_came, &execution->lock);
        struct emu_item *item = stream->first;
        if (!item)
            break;
        stream->current = item;
        stream->first = item->next;
        if (!stream->first)
            stream->last = &stream->first;
        pthread_mutex_unlock(&execution->lock);
        if (item->work->always || emu__sticky(execution) == CUDA_SUCCESS)
            item->work->run(item->work, stream);
        pthread_mutex_lock(&execution->lock);
        stream->current = NULL;
        pthread_mutex_unlock(&execution->lock);
        /* Before anybody learns that it is done, so that it holds nothing any more then. */
        emu__work_release(item->work);
        free(item);
        pthread_mutex_lock(&execution->lock);
        stream->oldest = stream->first ? stream->first->ticket : UINT64_MAX;
        pthread_cond_broadcast(&execution->work_done);
    }
    emu__stream_release_locked(stream);
    emu__execution_release_unlock(execution);
    emu__block_thread_end();
    return NULL;
}

/* ---- Enqueueing ---- */

struct stream_wait {
    struct emu_work work;
    struct CUstream_st *on;
    uint64_t ticket;
};

static void stream_wait_run(struct emu_work *work, struct CUstream_st *stream)
{
    struct stream_wait *wait = (struct stream_wait *)work;
    struct emu_execution *execution = stream->execution;
    pthread_mutex_lock(&execution->lock);
    while (wait->on->oldest <= wait->ticket)
        pthread_cond_wait(&execution->work_done, &execution->lock);
    pthread_mutex_unlock(&execution->lock);
}

static void stream_wait_destroy(struct emu_work *work)
{
    struct stream_wait *wait = (struct stream_wait *)work;
    struct emu_execution *execution = wait->on->execution;
    pthread_mutex_lock(&execution->lock);
    emu__stream_release_locked(wait->on);
    pthread_mutex_unlock(&execution->lock);
    free(wait);
}

static struct emu_item *item_create(struct emu_work *work)
{
    struct emu_item *item = calloc(1, sizeof *item);
    if (item)
        item->work = work;
    return item;
}

static void push_locked(struct CUstream_st *stream, struct emu_item *item)
{
    item->ticket = stream->newest = ++stream->execution->tickets;
    if (stream->oldest == UINT64_MAX)
        stream->oldest = item->ticket;
    *stream->last = item;
    stream->last = &item->next;
    pthread_cond_signal(&stream->work_came);
}

/* Makes the stream wait for what `on` has got so far. */
static bool push_wait_locked(struct CUstream_st *stream, struct CUstream_st *on)
{
    if (on->oldest == UINT64_MAX)
        return true;
    struct stream_wait *wait = calloc(1, sizeof *wait);
    struct emu_item *item = wait ? item_create(&wait->work) : NULL;
    if (!item) {
        free(wait);
        return false;
    }
    *wait = (struct stream_wait){
        .work = {.references = 1, .run = stream_wait_run, .destroy = stream_wait_destroy},
        .on = on,
        .ticket = on->newest};
    on->references++;
    push_locked(stream, item);
    return true;
}

/* The implicit order between the legacy stream and the blocking streams of its context. */
static bool push_order_locked(struct CUstream_st *stream)
{
    struct emu_execution *execution = stream->execution;
    if (stream->flags & CU_STREAM_NON_BLOCKING)
        return true;
    if (stream != execution->legacy)
        return push_wait_locked(stream, execution->legacy);
    bool ok = true;
    for (struct CUstream_st *s = execution->streams; s && ok; s = s->next)
        if (s != stream && !(s->flags & CU_STREAM_NON_BLOCKING))
            ok = push_wait_locked(stream, s);
    return ok;
}

static bool start_worker_locked(struct CUstream_st *stream)
{
    if (stream->has_worker)
        return true;
    stream->references++;
    emu__execution_retain_locked(stream->execution);
    stream->has_worker = emu__thread_start(stream_worker, stream);
    if (!stream->has_worker) {
        stream->references--;
        stream->execution->references--;
    }
    return stream->has_worker;
}

CUresult emu__stream_push(struct CUstream_st *stream, struct emu_work *work)
{
    struct emu_item *item = item_create(work);
    pthread_mutex_lock(&stream->execution->lock);
    bool ok = item && start_worker_locked(stream) && push_order_locked(stream);
    if (ok)
        push_locked(stream, item);
    pthread_mutex_unlock(&stream->execution->lock);
    if (ok)
        return CUDA_SUCCESS;
    free(item);
    emu__work_release(work);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult emu__stream_enqueue(struct CUstream_st *stream, struct emu_work *work)
{
    if (emu__capturing(stream))
        return emu__capture_add(stream, work);
    CUresult result = CUDA_SUCCESS;
    if (stream == stream->execution->legacy)
        result = emu__capture_implicit(stream->execution, true);
    if (result != CUDA_SUCCESS) {
        emu__work_release(work);
        return result;
    }
    return emu__stream_push(stream, work);
}

CUresult emu__stream_get(CUstream handle, bool enqueue, struct CUstream_st **out)
{
    struct emu_device *current = emu__device_current();
    if (!handle || handle == (CUstream)1) { /* CU_STREAM_LEGACY */
        if (!current)
            return CUDA_ERROR_INVALID_CONTEXT;
        struct emu_execution *execution = emu__execution(current);
        *out = execution ? execution->legacy : NULL;
        return execution ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!emu__handle_valid(EMU_HANDLE_STREAM, handle))
        return emu__rule(CUDA_ERROR_INVALID_HANDLE, "no such stream: %p", (void *)handle);
    if (enqueue && handle->execution->device != current)
        return emu__rule(CUDA_ERROR_INVALID_HANDLE,
                         "the stream belongs to device %d, whose context is not the current one",
                         handle->execution->device->ordinal);
    *out = handle;
    return CUDA_SUCCESS;
}

/* ---- Entries ---- */

CUresult emu_cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    EMU_BEGIN_HEALTHY("%s", "");
    if (least)
        *least = EMU_PRIORITY_LEAST;
    if (greatest)
        *greatest = EMU_PRIORITY_GREATEST;
    return EMU_END(CUDA_SUCCESS);
}

static int within_range(int priority)
{
    if (priority > EMU_PRIORITY_LEAST)
        return EMU_PRIORITY_LEAST;
    return priority < EMU_PRIORITY_GREATEST ? EMU_PRIORITY_GREATEST : priority;
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
    return EMU_END(create(stream, flags, EMU_PRIORITY_LEAST));
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
    if (!emu__handle_remove(EMU_HANDLE_STREAM, stream))
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_HANDLE, "no such stream: %p", (void *)stream));
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

/* The stream of a call that asks for its state or waits for it. */
static CUresult get_to_look(CUstream handle, const char *what, struct CUstream_st **out)
{
    CUresult result = emu__stream_get(handle, false, out);
    if (result == CUDA_SUCCESS && emu__capturing(*out))
        return emu__capture_refuse_stream(*out, what);
    if (result == CUDA_SUCCESS && *out == (*out)->execution->legacy)
        return emu__capture_implicit((*out)->execution, true);
    return result;
}

CUresult emu_cuStreamSynchronize(CUstream stream)
{
    EMU_BEGIN("stream=%p", (void *)stream);
    struct CUstream_st *s;
    CUresult result = get_to_look(stream, "waits for a stream that captures", &s);
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    struct emu_device *device = s->execution->device;
    emu__stream_wait(s);
    return EMU_END(atomic_load(&device->sticky));
}

CUresult emu_cuStreamQuery(CUstream stream)
{
    EMU_BEGIN("stream=%p", (void *)stream);
    struct CUstream_st *s;
    CUresult result = get_to_look(stream, "asks for the state of a stream that captures", &s);
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    result = emu__sticky(s->execution);
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
    CUresult result = emu__capture_refuse_device(execution, "waits for a device that captures");
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    emu__execution_wait(execution);
    return EMU_END(atomic_load(&device->sticky));
}
