/*
 * During a capture the works of its streams are added to a list instead of running. The streams are
 * the branches of the graph. Each stream, and each event recorded in the capture, has a vector of
 * the work before it: seen[i] counts the works of the capture's i-th stream, plus one for joining
 * the capture. A capture succeeds if its first stream has seen all the others.
 */
#include "capture.h"

#include <stdlib.h>
#include <string.h>
#include "emulator/state/call.h"
#include "capture_state.h"

struct emu_captures emu__captures = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Thread_local int emu__capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* ---- Vectors of seen work ---- */

static uint64_t seen_of(const uint64_t *seen, unsigned nseen, unsigned i)
{
    return i < nseen ? seen[i] : 0;
}

static bool seen_grow(uint64_t **seen, unsigned *nseen, unsigned n)
{
    if (n <= *nseen)
        return true;
    uint64_t *grown = realloc(*seen, n * sizeof *grown);
    if (!grown)
        return false;
    memset(grown + *nseen, 0, (n - *nseen) * sizeof *grown);
    *seen = grown;
    *nseen = n;
    return true;
}

static bool seen_merge(struct emu_member *into, const uint64_t *seen, unsigned nseen)
{
    if (!seen_grow(&into->seen, &into->nseen, nseen))
        return false;
    for (unsigned i = 0; i < nseen; i++)
        if (seen[i] > into->seen[i])
            into->seen[i] = seen[i];
    return true;
}

/* ---- Captures, with the lock ---- */

static void release_locked(struct emu_capture *capture)
{
    if (--capture->references > 0)
        return;
    for (unsigned i = 0; i < capture->nmembers; i++)
        free(capture->members[i].seen);
    free(capture->members);
    if (capture->nodes)
        emu__nodes_release(capture->nodes);
    free(capture);
}

static bool join_locked(struct emu_capture *capture, struct CUstream_st *stream,
                        const uint64_t *seen, unsigned nseen)
{
    unsigned slot = capture->nmembers;
    struct emu_member *members = realloc(capture->members, (slot + 1) * sizeof *members);
    if (!members)
        return false;
    capture->members = members;
    members[slot] = (struct emu_member){.stream = stream};
    if (!seen_grow(&members[slot].seen, &members[slot].nseen, slot + 1) ||
        !seen_merge(&members[slot], seen, nseen)) {
        free(members[slot].seen);
        return false;
    }
    members[slot].seen[slot] = 1; /* a fork counts as work: it must be joined too */
    capture->nmembers++;
    stream->capture_slot = slot;
    atomic_store(&stream->capture, capture);
    return true;
}

static void end_locked(struct emu_capture *capture)
{
    for (unsigned i = 0; i < capture->nmembers; i++)
        if (capture->members[i].stream)
            atomic_store(&capture->members[i].stream->capture, NULL);
    struct emu_capture **link = &emu__captures.first;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    capture->active = false;
    atomic_fetch_sub(&emu__captures.count, 1);
    release_locked(capture);
}

static bool all_joined(const struct emu_capture *capture)
{
    const struct emu_member *origin = &capture->members[0];
    for (unsigned i = 1; i < capture->nmembers; i++)
        if (seen_of(origin->seen, origin->nseen, i) < capture->members[i].seen[i])
            return false;
    return true;
}

/* ---- Works and events ---- */

bool emu__capturing(struct CUstream_st *stream)
{
    return atomic_load(&stream->capture) != NULL;
}

void emu__capture_point_clear(struct emu_capture_point *point)
{
    if (!point->capture)
        return;
    pthread_mutex_lock(&emu__captures.lock);
    release_locked(point->capture);
    pthread_mutex_unlock(&emu__captures.lock);
    free(point->seen);
    *point = (struct emu_capture_point){0};
}

static bool add_locked(struct emu_capture *capture, unsigned slot, struct emu_work *work)
{
    struct emu_member *member = &capture->members[slot];
    if (!emu__nodes_add(capture->nodes, work, slot, member->seen, member->nseen))
        return false;
    member->seen[slot]++;
    return true;
}

CUresult emu__capture_add(struct CUstream_st *stream, struct emu_work *work)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&emu__captures.lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (!capture || capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!add_locked(capture, stream->capture_slot, work))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&emu__captures.lock);
    emu__work_release(work); /* the list has its own reference */
    return result;
}

