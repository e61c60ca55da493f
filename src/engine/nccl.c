/* The engine by NCCL: the library that the process has loaded already, or one opened now. */
#include "abi/nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/names.h>
#include "runtime/base/settings.h"
#include "engine.h"

enum {
    PAUSE_US = 200,         /* between questions to a communicator that is not ready */
    SPIN_US = 2000,         /* before the first pause: an operation is enqueued sooner */
    ENQUEUE_MS = 60000,     /* an operation is enqueued at once, unless NCCL connects first */
    CONFIG_VERSION = 21800, /* the fields below are those of NCCL 2.18 */
};

/* X(name) */
#define ENGINE_FUNCTIONS(X)                                                                        \
    X(ncclGetVersion)                                                                              \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetUniqueId)                                                                             \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclCommAbort)                                                                               \
    X(ncclCommDestroy)                                                                             \
    X(ncclGroupStart)                                                                              \
    X(ncclGroupEnd)                                                                                \
    X(ncclAllReduce)                                                                               \
    X(ncclReduceScatter)                                                                           \
    X(ncclAllGather)                                                                               \
    X(ncclBroadcast)                                                                               \
    X(ncclSend)                                                                                    \
    X(ncclRecv)

/* NULL before NCCL 2.19. */
#define ENGINE_LATER_FUNCTIONS(X)                                                                  \
    X(ncclCommRegister)                                                                            \
    X(ncclCommDeregister)

struct symm_engine {
    int version;
#define ENGINE_MEMBER_(name) __typeof__(name) *name;
    ENGINE_FUNCTIONS(ENGINE_MEMBER_)
    ENGINE_LATER_FUNCTIONS(ENGINE_MEMBER_)
#undef ENGINE_MEMBER_
};

struct symm_engine_comm {
    const struct symm_engine *engine;
    ncclComm_t comm;
    int rank;
    const atomic_bool *ended; /* of the group */
    void *registered;         /* NULL: no memory is */
};

static struct symm_engine nccl;
static char missing[512]; /* empty: it is open */

/* ---- The library ---- */

static bool look_up(void *library)
{
#define ENGINE_LOOK_UP_(name) *(void **)&nccl.name = dlsym(library, #name);
    ENGINE_FUNCTIONS(ENGINE_LOOK_UP_)
    ENGINE_LATER_FUNCTIONS(ENGINE_LOOK_UP_)
#undef ENGINE_LOOK_UP_
#define ENGINE_HAS_(name)                                                                          \
    if (!nccl.name) {                                                                              \
        snprintf(missing, sizeof missing, "the NCCL library has no " #name ": it is too old");     \
        return false;                                                                              \
    }
    ENGINE_FUNCTIONS(ENGINE_HAS_)
#undef ENGINE_HAS_
    return nccl.ncclGetVersion(&nccl.version) == ncclSuccess;
}

static void open_library(void)
{
    const char *name = symm__setting(SYMM_SETTING_NCCL_LIBRARY), *why;
    void *library = symm__nccl_open(name, NULL, &why);

    if (!library)
        snprintf(missing, sizeof missing,
                 "collectives between domains need NCCL: %.300s; install it, or set "
                 "SYMM_NCCL_LIBRARY to libnccl.so.2",
                 why);
    else if (!look_up(library) && !*missing)
        snprintf(missing, sizeof missing, "the NCCL library does not tell its version");
}

symm_status symm__engine_open(const struct symm_engine **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, open_library);
    if (*missing)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "%s", missing);
    *out = &nccl;
    return SYMM_OK;
}

int symm__engine_version(const struct symm_engine *engine)
{
    return engine->version;
}

struct symm_engine_name symm__engine_name(int version)
{
    struct symm_engine_name name;

    snprintf(name.text, sizeof name.text, "NCCL %d.%d.%d", version / 10000, version / 100 % 100,
             version % 100);
    return name;
}

static symm_status failed(const struct symm_engine *engine, const char *call, ncclResult_t result)
{
    return symm__fail(result == ncclRemoteError ? SYMM_ERROR_PEER : SYMM_ERROR_SYSTEM,
                      "%s of NCCL: %s", call, engine->ncclGetErrorString(result));
}

/* ---- Communicators ---- */

