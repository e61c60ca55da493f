/* One row for each type and operation. A decision that differs between ranks would be a hang. */
#include "take.h"

#include <symm/collectives.h>
#include "runtime/driver/driver.h"
#include "runtime/group/context.h"
#include "runtime/group/tuning.h"
#include "error.h"
#include "real.h"
#include "settings.h"
#include "windows.h"

/*
 * Up to here symm is faster with plain memory, and as fast as with windows; with windows it is
 * faster at any size, and so are reductions of floats of two ranks. Measured beside NCCL 2.32
 * (docs/nccl.md).
 */
enum { TAKEN_NBYTES = 16 << 20 };

static const enum symm_operation operations[NCCL_OPERATIONS] = {
    [NCCL_ALL_REDUCE] = SYMM_OPERATION_ALL_REDUCE,
    [NCCL_REDUCE_SCATTER] = SYMM_OPERATION_REDUCE_SCATTER,
    [NCCL_ALL_GATHER] = SYMM_OPERATION_ALL_GATHER,
};

static const struct {
    uint8_t nbytes;
    uint8_t dtype;  /* that symm reduces it as; 0: none */
    bool sums_only; /* unsigned types have other minima and maxima */
    bool averages;  /* a floating type */
} types[ncclNumTypes] = {
    [ncclInt8] = {1, 0, false, false},
    [ncclUint8] = {1, 0, false, false},
    [ncclInt32] = {4, SYMM_INT32, false, false},
    [ncclUint32] = {4, SYMM_INT32, true, false},
    [ncclInt64] = {8, SYMM_INT64, false, false},
    [ncclUint64] = {8, SYMM_INT64, true, false},
    [ncclFloat16] = {2, SYMM_FLOAT16, false, true},
    [ncclFloat32] = {4, SYMM_FLOAT32, false, true},
    [ncclFloat64] = {8, SYMM_FLOAT64, false, true},
    [ncclBfloat16] = {2, SYMM_BFLOAT16, false, true},
    [ncclFloat8e4m3] = {1, 0, false, false},
    [ncclFloat8e5m2] = {1, 0, false, false},
};

static const struct {
    bool taken;
    symm_redop op;
} ops[ncclNumOps] = {
    [ncclSum] = {true, SYMM_SUM},
    [ncclMax] = {true, SYMM_MAX},
    [ncclMin] = {true, SYMM_MIN},
    [ncclAvg] = {true, SYMM_AVG},
};

const char *nccl__operation_name(enum nccl_operation operation)
{
    static const char *const names[NCCL_OPERATIONS] = {"allreduce", "reducescatter", "allgather"};

    return names[operation];
}

static bool known_type(ncclDataType_t type)
{
    return (unsigned)type < ncclNumTypes;
}

size_t nccl__type_nbytes(ncclDataType_t type)
{
    return known_type(type) ? types[type].nbytes : 0;
}

size_t nccl__call_nbytes(const struct nccl_call *c)
{
    const size_t part = c->count * nccl__type_nbytes(c->type);

    return c->operation == NCCL_ALL_REDUCE || !c->comm || !c->comm->binding
               ? part
               : part * (size_t)c->comm->binding->nranks;
}

static bool reduces(const struct nccl_call *c)
{
    if (c->scaled)
        return types[c->type].averages && c->scale.type == c->type;
    return types[c->type].dtype && (unsigned)c->op < ncclNumOps && ops[c->op].taken &&
           (!types[c->type].sums_only || c->op == ncclSum) &&
           (c->op != ncclAvg || types[c->type].averages);
}

static bool is_faster_at_any_size(const struct nccl_call *c)
{
    return c->operation != NCCL_ALL_GATHER && types[c->type].averages && !c->scaled &&
           c->comm->binding->nranks == 2;
}

/* The bytes of a call's buffers. */
struct sizes {
    size_t in, out;
};

static struct sizes sizes_of(const struct nccl_call *c)
{
    const size_t part = c->count * types[c->type].nbytes, all = nccl__call_nbytes(c);

    return (struct sizes){.in = c->operation == NCCL_REDUCE_SCATTER ? all : part,
                          .out = c->operation == NCCL_ALL_GATHER ? all : part};
}

/*
 * Whether the other ranks reach the buffers that matter. Windows are the same on all ranks, and
 * NCCL demands that all ranks use the same ones in a call.
 */
