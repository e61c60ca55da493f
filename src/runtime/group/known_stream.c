/* A list of counted records. A record stays while its stream or a group that holds it stays. */
#include "known_stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "capture.h"

struct symm_known_stream {
    struct symm_known_stream *next;
    CUstream handle;
    CUevent end;
    int holders;          /* guarded by the list's lock */
    pthread_mutex_t lock; /* held while the driver records `end`, so that the stream stays */
    atomic_bool gone;     /* the stream is destroyed */
};

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* never held during a driver call */
static struct symm_known_stream *list;                        /* of streams that exist */

symm_status symm__known_stream_add(const struct symm_driver *drv, CUstream stream)
{
    struct symm_known_stream *known = calloc(1, sizeof *known);
    symm_status st = SYMM_OK;

    if (!known)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    TRY_CU(drv, cuEventCreate, &known->end, CU_EVENT_DISABLE_TIMING);
    known->handle = stream;
    known->holders = 1;
    pthread_mutex_init(&known->lock, NULL);
    symm__known_stream_remove(NULL, stream); /* an older stream, which ended with its context */
    pthread_mutex_lock(&list_lock);
    known->next = list;
    list = known;
    pthread_mutex_unlock(&list_lock);
    return SYMM_OK;
out:
    free(known);
    return st;
}

/* Lock held. The link to the stream's record, or to the end of the list. */
static struct symm_known_stream **find(CUstream stream)
{
    struct symm_known_stream **at = &list;

    while (*at && (*at)->handle != stream)
        at = &(*at)->next;
    return at;
}

struct symm_known_stream *symm__known_stream_hold(CUstream stream)
{
    struct symm_known_stream *known;

    pthread_mutex_lock(&list_lock);
    known = *find(stream);
    if (known)
        known->holders++;
    pthread_mutex_unlock(&list_lock);
    return known;
}

void symm__known_stream_let_go(const struct symm_driver *drv, struct symm_known_stream *known)
{
    bool last;

    if (!known)
        return;
    pthread_mutex_lock(&list_lock);
    last = --known->holders == 0;
    pthread_mutex_unlock(&list_lock);
    if (!last)
        return;
    if (drv)
        drv->cuEventDestroy(known->end);
    pthread_mutex_destroy(&known->lock);
    free(known);
}

/* Lock held. Records the end of the stream unless it is being captured: *capturing. */
static CUresult record_end(const struct symm_driver *drv, struct symm_known_stream *known,
                           bool *capturing)
{
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUresult cu = drv->cuStreamIsCapturing(known->handle, &status);

    *capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
    return cu != CUDA_SUCCESS || *capturing ? cu : drv->cuEventRecord(known->end, known->handle);
}

/* Whether more than `few` hold the record. */
static bool is_held(struct symm_known_stream *known, int few)
{
    bool held;

    pthread_mutex_lock(&list_lock);
    held = known->holders > few;
    pthread_mutex_unlock(&list_lock);
    return held;
}

void symm__known_stream_remove(const struct symm_driver *drv, CUstream stream)
{
    struct symm_known_stream **at, *known;
    bool capturing;

    pthread_mutex_lock(&list_lock);
    at = find(stream);
    known = *at;
    if (known)
        *at = known->next;
    pthread_mutex_unlock(&list_lock);
    if (!known)
        return;
    pthread_mutex_lock(&known->lock);
    if (drv && is_held(known, 1) && record_end(drv, known, &capturing) != CUDA_SUCCESS)
        drv->cuStreamSynchronize(stream); /* so no later work need wait for it */
    atomic_store(&known->gone, true);
    pthread_mutex_unlock(&known->lock);
    symm__known_stream_let_go(drv, known);
}

symm_status symm__known_stream_before_capture(const struct symm_driver *drv, CUstream stream)
{
    struct symm_known_stream *known = symm__known_stream_hold(stream);
    CUevent end;
    symm_status st = SYMM_OK;

    if (known && is_held(known, 2)) /* beside the stream and this function */
        st = symm__known_stream_end(drv, known, &end);
    symm__known_stream_let_go(drv, known);
    return st;
}

bool symm__known_stream_is(const struct symm_known_stream *known, CUstream stream)
{
    return known && known->handle == stream && !atomic_load(&known->gone);
}

symm_status symm__known_stream_end(const struct symm_driver *drv, struct symm_known_stream *known,
                                   CUevent *out)
{
    bool capturing = false;
    CUresult cu = CUDA_SUCCESS;

    pthread_mutex_lock(&known->lock);
    if (!atomic_load(&known->gone))
        cu = record_end(drv, known, &capturing);
    pthread_mutex_unlock(&known->lock);
    if (cu != CUDA_SUCCESS)
        return symm__driver_fail(drv, cu, "cuEventRecord");
    if (capturing && !symm__capture_is_listed(known->handle))
        return symm__fail(SYMM_ERROR_STATE, "the stream of the group's last call is being captured "
                                            "by other code than symm_graph_begin()");
    *out = known->end;
    return SYMM_OK;
}