symm_status symm__engine_id(const struct symm_engine *engine, struct symm_engine_id *out)
{
    ncclUniqueId id;
    const ncclResult_t result = engine->ncclGetUniqueId(&id);

    if (result != ncclSuccess)
        return failed(engine, "ncclGetUniqueId", result);
    _Static_assert(sizeof id == sizeof *out, "an id");
    memcpy(out, &id, sizeof id);
    return SYMM_OK;
}

/* Waits until the communicator is ready for its next call. */
static symm_status settle(struct symm_engine_comm *c, const char *call, ncclResult_t result,
                          symm_deadline deadline)
{
    const int64_t begin = symm__now_us();

    while (result == ncclInProgress) {
        ncclResult_t asked = c->engine->ncclCommGetAsyncError(c->comm, &result);
        if (asked != ncclSuccess)
            return failed(c->engine, "ncclCommGetAsyncError", asked);
        if (result != ncclInProgress)
            break;
        if (atomic_load(c->ended))
            return symm__fail(SYMM_ERROR_PEER, "%s: the group has ended", call);
        if (symm__deadline_over(deadline))
            return symm__fail(SYMM_ERROR_TIMEOUT, "%s of NCCL has not ended in time", call);
        if (symm__now_us() - begin < SPIN_US)
            sched_yield();
        else
            symm__sleep_us(PAUSE_US);
    }
    return result == ncclSuccess ? SYMM_OK : failed(c->engine, call, result);
}

symm_status symm__engine_init(const struct symm_engine *engine, int nranks, int rank,
                              const struct symm_engine_id *id, int most_blocks,
                              const atomic_bool *ended, symm_deadline deadline,
                              struct symm_engine_comm **out)
{
    struct symm_engine_comm *c = calloc(1, sizeof *c);
    ncclConfig_t config = {.size = offsetof(ncclConfig_t, trafficClass),
                           .magic = NCCL_CONFIG_MAGIC,
                           .version = CONFIG_VERSION,
                           .blocking = 0,
                           .cgaClusterSize = NCCL_CONFIG_UNDEF_INT,
                           .minCTAs = NCCL_CONFIG_UNDEF_INT,
                           .maxCTAs = most_blocks ? most_blocks : NCCL_CONFIG_UNDEF_INT,
                           .splitShare = NCCL_CONFIG_UNDEF_INT};
    ncclUniqueId unique;
    symm_status st;

    *out = NULL;
    if (!c)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    memcpy(&unique, id, sizeof unique);
    *c = (struct symm_engine_comm){.engine = engine, .rank = rank, .ended = ended};
    st = settle(c, "ncclCommInitRankConfig",
                engine->ncclCommInitRankConfig(&c->comm, nranks, unique, rank, &config), deadline);
    *out = c->comm ? c : NULL;
    if (!c->comm)
        free(c);
    return st;
}

symm_status symm__engine_error(struct symm_engine_comm *c)
{
    ncclResult_t result = ncclSuccess;
    const ncclResult_t asked = c->engine->ncclCommGetAsyncError(c->comm, &result);

    if (asked != ncclSuccess)
        return failed(c->engine, "ncclCommGetAsyncError", asked);
    return result == ncclSuccess || result == ncclInProgress
               ? SYMM_OK
               : failed(c->engine, "a communicator", result);
}

/* ---- Registered memory ---- */

symm_status symm__engine_register(struct symm_engine_comm *c, void *at, size_t nbytes)
{
    ncclResult_t result;

    if (!c->engine->ncclCommRegister || !c->engine->ncclCommDeregister)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "%s has no ncclCommRegister",
                          symm__engine_name(c->engine->version).text);
    result = c->engine->ncclCommRegister(c->comm, at, nbytes, &c->registered);
    if (result != ncclSuccess) {
        c->registered = NULL;
        return failed(c->engine, "ncclCommRegister", result);
    }
    /* As with NCCL_LOCAL_REGISTER=0. */
    return c->registered ? SYMM_OK
                         : symm__fail(SYMM_ERROR_UNSUPPORTED, "ncclCommRegister of NCCL: skipped");
}

void symm__engine_deregister(struct symm_engine_comm *c)
{
    if (!c || !c->registered)
        return;
    c->engine->ncclCommDeregister(c->comm, c->registered);
    c->registered = NULL;
}

/* ---- Ends ---- */

void symm__engine_abort(struct symm_engine_comm *c)
{
    symm__engine_deregister(c); /* NCCL's own clean-up comes after the end of its proxy */
    c->engine->ncclCommAbort(c->comm);
    free(c);
}