static bool is_in_windows(const struct nccl_call *c)
{
    const struct nccl_binding *b = c->comm->binding;
    const struct sizes sizes = sizes_of(c);

    return b->windows &&
           (c->operation == NCCL_ALL_GATHER || nccl__windows_have(b, c->in, sizes.in)) &&
           (c->operation == NCCL_REDUCE_SCATTER || nccl__windows_have(b, c->out, sizes.out));
}

/* By the tuning table if it was measured beside NCCL, else by the size. */
static bool is_faster(const struct nccl_call *c)
{
    const struct nccl_binding *b = c->comm->binding;
    const struct symm_tuning *table = b->symm ? b->symm->tuning : NULL;
    struct symm_tuning_key key = {.operation = operations[c->operation], .nranks = b->nranks};
    symm_algo row = SYMM_ALGO_AUTO;

    if (!symm__tuning_knows_nccl(table, key.operation, key.nranks))
        return nccl__call_nbytes(c) <= TAKEN_NBYTES || is_faster_at_any_size(c) || is_in_windows(c);
    if (c->operation != NCCL_ALL_GATHER) {
        key.dtype = (symm_dtype)types[c->type].dtype;
        row = symm__tuning_find(table, &key, nccl__call_nbytes(c));
    }
    key.dtype = (symm_dtype)0;
    if (row == SYMM_ALGO_AUTO)
        row = symm__tuning_find(table, &key, nccl__call_nbytes(c));
    return row != SYMM_ALGO_AUTO && row != (symm_algo)SYMM_TUNING_FORWARD;
}

bool nccl__takes(const struct nccl_call *c)
{
    const struct nccl_settings *s = nccl__settings();

    if (!c->comm || atomic_load(&c->comm->state) != NCCL_COMM_ATTACHED || s->forwards[c->operation])
        return false; /* before a communicator is ready, the real library refuses calls */
    if (c->count == 0 || !c->in || !c->out || !known_type(c->type))
        return false; /* the real library's message */
    if (c->operation != NCCL_ALL_GATHER && !reduces(c))
        return false;
    return nccl__real()->alone || (s->deterministic && c->operation != NCCL_ALL_GATHER) ||
           is_faster(c);
}

static symm_status enqueue(const struct nccl_call *c, symm_group *group)
{
    const bool deterministic = nccl__settings()->deterministic,
               on_device = c->scaled && c->scale.on_device;
    const symm_options options = {.max_blocks = c->comm->binding->max_blocks,
                                  .flags = (deterministic ? SYMM_DETERMINISTIC : 0) |
                                           (on_device ? SYMM_SCALE_ON_DEVICE : 0),
                                  .scale = on_device   ? c->scale.on_device
                                           : c->scaled ? c->scale.value
                                                       : NULL};
    const symm_dtype dtype = (symm_dtype)types[c->type].dtype;
    const symm_redop op = c->scaled ? SYMM_SUM : ops[c->op].op;
    const struct sizes sizes = sizes_of(c);
    const void *in = c->in;
    void *out = c->out;

    if (nccl__call_nbytes(c) > TAKEN_NBYTES)
        nccl__windows_translate(c->comm->binding, &in, sizes.in, &out, sizes.out);
    switch (c->operation) {
    case NCCL_ALL_REDUCE:
        return symm_all_reduce(group, in, out, c->count, dtype, op, &options, c->stream);
    case NCCL_REDUCE_SCATTER:
        return symm_reduce_scatter(group, in, out, c->count, dtype, op, &options, c->stream);
    default:
        return symm_all_gather(group, in, out, c->count * types[c->type].nbytes, SYMM_UINT8,
                               &options, c->stream);
    }
}

ncclResult_t nccl__take(const struct nccl_call *c)
{
    const struct nccl_binding *b = c->comm->binding;
    const struct symm_driver *driver = b->driver;
    int capture = CU_STREAM_CAPTURE_STATUS_NONE;
    CUcontext current = NULL;
    symm_status st;

    driver->cuCtxGetCurrent(&current);
    if (current != b->context)
        driver->cuCtxSetCurrent(b->context);
    const CUresult result = driver->cuStreamIsCapturing(c->stream, &capture);
    if (result == CUDA_SUCCESS)
        st = enqueue(c, capture != CU_STREAM_CAPTURE_STATUS_NONE ? b->captured : b->eager);
    else
        st = symm__driver_fail(driver, result, "cuStreamIsCapturing");
    if (current != b->context)
        driver->cuCtxSetCurrent(current);
    return nccl__result(st);
}
