#include "retirement.h"

#include <stdlib.h>
#include "runtime/base/cond.h"
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/driver/driver.h"
#include "runtime/driver/watchdog.h"
#include "runtime/group/group.h"
#include "scales.h"
#include "windows.h"

enum { EXIT_WAIT_MS = 2000, ABORT_WAIT_MS = 2000, AGAIN_MS = 50, AGAIN = 1200 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t fewer;
static int nretiring;

static void init(void)
{
    symm__cond_init(&fewer);
}

void nccl__binding_abort(struct nccl_binding *b)
{
    b->aborted = true;
    symm_abort(b->eager, NCCL_ABORTED);
    symm_abort(b->captured, NCCL_ABORTED);
}

void nccl__binding_enter(struct nccl_binding *b)
{
    b->mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    b->driver->cuThreadExchangeStreamCaptureMode(&b->mode);
    b->driver->cuCtxGetCurrent(&b->before);
    if (b->context)
        b->driver->cuCtxSetCurrent(b->context);
}

void nccl__binding_leave(struct nccl_binding *b)
{
    b->driver->cuCtxSetCurrent(b->before);
    b->driver->cuThreadExchangeStreamCaptureMode(&b->mode);
}

/*
 * While a blocking stream of a rank captures, no rank may leave. All try as often, since each
 * attempt is a vote.
 */
static void leave_context(struct nccl_binding *b)
{
    const struct symm_log log = {.rank = b->rank};
    symm_status st = symm_context_destroy(b->symm);

    for (int i = 0; i < AGAIN && st == SYMM_ERROR_STATE && !symm__driver_forked(); i++) {
        symm__sleep_us(AGAIN_MS * 1000);
        st = symm_context_destroy(b->symm);
    }
    if (st == SYMM_ERROR_STATE)
        symm__log(&log, SYMM_LOG_WARNING, "the memory of a communicator is not freed: %s",
                  symm_error_text());
}

void nccl__binding_close(struct nccl_binding *b)
{
    nccl__binding_enter(b);
    nccl__windows_forget(b);
    nccl__scales_forget(b);
    leave_context(b);
    if (b->order)
        b->driver->cuEventDestroy(b->order);
    b->driver->cuCtxSetCurrent(b->before);
    if (b->context)
        b->driver->cuDevicePrimaryCtxRelease(b->device);
    nccl__binding_leave(b);
    symm__driver_close(b->driver);
}

static void quiesce(void *arg)
{
    struct nccl_binding *b = arg;

    nccl__binding_enter(b);
    symm__group_quiesce(b->eager);
    symm__group_quiesce(b->captured);
    nccl__binding_leave(b);
}

void nccl__retirement_begin(void)
{
    pthread_once(&once, init);
    pthread_mutex_lock(&lock);
    nretiring++;
    pthread_mutex_unlock(&lock);
}

void nccl__retirement_end(void)
{
    pthread_mutex_lock(&lock);
    nretiring--;
    pthread_cond_broadcast(&fewer);
    pthread_mutex_unlock(&lock);
}

static void leave(void *b)
{
    nccl__binding_close(b);
    free(b);
    nccl__retirement_end();
}

static void *leave_thread(void *b)
{
    leave(b);
    return NULL;
}

/* Returns false if they have not ended in time; then a thread waits for them, and leaves. */
static bool await_calls(struct nccl_binding *b)
{
    const symm_deadline deadline = symm__deadline_in(b->aborted ? ABORT_WAIT_MS : -1);
    const struct symm_log log = {.rank = b->rank};
    bool late = false;

    if (symm__watch(quiesce, leave, b, deadline, &late) != SYMM_OK && !b->aborted)
        quiesce(b); /* in this thread, without a limit */
    if (late)
        symm__log(&log, SYMM_LOG_WARNING,
                  "calls of an aborted communicator have not ended after %d ms: they wait for "
                  "other work on their streams",
                  ABORT_WAIT_MS);
    return !late;
}

void nccl__binding_retire(struct nccl_binding *b)
{
    pthread_t thread;

    if (!b)
        return;
    nccl__retirement_begin();
    if (!await_calls(b))
        return;
    if (symm__thread_start(&thread, "symm retire", leave_thread, b) == SYMM_OK)
        pthread_detach(thread);
    else
        leave(b);
}

/* At exit the other ranks may be about to destroy, too. */
__attribute__((destructor)) static void wait_for_retiring(void)
{
    const symm_deadline deadline = symm__deadline_in(EXIT_WAIT_MS);

    pthread_once(&once, init);
    pthread_mutex_lock(&lock);
    while (nretiring > 0 && symm__cond_wait(&fewer, &lock, deadline))
        ;
    pthread_mutex_unlock(&lock);
}
