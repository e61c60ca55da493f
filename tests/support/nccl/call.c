/* The entries of operations. */
#include "group.h"
#include "values.h"

/* Whether the memory is the driver's, and long enough. Nothing is read or written of 0 bytes. */
static bool holds(const void *ptr, size_t nbytes)
{
    CUdeviceptr start = 0;
    size_t size = 0;
    int attributes[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)ptr;
    cu.cuPointerGetAttributes(2, attributes, (void *[]){&start, &size}, at);
    return nbytes == 0 || (size > 0 && start + size - at >= nbytes);
}

static ncclResult_t check(const char *call, const struct operation *o)
{
    size_t ranks = (size_t)o->comm->nranks;
    if ((unsigned)o->type >= ncclNumTypes || o->root < 0 || o->root >= o->comm->nranks)
        return failed(ncclInvalidArgument, "%s: type %d, rank %d", call, (int)o->type, o->root);
    if (o->kind <= OPERATION_REDUCE && !values_reduced(o->type))
        return failed(ncclInvalidArgument, "%s: nothing reduces type %d here", call, (int)o->type);
    size_t nbytes = o->count * values_size(o->type);
    bool reads =
        o->kind != OPERATION_RECV && (o->kind != OPERATION_BROADCAST || o->root == o->comm->rank);
    bool writes =
        o->kind != OPERATION_SEND && (o->kind != OPERATION_REDUCE || o->root == o->comm->rank);
    if ((reads && !holds(o->send, o->kind == OPERATION_REDUCE_SCATTER ? nbytes * ranks : nbytes)) ||
        (writes && !holds(o->recv, o->kind == OPERATION_ALL_GATHER ? nbytes * ranks : nbytes)))
        return failed(ncclInvalidArgument, "%s: a buffer is not %zu elements of memory", call,
                      o->count);
    return ncclSuccess;
}

/* Which of its buffers are registered, of those that all ranks have. */
static unsigned find_registered(const struct operation *o)
{
    const size_t ranks = (size_t)o->comm->nranks, nbytes = o->count * values_size(o->type);
    const bool send = comm_has_registered(
        o->comm, o->send, o->kind == OPERATION_REDUCE_SCATTER ? nbytes * ranks : nbytes);
    const bool recv = comm_has_registered(
        o->comm, o->recv, o->kind == OPERATION_ALL_GATHER ? nbytes * ranks : nbytes);
    if (o->kind == OPERATION_SEND || o->kind == OPERATION_REDUCE)
        return send;
    if (o->kind == OPERATION_RECV || o->kind == OPERATION_BROADCAST)
        return recv;
    return (unsigned)send | (unsigned)recv << 1;
}

/* Replaces a reduction of the communicator's own by a sum of scaled elements. */
static ncclResult_t resolve(struct operation *o)
{
    int i = (int)o->op - ncclNumOps;
    if ((int)o->op >= 0 && i < 0)
        return ncclSuccess;
    if (i < 0 || i >= SCALES || !o->comm->scales[i].used || o->comm->scales[i].type != o->type)
        return failed(ncclInvalidArgument, "reduction %d for type %d", (int)o->op, (int)o->type);
    o->scale = o->comm->scales[i];
    o->op = ncclSum;
    return ncclSuccess;
}

static ncclResult_t call(const char *name, struct operation o)
{
    group_begin();
    ncclResult_t result = comm_enter(o.comm, COMM_READY, name, " %zu %d %d %d", o.count,
                                     (int)o.type, (int)o.op, o.root);
    if (result == ncclSuccess)
        result = check(name, &o);
    if (result == ncclSuccess)
        o.registered = find_registered(&o);
    if (result == ncclSuccess)
        result = resolve(&o);
    if (result == ncclSuccess)
        group_add(&o);
    return group_end(result);
}

#define CALL(kind_, ...)                                                                           \
    call(__func__, (struct operation){.kind = kind_,                                               \
                                      .count = count,                                              \
                                      .type = type,                                                \
                                      .comm = comm,                                                \
                                      .stream = stream,                                            \
                                      __VA_ARGS__})

ENTRY(ncclResult_t, ncclAllReduce)
(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
 CUstream stream)
{
    return CALL(OPERATION_ALL_REDUCE, .send = send, .recv = recv, .op = op);
}

ENTRY(ncclResult_t, ncclReduceScatter)
(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
 CUstream stream)
{
    return CALL(OPERATION_REDUCE_SCATTER, .send = send, .recv = recv, .op = op);
}

ENTRY(ncclResult_t, ncclReduce)
(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
 ncclComm_t comm, CUstream stream)
{
    return CALL(OPERATION_REDUCE, .send = send, .recv = recv, .op = op, .root = root);
}

ENTRY(ncclResult_t, ncclAllGather)
(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm, CUstream stream)
{
    return CALL(OPERATION_ALL_GATHER, .send = send, .recv = recv);
}

ENTRY(ncclResult_t, ncclBroadcast)
(const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
 CUstream stream)
{
    return CALL(OPERATION_BROADCAST, .send = send, .recv = recv, .root = root);
}

ENTRY(ncclResult_t, ncclBcast)
(void *ptr, size_t count, ncclDataType_t type, int root, ncclComm_t comm, CUstream stream)
{
    return CALL(OPERATION_BROADCAST, .send = ptr, .recv = ptr, .root = root);
}

ENTRY(ncclResult_t, ncclSend)
(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream)
{
    return CALL(OPERATION_SEND, .send = send, .root = peer);
}

ENTRY(ncclResult_t, ncclRecv)
(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream)
{
    return CALL(OPERATION_RECV, .recv = recv, .root = peer);
}
