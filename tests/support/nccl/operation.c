#include "operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "settings.h"
#include "values.h"

/* The operations of one host function. */
struct batch {
    struct batch *next; /* of those in graphs */
    ncclComm_t comm;
    bool in_graph;
    uint64_t run;
    size_t n;
    struct operation operations[];
};

static bool has_pair(const struct operation *o)
{
    return o->kind == OPERATION_SEND || o->kind == OPERATION_RECV;
}

static struct topic topic_of(const struct operation *o, const struct batch *batch)
{
    uint64_t kind = has_pair(o) ? TOPIC_PAIR : TOPIC_COLLECTIVE;
    return (struct topic){kind + (batch->in_graph ? TOPIC_IN_GRAPH : 0), o->number, batch->run};
}

/* Equal on all ranks. */
static uint64_t call_of(const struct operation *o)
{
    const uint64_t registered = (uint64_t)o->registered << 60;
    if (has_pair(o))
        return (uint64_t)o->type | registered;
    return (uint64_t)o->kind | (uint64_t)o->type << 8 | (uint64_t)o->op << 16 |
           (uint64_t)o->root << 32 | registered;
}

/* ---- Sending ---- */

/* This rank's elements, scaled if the reduction wants them so. */
static const void *own_elements(struct operation *o)
{
    size_t n = o->count * (o->kind == OPERATION_REDUCE_SCATTER ? (size_t)o->comm->nranks : 1);
    union value factor, *values;
    if (!o->scale.used)
        return o->send;
    values = malloc((n + 1) * sizeof *values);
    o->scaled = malloc(n * values_size(o->type) + 1);
    if (!values || !o->scaled)
        abort();
    values_load(o->type, o->scale.device ? o->scale.device : o->scale.value, &factor, 1);
    values_load(o->type, o->send, values, n);
    values_scale(o->type, values, n, factor);
    values_store(o->type, values, o->scaled, n);
    free(values);
    return o->scaled;
}

/* Whether `rank` gets elements from this rank. */
static bool receiver(const struct operation *o, int rank)
{
    switch (o->kind) {
    case OPERATION_REDUCE:
        return rank == o->root;
    case OPERATION_BROADCAST:
        return o->comm->rank == o->root;
    case OPERATION_SEND:
        return rank == o->root;
    case OPERATION_RECV:
        return false;
    default:
        return true;
    }
}

static void send_all(struct operation *o, const struct batch *batch)
{
    size_t nbytes = o->count * values_size(o->type);
    const char *own = own_elements(o);
    for (int i = 0; i < o->comm->nranks; i++)
        if (receiver(o, i))
            mesh_send(o->comm->mesh, i, topic_of(o, batch), call_of(o),
                      o->kind == OPERATION_REDUCE_SCATTER ? own + (size_t)i * nbytes : own, nbytes);
}

/* ---- Receiving ---- */

static enum mesh_end receive(const struct operation *o, const struct batch *batch, int from,
                             void *to)
{
    return mesh_receive(o->comm->mesh, from, topic_of(o, batch), call_of(o), to,
                        o->count * values_size(o->type));
}

static enum mesh_end receive_sum(const struct operation *o, const struct batch *batch)
{
    enum mesh_end end = MESH_OK;
    union value *sum = malloc((o->count + 1) * sizeof *sum),
                *x = malloc((o->count + 1) * sizeof *x);
    void *elements = malloc(o->count * values_size(o->type) + 1);
    if (!sum || !x || !elements)
        abort();
    for (int i = 0; i < o->comm->nranks && end == MESH_OK; i++) {
        end = receive(o, batch, i, elements);
        values_load(o->type, elements, i == 0 ? sum : x, o->count);
        if (i > 0)
            values_reduce(o->type, o->op, sum, x, o->count);
    }
    if (o->op == ncclAvg)
        values_average(o->type, sum, o->count, o->comm->nranks);
    if (end == MESH_OK)
        values_store(o->type, sum, o->recv, o->count);
    free(sum);
    free(x);
    free(elements);
    return end;
}

static enum mesh_end receive_all(const struct operation *o, const struct batch *batch)
{
    enum mesh_end end = MESH_OK;
    switch (o->kind) {
    case OPERATION_REDUCE:
        return o->comm->rank == o->root ? receive_sum(o, batch) : MESH_OK;
    case OPERATION_ALL_REDUCE:
    case OPERATION_REDUCE_SCATTER:
        return receive_sum(o, batch);
    case OPERATION_ALL_GATHER:
        for (int i = 0; i < o->comm->nranks && end == MESH_OK; i++)
            end =
                receive(o, batch, i, (char *)o->recv + (size_t)i * o->count * values_size(o->type));
        return end;
    case OPERATION_BROADCAST:
    case OPERATION_RECV:
        return receive(o, batch, o->root, o->recv);
    default:
        return MESH_OK;
    }
}