CUresult emu__capture_record(struct CUstream_st *stream, struct emu_capture_point *point)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&emu__captures.lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (!capture || capture->invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        struct emu_member at = {0};
        const struct emu_member *member = &capture->members[stream->capture_slot];
        if (seen_merge(&at, member->seen, member->nseen)) {
            capture->references++;
            *point = (struct emu_capture_point){capture, at.seen, at.nseen};
        } else {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    pthread_mutex_unlock(&emu__captures.lock);
    return result;
}

static CUresult wait_locked(struct CUstream_st *stream, const struct emu_capture_point *point)
{
    struct emu_capture *own = atomic_load(&stream->capture), *other = point->capture;
    if (!other->active && own)
        return emu__capture_invalidate_locked(own, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                                              "waits in a capture for an event of an earlier one");
    if (!other->active)
        return emu__rule(CUDA_ERROR_CAPTURED_EVENT,
                         "waits for an event whose last record was in a capture");
    if (other->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream == stream->execution->legacy)
        return emu__capture_invalidate_locked(other, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                                              "the legacy stream waits for an event of a capture");
    if (own && own != other) {
        emu__capture_invalidate_locked(own, CUDA_ERROR_STREAM_CAPTURE_MERGE, "joins two captures");
        return emu__capture_invalidate_locked(other, CUDA_ERROR_STREAM_CAPTURE_MERGE,
                                              "joins two captures");
    }
    bool ok = own ? seen_merge(&own->members[stream->capture_slot], point->seen, point->nseen)
                  : join_locked(other, stream, point->seen, point->nseen);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult emu__capture_wait(struct CUstream_st *stream, const struct emu_capture_point *point)
{
    pthread_mutex_lock(&emu__captures.lock);
    CUresult result = wait_locked(stream, point);
    pthread_mutex_unlock(&emu__captures.lock);
    return result;
}

static void forget_locked(struct emu_capture *capture, struct CUstream_st *stream)
{
    emu__capture_invalidate_locked(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                   "destroys a stream that captures");
    bool origin = capture->members[0].stream == stream;
    atomic_store(&stream->capture, NULL);
    capture->members[stream->capture_slot].stream = NULL;
    if (origin)
        end_locked(capture);
}

void emu__capture_forget(struct CUstream_st *stream)
{
    pthread_mutex_lock(&emu__captures.lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (capture)
        forget_locked(capture, stream);
    pthread_mutex_unlock(&emu__captures.lock);
}

/* A stream of the execution that captures; NULL: none does. */
static struct CUstream_st *capturing_locked(const struct emu_execution *execution)
{
    for (const struct emu_capture *capture = emu__captures.first; capture; capture = capture->next)
        for (unsigned i = 0; i < capture->nmembers; i++) {
            struct CUstream_st *stream = capture->members[i].stream;
            if (stream && stream->execution == execution)
                return stream;
        }
    return NULL;
}

void emu__capture_close(const struct emu_execution *execution)
{
    struct CUstream_st *stream;
    pthread_mutex_lock(&emu__captures.lock);
    while ((stream = capturing_locked(execution)))
        forget_locked(atomic_load(&stream->capture), stream);
    pthread_mutex_unlock(&emu__captures.lock);
}

/* ---- Begin and end ---- */

static CUresult begin_locked(struct CUstream_st *stream, int mode)
{
    if (emu__capturing(stream))
        return emu__rule(CUDA_ERROR_ILLEGAL_STATE, "the stream captures already");
    struct emu_capture *capture = calloc(1, sizeof *capture);
    struct emu_nodes *nodes = emu__nodes_create();
    if (!capture || !nodes || !join_locked(capture, stream, NULL, 0)) {
        if (capture)
            free(capture->members);
        free(capture);
        if (nodes)
            emu__nodes_release(nodes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    capture->references = 1;
    capture->mode = mode;
    capture->id = ++emu__captures.last_id;
    capture->owner = &emu__capture_mode;
    capture->active = true;
    capture->nodes = nodes;
    capture->next = emu__captures.first;
    emu__captures.first = capture;
    atomic_fetch_add(&emu__captures.count, 1);
    return CUDA_SUCCESS;
}

CUresult emu__capture_begin(struct CUstream_st *stream, int mode)
{
    pthread_mutex_lock(&emu__captures.lock);
    CUresult result = begin_locked(stream, mode);
    pthread_mutex_unlock(&emu__captures.lock);
    return result;
}

static CUresult end_and_take_locked(struct CUstream_st *stream, struct emu_nodes **nodes)
{
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (!capture)
        return emu__rule(CUDA_ERROR_ILLEGAL_STATE, "the stream does not capture");
    if (capture->members[0].stream != stream)
        return emu__capture_invalidate_locked(
            capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
            "ends a capture on another stream than the one that began it");
    if (capture->owner != &emu__capture_mode && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return emu__rule(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                         "ends a capture on another thread than the one that began it");
    CUresult result = CUDA_SUCCESS;
    if (capture->invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!all_joined(capture)) {
        result = emu__rule(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                           "ends a capture with a stream that was not joined");
    } else {
        *nodes = capture->nodes;
        capture->nodes = NULL;
    }
    end_locked(capture);
    return result;
}

CUresult emu__capture_end(struct CUstream_st *stream, struct emu_nodes **nodes)
{
    *nodes = NULL;
    pthread_mutex_lock(&emu__captures.lock);
    CUresult result = end_and_take_locked(stream, nodes);
    pthread_mutex_unlock(&emu__captures.lock);
    return result;
}

int emu__capture_status(struct CUstream_st *stream, uint64_t *id)
{
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    pthread_mutex_lock(&emu__captures.lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (capture)
        status = capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                  : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (capture && id)
        *id = capture->id;
    pthread_mutex_unlock(&emu__captures.lock);
    return status;
}

int emu__capture_set_mode(int mode)
{
    int before = emu__capture_mode;
    emu__capture_mode = mode;
    return before;
}
