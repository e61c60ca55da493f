/*
 * Stream capture: instead of running, the work of the streams that take part is noted in a list.
 * Which of it each stream, and each event recorded on the way, has behind it is kept as a vector:
 * seen[i] counts the works of the capture's i-th stream, and its becoming part of the capture. The
 * streams are the branches of the graph. A capture ends well if its first stream has seen all of
 * the others.
 */
#include <stdlib.h>
#include <string.h>
#include "emulator/streams/execution.h"

struct member {
    struct CUstream_st *stream; /* NULL: destroyed meanwhile */
    uint64_t *seen;
    unsigned nseen;
};

struct emu_capture {
    struct emu_capture *next;
    unsigned references; /* the list of active ones, events */
    int mode;
    const void *owner; /* the thread that began it */
    bool active, invalid;
    struct emu_nodes *nodes;
    struct member *members; /* the first began the capture */
    unsigned nmembers;
};

/* Everything about captures; taken before the lock of an execution. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_capture *captures;
static atomic_int ncaptures; /* so that calls need no lock while there are none */

static _Thread_local int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static const void *this_thread(void)
{
    return &thread_mode;
}

/* ---- What has been seen ---- */

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

static bool seen_merge(struct member *into, const uint64_t *seen, unsigned nseen)
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
    struct member *members = realloc(capture->members, (slot + 1) * sizeof *members);
    if (!members)
        return false;
    capture->members = members;
    members[slot] = (struct member){.stream = stream};
    if (!seen_grow(&members[slot].seen, &members[slot].nseen, slot + 1) ||
        !seen_merge(&members[slot], seen, nseen)) {
        free(members[slot].seen);
        return false;
    }
    members[slot].seen[slot] = 1; /* having been forked counts as work: it must be joined too */
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
    struct emu_capture **link = &captures;
    while (*link != capture)
        link = &(*link)->next;
    *link = capture->next;
    capture->active = false;
    atomic_fetch_sub(&ncaptures, 1);
    release_locked(capture);
}

static bool all_joined(const struct emu_capture *capture)
{
    const struct member *origin = &capture->members[0];
    for (unsigned i = 1; i < capture->nmembers; i++)
        if (seen_of(origin->seen, origin->nseen, i) < capture->members[i].seen[i])
            return false;
    return true;
}

static CUresult invalidate_locked(struct emu_capture *capture, CUresult error, const char *what)
{
    capture->invalid = true;
    return emu__rule(error, "%s; the capture is invalid now", what);
}

/* ---- For the other files ---- */

bool emu__capturing(struct CUstream_st *stream)
{
    return atomic_load(&stream->capture) != NULL;
}

void emu__capture_point_clear(struct emu_capture_point *point)
{
    if (!point->capture)
        return;
    pthread_mutex_lock(&lock);
    release_locked(point->capture);
    pthread_mutex_unlock(&lock);
    free(point->seen);
    *point = (struct emu_capture_point){0};
}

static bool add_locked(struct emu_capture *capture, unsigned slot, struct emu_work *work)
{
    struct member *member = &capture->members[slot];
    if (!emu__nodes_add(capture->nodes, work, slot, member->seen, member->nseen))
        return false;
    member->seen[slot]++;
    return true;
}

CUresult emu__capture_add(struct CUstream_st *stream, struct emu_work *work)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (!capture || capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!add_locked(capture, stream->capture_slot, work))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&lock);
    emu__work_release(work); /* the list has a reference of its own */
    return result;
}