/* ---- The host function ---- */

static void transfer(struct batch *batch)
{
    ncclComm_t comm = batch->comm;
    settings_delay();
    for (size_t i = 0; i < batch->n; i++)
        send_all(&batch->operations[i], batch);
    for (size_t i = 0; i < batch->n; i++) {
        struct operation *o = &batch->operations[i];
        if (receive_all(o, batch) == MESH_MISMATCH) {
            fprintf(stderr, "nccl stand-in: rank %d: the ranks call different things\n",
                    comm->rank);
            atomic_store(&comm->state, ncclInvalidUsage);
        }
        free(o->scaled);
        o->scaled = NULL;
    }
    batch->run++;
}

static void run(void *data)
{
    struct batch *batch = data;
    ncclComm_t comm = batch->comm;
    bool in_graph = batch->in_graph;
    bool open = comm_begin(comm);
    if (open)
        transfer(batch);
    else if (in_graph)
        fprintf(stderr, "nccl stand-in: a graph uses a communicator that is gone\n");
    if (!in_graph)
        free(batch);
    comm_end(comm, !in_graph);
}

/* ---- Enqueueing ---- */

static uint64_t next_number(struct operation *o, bool in_graph)
{
    if (o->kind == OPERATION_SEND)
        return o->comm->nsent[in_graph][o->root]++;
    if (o->kind == OPERATION_RECV)
        return o->comm->nreceived[in_graph][o->root]++;
    return o->comm->ncollectives[in_graph]++;
}

static struct batch *batch_create(const struct operation *operations, size_t n, bool in_graph)
{
    ncclComm_t comm = operations[0].comm;
    struct batch *batch = malloc(sizeof *batch + n * sizeof *operations);
    if (!batch)
        abort();
    *batch = (struct batch){.comm = comm, .in_graph = in_graph, .n = n};
    memcpy(batch->operations, operations, n * sizeof *operations);
    for (size_t i = 0; i < n; i++)
        batch->operations[i].number = next_number(&batch->operations[i], in_graph);
    pthread_mutex_lock(&comm->lock);
    comm->pending += !in_graph;
    if (in_graph) {
        batch->next = comm->in_graphs;
        comm->in_graphs = batch;
    }
    pthread_mutex_unlock(&comm->lock);
    return batch;
}

static CUresult launch(struct batch *batch, CUstream stream)
{
    CUresult result = cu.cuLaunchHostFunc(stream, run, batch);
    if (result != CUDA_SUCCESS) {
        comm_begin(batch->comm);
        comm_end(batch->comm, !batch->in_graph);
        if (!batch->in_graph)
            free(batch);
    }
    return result;
}

/* Makes a stream wait for the work that another one has now. */
static CUresult join(ncclComm_t comm, CUstream from, CUstream to)
{
    CUresult result = from == to ? CUDA_SUCCESS : cu.cuEventRecord(comm->done, from);
    return from == to || result != CUDA_SUCCESS ? result : cu.cuStreamWaitEvent(to, comm->done, 0);
}

static CUresult enqueue(const struct operation *operations, size_t n)
{
    ncclComm_t comm = operations[0].comm;
    CUstream stream = operations[0].stream;
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    uint64_t capture = 0;
    CUresult result = cu.cuStreamGetCaptureInfo(stream, &status, &capture, NULL, NULL, NULL, NULL);
    bool in_graph = status != CU_STREAM_CAPTURE_STATUS_NONE;
    /* The operations of a communicator run in their order, whatever their streams. */
    if (result == CUDA_SUCCESS && comm->last != stream && comm->last_capture == capture)
        result = cu.cuStreamWaitEvent(stream, comm->done, 0);
    for (size_t i = 1; i < n && result == CUDA_SUCCESS; i++)
        result = join(comm, operations[i].stream, stream);
    if (result == CUDA_SUCCESS)
        result = launch(batch_create(operations, n, in_graph), stream);
    for (size_t i = 1; i < n && result == CUDA_SUCCESS; i++)
        result = join(comm, stream, operations[i].stream);
    if (result == CUDA_SUCCESS)
        result = cu.cuEventRecord(comm->done, stream);
    comm->last = stream;
    comm->last_capture = capture;
    return result;
}

ncclResult_t operations_enqueue(const struct operation *operations, size_t n)
{
    CUresult result = cu.cuCtxPushCurrent(operations[0].comm->context);
    if (result == CUDA_SUCCESS) {
        result = enqueue(operations, n);
        cu.cuCtxPopCurrent(NULL);
    }
    if (result != CUDA_SUCCESS)
        return failed(ncclUnhandledCudaError, "an operation was not enqueued: CUDA error %d",
                      result);
    return ncclSuccess;
}
