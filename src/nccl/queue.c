#include "queue.h"

#include <stdlib.h>
#include "runtime/driver/driver.h"
#include "children.h"
#include "error.h"

struct item {
    struct item *next;
    enum { COMM, WINDOW, CALL } kind;
    union {
        struct nccl_comm_request comm;
        struct nccl_window_request window;
        struct nccl_call call;
    };
};

static _Thread_local int depth;
static _Thread_local struct item *first, **last;

int nccl__group_depth(void)
{
    return depth;
}

void nccl__group_enter(void)
{
    depth++;
}

bool nccl__group_leave(void)
{
    return --depth == 0;
}

static ncclResult_t add(const struct item *item)
{
    struct item *copy = malloc(sizeof *copy);

    if (!copy)
        return ncclSystemError;
    *copy = *item;
    copy->next = NULL;
    if (!first)
        last = &first;
    *last = copy;
    last = &copy->next;
    return ncclSuccess;
}

ncclResult_t nccl__queue_call(const struct nccl_call *call)
{
    return add(&(struct item){.kind = CALL, .call = *call});
}

ncclResult_t nccl__queue_comm(const struct nccl_comm_request *comm)
{
    return add(&(struct item){.kind = COMM, .comm = *comm});
}

ncclResult_t nccl__queue_window(const struct nccl_window_request *window)
{
    return add(&(struct item){.kind = WINDOW, .window = *window});
}

/* The communicator of a call or of a window. */
static struct nccl_comm *comm_of(const struct item *item)
{
    return item->kind == WINDOW ? item->window.comm : item->call.comm;
}

static bool is_of(const struct item *item, ncclComm_t real)
{
    return item->kind == COMM ? item->comm.parent == real
                              : atomic_load(&comm_of(item)->real) == real;
}

void nccl__queue_forget(ncclComm_t real)
{
    struct item **at = &first;

    if (!real)
        return;
    while (*at) {
        struct item *item = *at;
        if (!is_of(item, real)) {
            at = &item->next;
            continue;
        }
        *at = item->next;
        free(item);
    }
    last = at;
}

void nccl__queue_drop(void)
{
    while (first) {
        struct item *item = first;
        first = item->next;
        free(item);
    }
}

/* Orders the streams of a communicator's calls, by an event, before the calls or after them. */
static CUresult meet(struct nccl_comm *comm, CUstream main, bool before)
{
    const struct nccl_binding *b = comm->binding;
    CUresult result = CUDA_SUCCESS;

    for (const struct item *i = first; i && result == CUDA_SUCCESS; i = i->next) {
        if (i->kind != CALL || i->call.comm != comm || i->call.stream == main)
            continue;
        result = b->driver->cuEventRecord(b->order, before ? i->call.stream : main);
        if (result == CUDA_SUCCESS)
            result = b->driver->cuStreamWaitEvent(before ? main : i->call.stream, b->order, 0);
    }
    return result;
}

/* As meet(), in the communicator's context: a stream may be the NULL stream. */
static ncclResult_t meet_there(struct nccl_comm *comm, CUstream main, bool before)
{
    const struct nccl_binding *b = comm->binding;
    CUcontext current = NULL;

    b->driver->cuCtxGetCurrent(&current);
    b->driver->cuCtxSetCurrent(b->context);
    const CUresult cu = meet(comm, main, before);
    b->driver->cuCtxSetCurrent(current);
    return cu == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

/* The calls of one communicator, whose first one is given. */
static ncclResult_t run_calls(const struct item *begin)
{
    struct nccl_comm *comm = begin->call.comm;
    const CUstream main = begin->call.stream;
    nccl__comm_settle(comm); /* its windows may still be mapped */
    ncclResult_t result = meet_there(comm, main, true);

    for (const struct item *i = begin; i && result == ncclSuccess; i = i->next)
        if (i->kind == CALL && i->call.comm == comm) {
            struct nccl_call call = i->call;
            call.stream = main;
            result = nccl__take(&call);
        }
    return result == ncclSuccess ? meet_there(comm, main, false) : result;
}

static bool comes_first(const struct item *item)
{
    const struct item *i = first;

    while (i->kind != item->kind || comm_of(i) != comm_of(item))
        i = i->next;
    return i == item;
}

static ncclResult_t attach_comms(void)
{
    ncclResult_t result = ncclSuccess;

    for (const struct item *i = first; i; i = i->next)
        if (i->kind == COMM && !i->comm.parent)
            nccl__attach(*i->comm.place, i->comm.blocking);
        else if (i->kind == COMM && nccl__children_add(&i->comm))
            result = ncclSystemError;
    for (const struct item *i = first; i; i = i->next)
        if (i->kind == COMM && i->comm.waits && nccl__attach_wait(*i->comm.place) != ncclSuccess) {
            *i->comm.place = NULL;
            result = ncclSystemError;
        }
    return result;
}

/* The windows of one communicator, whose first one is given, in their order. */
static void begin_windows(const struct item *begin)
{
    struct nccl_comm *comm = comm_of(begin);
    int n = 0;

    for (const struct item *i = begin; i; i = i->next)
        n += i->kind == WINDOW && comm_of(i) == comm;
    struct nccl_window_request *requests = calloc((size_t)n, sizeof *requests);
    n = 0;
    for (const struct item *i = begin; i && requests; i = i->next)
        if (i->kind == WINDOW && comm_of(i) == comm)
            requests[n++] = i->window;
    nccl__windows_add(comm, requests, n);
    free(requests);
}

static void map_windows(void)
{
    for (const struct item *i = first; i; i = i->next)
        if (i->kind == WINDOW && comes_first(i))
            begin_windows(i);
    for (const struct item *i = first; i; i = i->next)
        if (i->kind == WINDOW && comm_of(i)->blocking)
            nccl__comm_settle(comm_of(i));
}

ncclResult_t nccl__queue_run(void)
{
    ncclResult_t result = attach_comms();

    map_windows();
    for (const struct item *i = first; i && result == ncclSuccess; i = i->next)
        if (i->kind == CALL && comes_first(i))
            result = run_calls(i);
    nccl__queue_drop();
    return result;
}
