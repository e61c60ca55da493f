/*
 * A communicator has no connection of its own: it is a rank, a device, and the name of the session
 * in which `attach` makes a symm context. The name comes from the random id.
 */
#include "alone.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "runtime/base/numbers.h"
#include "runtime/driver/driver.h"
#include "comm.h"
#include "error.h"
#include "take.h"

struct ncclComm {
    int rank, nranks;
    CUdevice device;
    char session[64];
};

/* The open driver; NULL: it cannot be opened. It stays open until the process ends. */
static const struct symm_driver *driver(void)
{
    const struct symm_driver *drv = symm__driver_current();

    return drv || symm__driver_open(NULL, &drv) == SYMM_OK ? drv : NULL;
}

static ncclResult_t no_driver(void)
{
    return nccl__fail(ncclUnhandledCudaError, "%s", symm_error_text());
}

/* ---------------------------------------------------------------------------------------- facts */

static ncclResult_t get_version(int *version)
{
    if (!version)
        return nccl__fail(ncclInvalidArgument, "version is NULL");
    *version = NCCL_ABI_VERSION;
    return ncclSuccess;
}

const char *nccl__result_text(ncclResult_t result)
{
    static const char *const texts[] = {
#define TEXT(name, number, text) [name] = text,
        NCCL_RESULTS(TEXT)
#undef TEXT
    };

    return (unsigned)result < sizeof texts / sizeof texts[0] ? texts[result] : "unknown result";
}

static ncclResult_t comm_get_async_error(ncclComm_t comm, ncclResult_t *error)
{
    (void)comm;
    *error = ncclSuccess;
    return ncclSuccess;
}

static ncclResult_t comm_count(const ncclComm_t comm, int *count)
{
    *count = comm->nranks;
    return ncclSuccess;
}

static ncclResult_t comm_cu_device(const ncclComm_t comm, int *device)
{
    *device = comm->device;
    return ncclSuccess;
}

static ncclResult_t comm_user_rank(const ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}

/* -------------------------------------------------------------------------------- communicators */

static ncclResult_t get_unique_id(ncclUniqueId *id)
{
    if (!id)
        return nccl__fail(ncclInvalidArgument, "the id is NULL");
    return getrandom(id, sizeof *id, 0) == sizeof *id
               ? ncclSuccess
               : nccl__fail(ncclSystemError, "no random numbers");
}