CUresult emu__capture_record(struct CUstream_st *stream, struct emu_capture_point *point)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (!capture || capture->invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        struct member at = {0};
        const struct member *member = &capture->members[stream->capture_slot];
        if (seen_merge(&at, member->seen, member->nseen)) {
            capture->references++;
            *point = (struct emu_capture_point){capture, at.seen, at.nseen};
        } else {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static CUresult wait_locked(struct CUstream_st *stream, const struct emu_capture_point *point)
{
    struct emu_capture *own = atomic_load(&stream->capture), *other = point->capture;
    if (!other->active && own)
        return invalidate_locked(own, CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                                 "waits in a capture for an event of an earlier one");
    if (!other->active)
        return emu__rule(CUDA_ERROR_CAPTURED_EVENT,
                         "waits for an event whose last record was in a capture");
    if (other->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream == stream->execution->legacy)
        return invalidate_locked(other, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                                 "the legacy stream waits for an event of a capture");
    if (own && own != other) {
        invalidate_locked(own, CUDA_ERROR_STREAM_CAPTURE_MERGE, "joins two captures");
        return invalidate_locked(other, CUDA_ERROR_STREAM_CAPTURE_MERGE, "joins two captures");
    }
    bool ok = own ? seen_merge(&own->members[stream->capture_slot], point->seen, point->nseen)
                  : join_locked(other, stream, point->seen, point->nseen);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult emu__capture_wait(struct CUstream_st *stream, const struct emu_capture_point *point)
{
    pthread_mutex_lock(&lock);
    CUresult result = wait_locked(stream, point);
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult emu__capture_isolation(struct CUstream_st *stream)
{
    pthread_mutex_lock(&lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    CUresult result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    if (capture)
        invalidate_locked(capture, result,
                          "waits in a capture for an event recorded outside of it");
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult emu__capture_refuse(struct emu_capture *capture, CUresult error, const char *what)
{
    pthread_mutex_lock(&lock);
    if (capture->active)
        invalidate_locked(capture, error, what);
    else
        emu__rule(error, "%s", what);
    pthread_mutex_unlock(&lock);
    return error;
}

CUresult emu__capture_refuse_stream(struct CUstream_st *stream, const char *what)
{
    pthread_mutex_lock(&lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (capture)
        invalidate_locked(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, what);
    pthread_mutex_unlock(&lock);
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
    if (atomic_load(&ncaptures) == 0)
        return result;
    pthread_mutex_lock(&lock);
    for (struct emu_capture *capture = captures; capture; capture = capture->next) {
        if (!involves(capture, execution, true))
            continue;
        result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        if (invalidate)
            invalidate_locked(capture, result,
                              "uses the legacy stream while a blocking one captures");
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult emu__capture_refuse_device(struct emu_execution *execution, const char *what)
{
    CUresult result = CUDA_SUCCESS;
    if (atomic_load(&ncaptures) == 0)
        return result;
    pthread_mutex_lock(&lock);
    for (struct emu_capture *capture = captures; capture; capture = capture->next)
        if (involves(capture, execution, false))
            result = invalidate_locked(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, what);
    pthread_mutex_unlock(&lock);
    return result;
}

/* Whether the capture forbids unsafe calls to this thread (cuThreadExchangeStreamCaptureMode). */
static bool forbids(const struct emu_capture *capture)
{
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (capture->owner == this_thread())
        return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult emu__capture_forbids(void)
{
    CUresult result = CUDA_SUCCESS;
    if (atomic_load(&ncaptures) == 0)
        return result;
    pthread_mutex_lock(&lock);
    for (struct emu_capture *capture = captures; capture; capture = capture->next)
        if (forbids(capture))
            result = invalidate_locked(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                                       "a call that may not happen during a capture");
    pthread_mutex_unlock(&lock);
    return result;
}

static void forget_locked(struct emu_capture *capture, struct CUstream_st *stream)
{
    invalidate_locked(capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                      "destroys a stream that captures");
    bool origin = capture->members[0].stream == stream;
    atomic_store(&stream->capture, NULL);
    capture->members[stream->capture_slot].stream = NULL;
    if (origin)
        end_locked(capture);
}

void emu__capture_forget(struct CUstream_st *stream)
{
    pthread_mutex_lock(&lock);
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (capture)
        forget_locked(capture, stream);
    pthread_mutex_unlock(&lock);
}

/* A stream of the execution that captures; NULL: none does. */
static struct CUstream_st *capturing_locked(const struct emu_execution *execution)
{
    for (const struct emu_capture *capture = captures; capture; capture = capture->next)
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
    pthread_mutex_lock(&lock);
    while ((stream = capturing_locked(execution)))
        forget_locked(atomic_load(&stream->capture), stream);
    pthread_mutex_unlock(&lock);
}

/* ---- Entries ---- */

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
    capture->owner = this_thread();
    capture->active = true;
    capture->nodes = nodes;
    capture->next = captures;
    captures = capture;
    atomic_fetch_add(&ncaptures, 1);
    return CUDA_SUCCESS;
}

CUresult emu_cuStreamBeginCapture(CUstream stream, int mode)
{
    EMU_BEGIN_HEALTHY("stream=%p mode=%d", (void *)stream, mode);
    struct CUstream_st *s;
    CUresult result =
        mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED
            ? emu__stream_get(stream, true, &s)
            : emu__rule(CUDA_ERROR_INVALID_VALUE, "mode %d is unknown", mode);
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    if (s == s->execution->legacy)
        return EMU_END(
            emu__rule(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy stream cannot capture"));
    pthread_mutex_lock(&lock);
    result = begin_locked(s, mode);
    pthread_mutex_unlock(&lock);
    return EMU_END(result);
}

static CUresult finish_locked(struct CUstream_st *stream, CUgraph *graph)
{
    struct emu_capture *capture = atomic_load(&stream->capture);
    if (!capture)
        return emu__rule(CUDA_ERROR_ILLEGAL_STATE, "the stream does not capture");
    if (capture->members[0].stream != stream)
        return invalidate_locked(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                                 "ends a capture on another stream than the one that began it");
    if (capture->owner != this_thread() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return emu__rule(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                         "ends a capture on another thread than the one that began it");
    CUresult result = CUDA_SUCCESS;
    if (capture->invalid) {
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (!all_joined(capture)) {
        result = emu__rule(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                           "ends a capture with a stream that was not joined");
    } else {
        *graph = emu__graph_create(capture->nodes);
        capture->nodes = NULL;
        result = *graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    end_locked(capture);
    return result;
}

CUresult emu_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    EMU_BEGIN("stream=%p", (void *)stream);
    EMU_NOT_NULL(graph);
    struct CUstream_st *s;
    CUresult result = emu__stream_get(stream, false, &s);
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    *graph = NULL;
    pthread_mutex_lock(&lock);
    result = finish_locked(s, graph);
    pthread_mutex_unlock(&lock);
    return EMU_END(result);
}

CUresult emu_cuStreamIsCapturing(CUstream stream, int *status)
{
    EMU_BEGIN("stream=%p", (void *)stream);
    EMU_NOT_NULL(status);
    struct CUstream_st *s;
    CUresult result = emu__stream_get(stream, false, &s);
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (s == s->execution->legacy)
        return EMU_END(emu__capture_implicit(s->execution, false));
    pthread_mutex_lock(&lock);
    struct emu_capture *capture = atomic_load(&s->capture);
    if (capture)
        *status = capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    pthread_mutex_unlock(&lock);
    return EMU_END(result);
}

CUresult emu_cuThreadExchangeStreamCaptureMode(int *mode)
{
    EMU_BEGIN("mode=%d", mode ? *mode : -1);
    EMU_NOT_NULL(mode);
    if (*mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "mode %d is unknown", *mode));
    int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return EMU_END(CUDA_SUCCESS);
}