void symm__engine_destroy(struct symm_engine_comm *c)
{
    if (!c)
        return;
    symm__engine_deregister(c);
    c->engine->ncclCommDestroy(c->comm);
    free(c);
}

/* ---- Operations ---- */

static symm_status type_of(symm_dtype dtype, ncclDataType_t *out)
{
    static const struct {
        symm_dtype dtype;
        ncclDataType_t type;
    } types[] = {{SYMM_FLOAT32, ncclFloat32},   {SYMM_FLOAT16, ncclFloat16},
                 {SYMM_BFLOAT16, ncclBfloat16}, {SYMM_FLOAT64, ncclFloat64},
                 {SYMM_INT32, ncclInt32},       {SYMM_INT64, ncclInt64}};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == dtype) {
            *out = types[i].type;
            return SYMM_OK;
        }
    return symm__fail(SYMM_ERROR_ARGUMENT, "%s is not reduced between domains",
                      symm_dtype_name(dtype));
}

static ncclRedOp_t op_of(symm_redop op)
{
    static const ncclRedOp_t ops[] = {
        [SYMM_SUM] = ncclSum, [SYMM_AVG] = ncclAvg, [SYMM_MIN] = ncclMin, [SYMM_MAX] = ncclMax};

    return ops[op];
}

static symm_status enqueued(struct symm_engine_comm *c, const char *call, ncclResult_t result)
{
    return settle(c, call, result, symm__deadline_in(ENQUEUE_MS));
}

/* ncclAllReduce and ncclReduceScatter have one type. */
static symm_status reduce(struct symm_engine_comm *c, const char *name,
                          __typeof__(ncclAllReduce) *call, const void *in, void *out, size_t count,
                          symm_dtype dtype, symm_redop op, symm_stream stream)
{
    ncclDataType_t type = ncclInt8;
    symm_status st;

    TRY(type_of(dtype, &type));
    st = enqueued(c, name, call(in, out, count, type, op_of(op), c->comm, stream));
out:
    return st;
}

symm_status symm__engine_all_reduce(struct symm_engine_comm *c, const void *in, void *out,
                                    size_t count, symm_dtype dtype, symm_redop op,
                                    symm_stream stream)
{
    return reduce(c, "ncclAllReduce", c->engine->ncclAllReduce, in, out, count, dtype, op, stream);
}

symm_status symm__engine_reduce_scatter(struct symm_engine_comm *c, const void *in, void *out,
                                        size_t count, symm_dtype dtype, symm_redop op,
                                        symm_stream stream)
{
    return reduce(c, "ncclReduceScatter", c->engine->ncclReduceScatter, in, out, count, dtype, op,
                  stream);
}

symm_status symm__engine_all_gather(struct symm_engine_comm *c, const void *in, void *out,
                                    size_t nbytes, symm_stream stream)
{
    return enqueued(c, "ncclAllGather",
                    c->engine->ncclAllGather(in, out, nbytes, ncclUint8, c->comm, stream));
}

symm_status symm__engine_broadcast(struct symm_engine_comm *c, const void *in, void *out,
                                   size_t nbytes, int root, symm_stream stream)
{
    return enqueued(c, "ncclBroadcast",
                    c->engine->ncclBroadcast(in, out, nbytes, ncclUint8, root, c->comm, stream));
}

symm_status symm__engine_exchange(struct symm_engine_comm *c, const void *in, void *out,
                                  size_t nbytes, int nranks, symm_stream stream)
{
    ncclResult_t result = c->engine->ncclGroupStart(), ended;

    for (int r = 0; r < nranks && result == ncclSuccess; r++) {
        const char *mine = (const char *)in + (size_t)r * nbytes;
        char *theirs = (char *)out + (size_t)(r < c->rank ? r : r - 1) * nbytes;
        if (r == c->rank)
            continue;
        result = c->engine->ncclSend(mine, nbytes, ncclUint8, r, c->comm, stream);
        if (result == ncclSuccess || result == ncclInProgress)
            result = c->engine->ncclRecv(theirs, nbytes, ncclUint8, r, c->comm, stream);
        if (result == ncclInProgress)
            result = ncclSuccess; /* until the end of the group */
    }
    ended = c->engine->ncclGroupEnd();
    return enqueued(c, "ncclSend and ncclRecv", result == ncclSuccess ? ended : result);
}
