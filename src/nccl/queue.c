#include "queue.h"

#include <stdlib.h>
#include "runtime/driver/driver.h"
#include "attach.h"
#include "error.h"

struct item {
    struct item *next;
    ncclComm_t *comm; /* a communicator; NULL: a call */
    struct nccl_call call;
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
    return add(&(struct item){.call = *call});
}

ncclResult_t nccl__queue_comm(ncclComm_t *comm)
{
    return add(&(struct item){.comm = comm});
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
        if (i->comm || i->call.comm != comm || i->call.stream == main)
            continue;
        result = b->driver->cuEventRecord(b->order, before ? i->call.stream : main);
        if (result == CUDA_SUCCESS)
            result = b->driver->cuStreamWaitEvent(before ? main : i->call.stream, b->order, 0);
    }
    return result;
}

/* The calls of one communicator, whose first one is given. */
static ncclResult_t run_calls(const struct item *begin)
{
    struct nccl_comm *comm = begin->call.comm;
    const CUstream main = begin->call.stream;
    ncclResult_t result = meet(comm, main, true) ? ncclUnhandledCudaError : ncclSuccess;

    for (const struct item *i = begin; i && result == ncclSuccess; i = i->next)
        if (!i->comm && i->call.comm == comm) {
            struct nccl_call call = i->call;
            call.stream = main;
            result = nccl__take(&call);
        }
    if (result == ncclSuccess && meet(comm, main, false))
        result = ncclUnhandledCudaError;
    return result;
}

static bool comes_first(const struct item *item)
{
    const struct item *i = first;

    while (i->comm || i->call.comm != item->call.comm)
        i = i->next;
    return i == item;
}

ncclResult_t nccl__queue_run(bool wait)
{
    ncclResult_t result = ncclSuccess;

    for (const struct item *i = first; i; i = i->next)
        if (i->comm)
            nccl__attach(*i->comm);
    for (const struct item *i = first; i && wait; i = i->next)
        if (i->comm && nccl__attach_wait(*i->comm) != ncclSuccess) {
            *i->comm = NULL;
            result = ncclSystemError;
        }
    for (const struct item *i = first; i && result == ncclSuccess; i = i->next)
        if (!i->comm && comes_first(i))
            result = run_calls(i);
    nccl__queue_drop();
    return result;
}
