/* One row for each type and limit. A decision that differs between ranks would be a hang. */
#include "take.h"

#include <symm/collectives.h>
#include "runtime/driver/driver.h"
#include "error.h"
#include "real.h"
#include "settings.h"

/* From measurements beside NCCL 2.28.3, for any memory (docs/performance.md). */
static const size_t most_nbytes[NCCL_OPERATIONS] = {
    [NCCL_ALL_REDUCE] = 16u << 20,
    [NCCL_REDUCE_SCATTER] = SIZE_MAX,
    [NCCL_ALL_GATHER] = 16u << 20,
};

static const struct {
    uint8_t nbytes;
    uint8_t dtype;  /* that symm reduces it as; 0: none */
    bool sums_only; /* unsigned types have other minima and maxima */
    bool averages;
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

size_t nccl__call_nbytes(const struct nccl_call *c)
{
    const size_t part = known_type(c->type) ? c->count * types[c->type].nbytes : 0;

    return c->operation == NCCL_ALL_REDUCE || !c->comm || !c->comm->binding
               ? part
               : part * (size_t)c->comm->binding->nranks;
}

static bool reduces(const struct nccl_call *c)
{
    return types[c->type].dtype && (unsigned)c->op < ncclNumOps && ops[c->op].taken &&
           (!types[c->type].sums_only || c->op == ncclSum) &&
           (c->op != ncclAvg || types[c->type].averages);
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
           nccl__call_nbytes(c) <= most_nbytes[c->operation];
}

static symm_status enqueue(const struct nccl_call *c, symm_group *group)
{
    const symm_options options = {.max_blocks = c->comm->binding->max_blocks,
                                  .flags =
                                      nccl__settings()->deterministic ? SYMM_DETERMINISTIC : 0};
    const symm_dtype dtype = (symm_dtype)types[c->type].dtype;
    const symm_redop op = ops[c->op].op;

    switch (c->operation) {
    case NCCL_ALL_REDUCE:
        return symm_all_reduce(group, c->in, c->out, c->count, dtype, op, &options, c->stream);
    case NCCL_REDUCE_SCATTER:
        return symm_reduce_scatter(group, c->in, c->out, c->count, dtype, op, &options, c->stream);
    default:
        return symm_all_gather(group, c->in, c->out, c->count * types[c->type].nbytes, SYMM_UINT8,
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
