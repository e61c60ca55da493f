/*
 * The windows of a communicator, in a list: few, and looked up for large calls only. Only one
 * thread at a time uses a communicator, as NCCL demands.
 */
#include "windows.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "runtime/base/log.h"
#include "runtime/base/thread.h"
#include "runtime/driver/driver.h"
#include "runtime/group/group.h"
#include "real.h"
#include "retirement.h"

enum { POLL_US = 1000 };

struct nccl_window {
    struct nccl_window *next;
    ncclWindow_t real;
    uintptr_t start; /* the program's address */
    size_t nbytes;
    char *symmetric; /* symm's */
};

/* --------------------------------------------------------------------------------- registering */

struct work {
    struct nccl_comm *comm;
    int n;
    struct nccl_window_request requests[];
};

/* Waits for a nonblocking communicator. A failure, of which it tells, leaves *window NULL. */
static void await_real(struct nccl_comm *comm)
{
    ncclResult_t state = ncclInProgress;

    while (!atomic_load(&comm->aborting) && state == ncclInProgress) {
        const ncclResult_t result =
            NCCL_REAL(ncclCommGetAsyncError, (atomic_load(&comm->real), &state));
        state = result == ncclSuccess ? state : result;
        if (state == ncclInProgress)
            usleep(POLL_US);
    }
    atomic_store(&comm->error, state == ncclInProgress ? ncclSuccess : state);
}

/* A rank without a window or without memory refuses it for all. */
static void add(struct nccl_binding *b, const struct nccl_window_request *request)
{
    struct nccl_window *w = *request->window ? calloc(1, sizeof *w) : NULL;
    const struct symm_log log = {.rank = b->rank};
    void *symmetric = NULL;

    if (symm_register(b->eager, w ? request->ptr : NULL, request->nbytes, &symmetric) == SYMM_OK) {
        *w = (struct nccl_window){b->windows, *request->window, (uintptr_t)request->ptr,
                                  request->nbytes, symmetric};
        b->windows = w;
        return;
    }
    free(w);
    symm__log(&log, SYMM_LOG_WARNING, "a window of %zu bytes counts as plain memory: %s",
              request->nbytes, symm_error_text());
}

static void *run(void *arg)
{
    struct work *work = arg;
    struct nccl_comm *comm = work->comm;
    struct nccl_binding *b = comm->binding;

    nccl__binding_enter(b);
    await_real(comm);
    for (int i = 0; i < work->n; i++)
        add(b, &work->requests[i]);
    nccl__binding_leave(b);
    free(work);
    nccl__comm_end_attach(comm, b);
    return NULL;
}

void nccl__windows_add(struct nccl_comm *comm, const struct nccl_window_request *requests, int n)
{
    struct work *work = NULL;
    pthread_t thread;
    bool runs = false;

    if (!nccl__comm_settle(comm))
        return;
    work = requests ? calloc(1, sizeof *work + (size_t)n * sizeof *requests) : NULL;
    atomic_store(&comm->error, ncclSuccess);
    atomic_store(&comm->state, NCCL_COMM_ATTACHING);
    if (work) {
        work->comm = comm;
        work->n = n;
        memcpy(work->requests, requests, (size_t)n * sizeof *requests);
        runs = symm__thread_start(&thread, "symm windows", run, work) == SYMM_OK;
    }
    if (runs) {
        pthread_detach(thread);
        return;
    }
    symm_abort(comm->binding->eager, "out of memory for a window"); /* the other ranks wait */
    nccl__comm_end_attach(comm, comm->binding);
    free(work);
}

void nccl__windows_remove(struct nccl_comm *comm, ncclWindow_t real)
{
    struct nccl_binding *b = nccl__comm_settle(comm) ? comm->binding : NULL;
    struct nccl_window **at = b ? &b->windows : NULL, *w;
    CUcontext before = NULL;

    while (at && *at && (*at)->real != real)
        at = &(*at)->next;
    if (!at || !*at)
        return;
    w = *at;
    *at = w->next;
    b->driver->cuCtxGetCurrent(&before);
    b->driver->cuCtxSetCurrent(b->context);
    symm__group_quiesce(b->eager);
    symm__group_quiesce(b->captured);
    symm_free(b->eager, w->symmetric);
    b->driver->cuCtxSetCurrent(before);
    free(w);
}

void nccl__windows_forget(struct nccl_binding *b)
{
    while (b->windows) {
        struct nccl_window *w = b->windows;
        b->windows = w->next;
        free(w);
    }
}

/* ---------------------------------------------------------------------------------- looking up */

static bool has(const struct nccl_window *w, const void *ptr, size_t nbytes)
{
    const size_t at = (uintptr_t)ptr - w->start;

    return at < w->nbytes && nbytes <= w->nbytes - at;
}

static const struct nccl_window *find(const struct nccl_binding *b, const void *ptr, size_t nbytes)
{
    const struct nccl_window *w = b->windows;

    while (w && !has(w, ptr, nbytes))
        w = w->next;
    return w;
}

bool nccl__windows_have(const struct nccl_binding *b, const void *ptr, size_t nbytes)
{
    return find(b, ptr, nbytes) != NULL;
}

/* Buffers in place stay so, even if several windows have them. */
void nccl__windows_translate(const struct nccl_binding *b, const void **in, size_t in_nbytes,
                             void **out, size_t out_nbytes)
{
    const struct nccl_window *w = find(b, *out, out_nbytes),
                             *v = w && has(w, *in, in_nbytes) ? w : find(b, *in, in_nbytes);

    if (w)
        *out = w->symmetric + ((uintptr_t)*out - w->start);
    if (v)
        *in = v->symmetric + ((uintptr_t)*in - v->start);
}