/* part: tells the children of one split apart. */
static ncclResult_t make(int rank, int nranks, const ncclUniqueId *id, int part, CUdevice device,
                         ncclComm_t *out)
{
    uint64_t words[sizeof *id / sizeof(uint64_t)], name[2] = {1, (uint64_t)part};
    struct ncclComm *comm;

    if (nranks < 1 || rank < 0 || rank >= nranks)
        return nccl__fail(ncclInvalidArgument, "rank %d of %d ranks", rank, nranks);
    comm = calloc(1, sizeof *comm);
    if (!comm)
        return nccl__fail(ncclSystemError, "out of host memory");
    memcpy(words, id, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        name[i % 2] = symm__mix(name[i % 2], words[i]);
    *comm = (struct ncclComm){.rank = rank, .nranks = nranks, .device = device};
    snprintf(comm->session, sizeof comm->session, "nccl-%016llx%016llx",
             (unsigned long long)name[0], (unsigned long long)name[1]);
    *out = comm;
    return ncclSuccess;
}

static ncclResult_t comm_init_rank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
    const struct symm_driver *drv = driver();
    CUdevice device;

    if (!comm)
        return nccl__fail(ncclInvalidArgument, "comm is NULL");
    if (!drv)
        return no_driver();
    if (drv->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return nccl__fail(ncclInvalidUsage, "no device is current: set one before");
    return make(rank, nranks, &id, 0, device, comm);
}

static ncclResult_t comm_init_rank_config(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
                                          ncclConfig_t *config)
{
    (void)config;
    return comm_init_rank(comm, nranks, id, rank);
}

static ncclResult_t comm_init_rank_scalable(ncclComm_t *comm, int nranks, int rank, int nids,
                                            ncclUniqueId *ids, ncclConfig_t *config)
{
    (void)config;
    if (nids < 1 || !ids)
        return nccl__fail(ncclInvalidArgument, "there is no id");
    return comm_init_rank(comm, nranks, ids[0], rank);
}

static ncclResult_t comm_init_all(ncclComm_t *comms, int ndevices, const int *devices)
{
    ncclUniqueId id;
    ncclResult_t result =
        comms ? get_unique_id(&id) : nccl__fail(ncclInvalidArgument, "comms is NULL");

    for (int i = 0; i < ndevices && result == ncclSuccess; i++) {
        result = make(i, ndevices, &id, 0, devices ? devices[i] : i, &comms[i]);
        for (int j = 0; j < i && result != ncclSuccess; j++)
            free(comms[j]);
    }
    return result;
}

/* A rank's part of a split. */
struct card {
    int color, key;
    ncclUniqueId id;
};

/* This rank's place among the ranks of its color, by key, then by rank; the first one's id. */
static ncclResult_t make_child(const struct card *all, const struct ncclComm *parent,
                               ncclComm_t *child)
{
    const struct card *mine = &all[parent->rank], *first = mine;
    int rank = 0, nranks = 0;

    for (int r = 0; r < parent->nranks; r++) {
        const struct card *card = &all[r];
        if (card->color != mine->color)
            continue;
        nranks++;
        rank += card->key < mine->key || (card->key == mine->key && r < parent->rank);
        if (card->key < first->key || (card->key == first->key && card < first))
            first = card;
    }
    return make(rank, nranks, &first->id, mine->color, parent->device, child);
}

static ncclResult_t comm_split(ncclComm_t comm, int color, int key, ncclComm_t *child,
                               ncclConfig_t *config)
{
    struct nccl_comm *known = nccl__comm_find(comm);
    struct card mine = {.color = color, .key = key}, *all;
    ncclResult_t result = get_unique_id(&mine.id);

    (void)config;
    if (!child || !known || !nccl__comm_settle(known))
        return nccl__fail(ncclInvalidArgument, child ? "comm is no communicator" : "child is NULL");
    all = calloc((size_t)comm->nranks, sizeof *all);
    if (!all)
        result = nccl__fail(ncclSystemError, "out of host memory");
    if (result == ncclSuccess)
        result = nccl__result(symm_exchange(known->binding->eager, &mine, sizeof mine, all));
    *child = NULL;
    if (result == ncclSuccess && color != NCCL_SPLIT_NOCOLOR)
        result = make_child(all, comm, child);
    free(all);
    return result;
}

static ncclResult_t comm_finalize(ncclComm_t comm)
{
    (void)comm;
    return ncclSuccess;
}

static ncclResult_t comm_destroy(ncclComm_t comm)
{
    free(comm);
    return ncclSuccess;
}

/* --------------------------------------------------------------------------------------- memory */

static ncclResult_t mem_alloc(void **ptr, size_t nbytes)
{
    const struct symm_driver *drv = driver();
    CUdeviceptr at = 0;

    if (!drv)
        return no_driver();
    if (!ptr || drv->cuMemAlloc(&at, nbytes) != CUDA_SUCCESS)
        return nccl__fail(ptr ? ncclUnhandledCudaError : ncclInvalidArgument,
                          ptr ? "no %zu bytes" : "ptr is NULL, for %zu bytes", nbytes);
    *ptr = (void *)(uintptr_t)at;
    return ncclSuccess;
}

static ncclResult_t mem_free(void *ptr)
{
    const struct symm_driver *drv = driver();

    if (!drv)
        return no_driver();
    return !ptr || drv->cuMemFree((CUdeviceptr)(uintptr_t)ptr) == CUDA_SUCCESS
               ? ncclSuccess
               : nccl__fail(ncclInvalidArgument, "%p is no memory of ncclMemAlloc", ptr);
}

/* Registration is a promise that makes calls faster elsewhere; symm takes any memory. */
static ncclResult_t comm_register(const ncclComm_t comm, void *ptr, size_t nbytes, void **handle)
{
    (void)comm;
    (void)nbytes;
    *handle = ptr;
    return ncclSuccess;
}

static ncclResult_t comm_deregister(const ncclComm_t comm, void *handle)
{
    (void)comm;
    (void)handle;
    return ncclSuccess;
}

static ncclResult_t window_register(ncclComm_t comm, void *ptr, size_t nbytes, ncclWindow_t *window,
                                    int flags)
{
    (void)comm;
    (void)ptr;
    (void)nbytes;
    (void)flags;
    *window = NULL; /* which says that there are no windows here */
    return ncclSuccess;
}

static ncclResult_t window_deregister(ncclComm_t comm, ncclWindow_t window)
{
    (void)comm;
    (void)window;
    return ncclSuccess;
}

/* --------------------------------------------------------------------------- scaled reductions */

/* entries.c keeps the number; this gives the reduction its own number. */
static ncclResult_t red_op_create(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                  ncclScalarResidence_t residence, ncclComm_t comm)
{
    static atomic_int made;

    (void)residence;
    if (!op || !scalar || !comm || !nccl__type_nbytes(type))
        return nccl__fail(ncclInvalidArgument, "ncclRedOpCreatePreMulSum: %s",
                          !op       ? "op is NULL"
                          : !scalar ? "scalar is NULL"
                          : !comm   ? "comm is NULL"
                                    : "there is no such type");
    *op = (ncclRedOp_t)(ncclNumOps + atomic_fetch_add(&made, 1));
    return ncclSuccess;
}

static ncclResult_t red_op_destroy(ncclRedOp_t op, ncclComm_t comm)
{
    (void)comm;
    return op >= ncclNumOps
               ? ncclSuccess
               : nccl__fail(ncclInvalidArgument,
                            "ncclRedOpDestroy: %d is no reduction of the program's", (int)op);
}

/* ----------------------------------------------------------------------- calls, if not taken */

static ncclResult_t success(void)
{
    return ncclSuccess;
}

static ncclResult_t refuse(const char *call, const void *send, const void *recv, size_t count,
                           ncclComm_t comm)
{
    if (!comm || !nccl__comm_find(comm))
        return nccl__fail(ncclInvalidArgument, "%s: comm is no communicator", call);
    if (count == 0)
        return ncclSuccess;
    if (!send || !recv)
        return nccl__fail(ncclInvalidArgument, "%s: a buffer is NULL", call);
    return nccl__fail(ncclInvalidUsage,
                      "%s: symm has no such type or reduction, and there is no NCCL "
                      "(SYMM_NCCL_LIBRARY=none)",
                      call);
}

static ncclResult_t all_reduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, CUstream stream)
{
    (void)type;
    (void)op;
    (void)stream;
    return refuse("ncclAllReduce", send, recv, count, comm);
}

