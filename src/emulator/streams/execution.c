/*
 * An execution exists from the first use of a device's context to its end, and as long as a thread
 * works for it. So do its streams.
 */
#include "execution.h"

#include <stdlib.h>
#include "emulator/state/clock.h"

/* ---- Work ---- */

void emu__work_retain(struct emu_work *work)
{
    atomic_fetch_add(&work->references, 1);
}

void emu__work_release(struct emu_work *work)
{
    if (atomic_fetch_sub(&work->references, 1) == 1)
        work->destroy(work);
}

/* ---- Streams and executions ---- */

static pthread_mutex_t executions_lock = PTHREAD_MUTEX_INITIALIZER;

struct CUstream_st *emu__stream_create(struct emu_execution *execution, unsigned flags)
{
    struct CUstream_st *stream = calloc(1, sizeof *stream);
    if (!stream)
        return NULL;
    stream->execution = execution;
    stream->flags = flags;
    stream->references = 1;
    stream->last = &stream->first;
    stream->oldest = UINT64_MAX;
    pthread_cond_init(&stream->work_came, NULL);
    return stream;
}

void emu__stream_link_locked(struct CUstream_st *stream)
{
    struct emu_execution *execution = stream->execution;
    stream->next = execution->streams;
    execution->streams = stream;
    emu__execution_retain_locked(execution);
}

static struct emu_execution *execution_create(struct emu_device *device)
{
    struct emu_execution *execution = calloc(1, sizeof *execution);
    if (!execution)
        return NULL;
    execution->sms = emu__sms_create(device);
    execution->legacy = execution->sms ? emu__stream_create(execution, CU_STREAM_DEFAULT) : NULL;
    if (!execution->legacy) {
        if (execution->sms)
            emu__sms_release(execution->sms);
        free(execution);
        return NULL;
    }
    execution->device = device;
    execution->references = 1;
    pthread_mutex_init(&execution->lock, NULL);
    emu__cond_init(&execution->work_done);
    emu__stream_link_locked(execution->legacy);
    return execution;
}

struct emu_execution *emu__execution(struct emu_device *device)
{
    pthread_mutex_lock(&executions_lock);
    if (!device->execution)
        device->execution = execution_create(device);
    struct emu_execution *execution = device->execution;
    pthread_mutex_unlock(&executions_lock);
    return execution;
}

void emu__execution_retain_locked(struct emu_execution *execution)
{
    execution->references++;
}

void emu__execution_release_unlock(struct emu_execution *execution)
{
    bool last = --execution->references == 0;
    pthread_mutex_unlock(&execution->lock);
    if (!last)
        return;
    emu__sms_release(execution->sms);
    pthread_cond_destroy(&execution->work_done);
    pthread_mutex_destroy(&execution->lock);
    free(execution);
}

void emu__stream_release_locked(struct CUstream_st *stream)
{
    struct emu_execution *execution = stream->execution;
    if (--stream->references > 0)
        return;
    struct CUstream_st **link = &execution->streams;
    while (*link != stream)
        link = &(*link)->next;
    *link = stream->next;
    execution->references--; /* the caller holds another */
    pthread_cond_destroy(&stream->work_came);
    free(stream);
}

void emu__stream_end_locked(struct CUstream_st *stream)
{
    stream->destroyed = true;
    pthread_cond_signal(&stream->work_came);
    emu__stream_release_locked(stream);
}

bool emu__stream_busy_locked(const struct CUstream_st *stream, uint64_t ticket)
{
    const struct emu_execution *execution = stream->execution;
    if (stream != execution->legacy)
        return stream->oldest <= ticket;
    for (const struct CUstream_st *s = execution->streams; s; s = s->next)
        if (!(s->flags & CU_STREAM_NON_BLOCKING) && s->oldest <= ticket)
            return true;
    return false;
}

static bool execution_busy_locked(const struct emu_execution *execution, uint64_t ticket)
{
    for (const struct CUstream_st *s = execution->streams; s; s = s->next)
        if (s->oldest <= ticket)
            return true;
    return false;
}

void emu__stream_wait(struct CUstream_st *stream)
{
    struct emu_execution *execution = stream->execution;
    pthread_mutex_lock(&execution->lock);
    uint64_t ticket = execution->tickets;
    stream->references++;
    while (emu__stream_busy_locked(stream, ticket))
        pthread_cond_wait(&execution->work_done, &execution->lock);
    emu__execution_retain_locked(execution);
    emu__stream_release_locked(stream);
    emu__execution_release_unlock(execution);
}

/* Waits. Called with the lock, which it releases at the end. until: NULL waits forever. */
static bool execution_wait_unlock(struct emu_execution *execution, const struct timespec *until)
{
    emu__execution_retain_locked(execution);
    uint64_t ticket = execution->tickets;
    bool busy = execution_busy_locked(execution, ticket), late = false;
    while (busy && !late) {
        if (until)
            late = pthread_cond_timedwait(&execution->work_done, &execution->lock, until) != 0;
        else
            pthread_cond_wait(&execution->work_done, &execution->lock);
        busy = execution_busy_locked(execution, ticket);
    }
    emu__execution_release_unlock(execution);
    return !busy;
}

void emu__execution_wait(struct emu_execution *execution)
{
    pthread_mutex_lock(&execution->lock);
    execution_wait_unlock(execution, NULL);
}

bool emu__execution_wait_ms(struct emu_execution *execution, int ms)
{
    struct timespec until = emu__in_ms(ms);
    pthread_mutex_lock(&execution->lock);
    return execution_wait_unlock(execution, &until);
}

struct emu_execution *emu__execution_detach(struct emu_device *device)
{
    pthread_mutex_lock(&executions_lock);
    struct emu_execution *execution = device->execution;
    device->execution = NULL;
    pthread_mutex_unlock(&executions_lock);
    return execution;
}

static bool item_uses(const struct emu_item *item, const struct CUmod_st *module)
{
    return item->work->uses && item->work->uses(item->work, module);
}

bool emu__execution_uses(struct emu_execution *execution, const struct CUmod_st *module)
{
    bool uses = false;
    pthread_mutex_lock(&execution->lock);
    for (struct CUstream_st *s = execution->streams; s && !uses; s = s->next) {
        for (struct emu_item *item = s->current; item && !uses; item = item->next)
            uses = item_uses(item, module);
        for (struct emu_item *item = s->first; item && !uses; item = item->next)
            uses = item_uses(item, module);
    }
    pthread_mutex_unlock(&execution->lock);
    return uses;
}

void emu__streams_drain(struct emu_device *device)
{
    pthread_mutex_lock(&executions_lock);
    struct emu_execution *execution = device->execution;
    if (execution) /* another thread may close it */
        pthread_mutex_lock(&execution->lock);
    pthread_mutex_unlock(&executions_lock);
    if (execution)
        execution_wait_unlock(execution, NULL);
}
