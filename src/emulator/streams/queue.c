/*
 * Each stream has a queue and a thread that takes work from it in order. The thread starts with the
 * first work and ends with the stream. The legacy stream of a context waits for the work that its
 * blocking streams got before, and they wait for it.
 */
#include "queue.h"

#include <stdlib.h>
#include "emulator/state/call.h"
#include "emulator/state/handle.h"
#include "emulator/state/thread.h"
#include "capture.h"

/* ---- The thread ---- */

/* Takes the first item of the queue. */
static struct emu_item *pop_locked(struct CUstream_st *stream)
{
    struct emu_item *item = stream->first;
    stream->first = item->next;
    if (!stream->first)
        stream->last = &stream->first;
    item->next = NULL;
    return item;
}

bool emu__stream_runs(const struct CUstream_st *stream, const struct emu_work *work)
{
    return stream->current && stream->current->work == work;
}

struct emu_work *emu__stream_take_early(struct CUstream_st *stream)
{
    struct emu_work *work = NULL;
    pthread_mutex_lock(&stream->execution->lock);
    if (stream->first && stream->first->work->early) {
        struct emu_item **link = &stream->current->next;
        while (*link)
            link = &(*link)->next;
        *link = pop_locked(stream);
        work = (*link)->work;
    }
    pthread_mutex_unlock(&stream->execution->lock);
    return work;
}

static void release_items(struct emu_item *items)
{
    while (items) {
        struct emu_item *item = items;
        items = item->next;
        emu__work_release(item->work);
        free(item);
    }
}

static void *stream_thread(void *arg)
{
    struct CUstream_st *stream = arg;
    struct emu_execution *execution = stream->execution;
    emu__running = execution->device;
    pthread_mutex_lock(&execution->lock);
    for (;;) {
        while (!stream->first && !stream->destroyed)
            pthread_cond_wait(&stream->work_came, &execution->lock);
        if (!stream->first)
            break;
        struct emu_item *item = stream->current = pop_locked(stream);
        pthread_mutex_unlock(&execution->lock);
        if (item->work->always || emu__sticky(execution) == CUDA_SUCCESS)
            item->work->run(item->work, stream);
        pthread_mutex_lock(&execution->lock);
        stream->current = NULL;
        pthread_mutex_unlock(&execution->lock);
        /* Released before its end is visible, so that it holds no reference then. */
        release_items(item);
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

/* Makes the stream wait for the work that `on` got so far. */
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

static bool start_thread_locked(struct CUstream_st *stream)
{
    if (stream->has_thread)
        return true;
    stream->references++;
    emu__execution_retain_locked(stream->execution);
    stream->has_thread = emu__thread_start(stream_thread, stream);
    if (!stream->has_thread) {
        stream->references--;
        stream->execution->references--;
    }
    return stream->has_thread;
}

static CUresult push(struct CUstream_st *stream, struct emu_work *work)
{
    struct emu_item *item = item_create(work);
    pthread_mutex_lock(&stream->execution->lock);
    bool ok = item && start_thread_locked(stream) && push_order_locked(stream);
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
    return push(stream, work);
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
    CUresult result = emu__handle_check(EMU_HANDLE_STREAM, handle);
    if (result != CUDA_SUCCESS)
        return result;
    if (enqueue && handle->execution->device != current)
        return emu__rule(CUDA_ERROR_INVALID_HANDLE,
                         "the stream belongs to device %d, whose context is not the current one",
                         handle->execution->device->ordinal);
    *out = handle;
    return CUDA_SUCCESS;
}
