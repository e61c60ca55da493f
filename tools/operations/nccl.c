/* NCCL, by the declarations of abi/nccl.h. */
#include "nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "abi/nccl.h"
#include "peer.h"

/* NCCL's numbers of symm's types. */
static const ncclDataType_t nccl_dtypes[] = {
    [SYMM_INT32] = ncclInt32,
    [SYMM_INT64] = ncclInt64,
    [SYMM_FLOAT16] = ncclFloat16,
    [SYMM_FLOAT32] = ncclFloat32,
    [SYMM_FLOAT64] = ncclFloat64,
    [SYMM_BFLOAT16] = ncclBfloat16,
    [SYMM_UINT8] = ncclUint8,
    /* moved as bytes, which every version has */
    [SYMM_FLOAT8_E4M3] = ncclUint8,
    [SYMM_FLOAT8_E5M2] = ncclUint8,
};
static const ncclRedOp_t nccl_ops[] = {
    [SYMM_SUM] = ncclSum, [SYMM_MAX] = ncclMax, [SYMM_MIN] = ncclMin, [SYMM_AVG] = ncclAvg};

enum { MAX_WINDOWS = 2 };

struct nccl {
    void *library;
    ncclComm_t comm;
    char version[NCCL_VERSION];
    ncclResult_t error; /* the last call's */
    struct {
        void *memory;
        ncclWindow_t handle;
    } windows[MAX_WINDOWS];
    int nwindows;
    __typeof__(&ncclGetVersion) get_version;
    __typeof__(&ncclGetUniqueId) get_unique_id;
    __typeof__(&ncclCommInitRank) comm_init_rank;
    __typeof__(&ncclCommDestroy) comm_destroy;
    __typeof__(&ncclCommAbort) comm_abort;
    __typeof__(&ncclAllReduce) all_reduce;
    __typeof__(&ncclAllGather) all_gather;
    __typeof__(&ncclReduceScatter) reduce_scatter;
    __typeof__(&ncclBroadcast) broadcast;
    __typeof__(&ncclGetErrorString) get_error_string;
    /* NULL in versions without it */
    __typeof__(&ncclMemAlloc) mem_alloc;
    __typeof__(&ncclMemFree) mem_free;
    __typeof__(&ncclCommWindowRegister) window_register;
    __typeof__(&ncclCommWindowDeregister) window_deregister;
};

static bool look_up(struct nccl *n, char why[512])
{
    const struct peer_function functions[] = {
        {"ncclGetVersion", &n->get_version, false},
        {"ncclGetUniqueId", &n->get_unique_id, false},
        {"ncclCommInitRank", &n->comm_init_rank, false},
        {"ncclCommDestroy", &n->comm_destroy, false},
        {"ncclCommAbort", &n->comm_abort, false},
        {"ncclAllReduce", &n->all_reduce, false},
        {"ncclAllGather", &n->all_gather, false},
        {"ncclReduceScatter", &n->reduce_scatter, false},
        {"ncclBroadcast", &n->broadcast, false},
        {"ncclGetErrorString", &n->get_error_string, false},
        {"ncclMemAlloc", &n->mem_alloc, true},
        {"ncclMemFree", &n->mem_free, true},
        {"ncclCommWindowRegister", &n->window_register, true},
        {"ncclCommWindowDeregister", &n->window_deregister, true},
    };

    return peer_look_up(n->library, functions, (int)(sizeof functions / sizeof functions[0]), why);
}

/* NCCL must not use multicast where it is off for symm. */
static bool may_use(const symm_group *group, char why[512])
{
    const char *nvls = getenv("NCCL_NVLS_ENABLE");

    if (!symm_multicast_off(group) || (nvls && strcmp(nvls, "0") == 0))
        return true;
    snprintf(why, 512, "multicast is off here, and NCCL does not know: set NCCL_NVLS_ENABLE=0");
    return false;
}

/* As symm opens it. */
static void *open_library(char why[512])
{
    const char *path = getenv("SYMM_NCCL_LIBRARY"), *reason;
    void *library = symm__nccl_open(path ? path : "", NULL, &reason);

    if (!library)
        snprintf(why, 512, "%s", reason);
    return library;
}