static ncclResult_t reduce_scatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t comm, CUstream stream)
{
    (void)type;
    (void)op;
    (void)stream;
    return refuse("ncclReduceScatter", send, recv, count, comm);
}

static ncclResult_t all_gather(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclComm_t comm, CUstream stream)
{
    (void)type;
    (void)stream;
    return refuse("ncclAllGather", send, recv, count, comm);
}

void nccl__alone_fill(struct nccl_real *real)
{
    *real = (struct nccl_real){
        .alone = true,
        .ncclGetVersion = get_version,
        .ncclGetErrorString = nccl__result_text,
        .ncclGetUniqueId = get_unique_id,
        .ncclCommInitRank = comm_init_rank,
        .ncclCommInitRankConfig = comm_init_rank_config,
        .ncclCommInitRankScalable = comm_init_rank_scalable,
        .ncclCommInitAll = comm_init_all,
        .ncclCommSplit = comm_split,
        .ncclCommFinalize = comm_finalize,
        .ncclCommDestroy = comm_destroy,
        .ncclCommAbort = comm_destroy,
        .ncclCommGetAsyncError = comm_get_async_error,
        .ncclCommCount = comm_count,
        .ncclCommCuDevice = comm_cu_device,
        .ncclCommUserRank = comm_user_rank,
        .ncclMemAlloc = mem_alloc,
        .ncclMemFree = mem_free,
        .ncclCommRegister = comm_register,
        .ncclCommDeregister = comm_deregister,
        .ncclCommWindowRegister = window_register,
        .ncclCommWindowDeregister = window_deregister,
        .ncclRedOpCreatePreMulSum = red_op_create,
        .ncclRedOpDestroy = red_op_destroy,
        .ncclGroupStart = success,
        .ncclGroupEnd = success,
        .ncclAllReduce = all_reduce,
        .ncclReduceScatter = reduce_scatter,
        .ncclAllGather = all_gather,
    };
}

const char *nccl__alone_session(ncclComm_t comm)
{
    return comm->session;
}

void nccl__alone_free(ncclComm_t comm)
{
    free(comm);
}