static void name_version(int version, char name[NCCL_VERSION])
{
    snprintf(name, NCCL_VERSION, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

bool nccl_find(struct nccl_found *found, char why[512])
{
    void *library = open_library(why);
    __typeof__(&ncclGetVersion) get_version = NULL;
    const struct peer_function function = {"ncclGetVersion", &get_version, false};
    Dl_info about;
    int version = 0;

    if (!library || !peer_look_up(library, &function, 1, why))
        return false;
    get_version(&version);
    name_version(version, found->version);
    snprintf(found->file, sizeof found->file, "%s",
             dladdr((void *)(uintptr_t)get_version, &about) ? about.dli_fname : "");
    return true;
}

/* Opens the library; rank 0 makes the id by which the ranks meet. Local. */
static bool load(struct nccl *n, int rank, ncclUniqueId *id, char why[512])
{
    int version = 0;

    n->library = open_library(why);
    if (!n->library || !look_up(n, why))
        return false;
    n->get_version(&version);
    name_version(version, n->version);
    ncclResult_t error = rank == 0 ? n->get_unique_id(id) : 0;
    if (error)
        snprintf(why, 512, "ncclGetUniqueId: %s", n->get_error_string(error));
    return !error;
}

struct nccl *nccl_open(symm_group *group, char why[512], symm_status *st)
{
    struct nccl *n = calloc(1, sizeof *n);
    ncclUniqueId id = {{0}}, *ids = calloc((size_t)symm_nranks(group), sizeof *ids);
    int rank = symm_rank(group);

    memset(why, 0, 512);
    if (!n || !ids)
        snprintf(why, 512, "out of memory");
    else if (may_use(group, why))
        load(n, rank, &id, why);
    *st = peer_agree(group, why);
    if (*st == SYMM_OK && !why[0])
        *st = symm_exchange(group, &id, sizeof id, ids);
    if (*st == SYMM_OK && !why[0]) {
        ncclResult_t error = n->comm_init_rank(&n->comm, symm_nranks(group), ids[0], rank);

        if (error)
            snprintf(why, 512, "ncclCommInitRank: %s", n->get_error_string(error));
        *st = peer_agree(group, why);
    }
    free(ids);
    if (*st == SYMM_OK && !why[0])
        return n;
    nccl_close(n, false);
    return NULL;
}

void *nccl_symmetric_alloc(struct nccl *n, symm_group *group, size_t nbytes, char why[512],
                           symm_status *st)
{
    void *memory = NULL;
    ncclWindow_t handle = NULL;
    ncclResult_t error = 0;

    memset(why, 0, 512);
    if (!n->mem_alloc || !n->mem_free || !n->window_register || !n->window_deregister)
        snprintf(why, 512, "NCCL %s has no symmetric windows; 2.27 and later have", n->version);
    else if (n->nwindows == MAX_WINDOWS)
        snprintf(why, 512, "more than %d windows", MAX_WINDOWS);
    else if ((error = n->mem_alloc(&memory, nbytes)) != 0)
        snprintf(why, 512, "ncclMemAlloc: %s", n->get_error_string(error));
    *st = peer_agree(group, why);
    if (*st == SYMM_OK && !why[0]) {
        error = n->window_register(n->comm, memory, nbytes, &handle, NCCL_WIN_COLL_SYMMETRIC);
        /* Where NCCL cannot, it returns success and no window. */
        if (error || !handle)
            snprintf(why, 512, "ncclCommWindowRegister: %s",
                     error ? n->get_error_string(error) : "no window");
        *st = peer_agree(group, why);
    }
    if (*st == SYMM_OK && !why[0]) {
        n->windows[n->nwindows].memory = memory;
        n->windows[n->nwindows++].handle = handle;
        return memory;
    }
    if (handle)
        n->window_deregister(n->comm, handle);
    if (memory)
        n->mem_free(memory);
    return NULL;
}

void nccl_close(struct nccl *n, bool healthy)
{
    if (!n)
        return;
    for (int i = 0; i < n->nwindows && healthy; i++) {
        n->window_deregister(n->comm, n->windows[i].handle);
        n->mem_free(n->windows[i].memory);
    }
    if (n->comm && healthy)
        n->comm_destroy(n->comm);
    else if (n->comm)
        n->comm_abort(n->comm);
    /* The library stays open: its threads may still run. */
    free(n);
}

const char *nccl_version(const struct nccl *n)
{
    return n->version;
}

symm_status nccl_all_reduce(struct nccl *n, const void *in, void *out, size_t count,
                            symm_dtype dtype, symm_redop op, symm_stream stream)
{
    n->error = n->all_reduce(in, out, count, nccl_dtypes[dtype], nccl_ops[op], n->comm, stream);
    return n->error ? SYMM_ERROR_DRIVER : SYMM_OK;
}

symm_status nccl_all_gather(struct nccl *n, const void *in, void *out, size_t count,
                            symm_dtype dtype, symm_redop op, symm_stream stream)
{
    (void)op;
    n->error = n->all_gather(in, out, count, nccl_dtypes[dtype], n->comm, stream);
    return n->error ? SYMM_ERROR_DRIVER : SYMM_OK;
}

symm_status nccl_reduce_scatter(struct nccl *n, const void *in, void *out, size_t count,
                                symm_dtype dtype, symm_redop op, symm_stream stream)
{
    n->error = n->reduce_scatter(in, out, count, nccl_dtypes[dtype], nccl_ops[op], n->comm, stream);
    return n->error ? SYMM_ERROR_DRIVER : SYMM_OK;
}

symm_status nccl_broadcast(struct nccl *n, const void *in, void *out, size_t count,
                           symm_dtype dtype, int root, symm_stream stream)
{
    n->error = n->broadcast(in, out, count, nccl_dtypes[dtype], root, n->comm, stream);
    return n->error ? SYMM_ERROR_DRIVER : SYMM_OK;
}

const char *nccl_error(const struct nccl *n)
{
    return n && n->error ? n->get_error_string(n->error) : NULL;
}
