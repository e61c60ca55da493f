/*
 * The part of NCCL's binary interface that a library in its place must see: types, numbers, and one
 * list of functions. Names, numbers and layouts are those of NCCL 2.32; all of them hold since the
 * version that introduced the name (nccl_names.def). NCCL's own header is not needed.
 */
#ifndef SYMM_NCCL_ABI_H
#define SYMM_NCCL_ABI_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cuda_driver.h"

/* As ncclGetVersion returns it: major * 10000 + minor * 100 + patch. */
#define NCCL_ABI_VERSION 23203

typedef struct ncclComm *ncclComm_t;
typedef struct ncclWindow_vidmem *ncclWindow_t;

typedef struct ncclUniqueId {
    char internal[128];
} ncclUniqueId;

/* X(name, number, text): the results, with our texts. */
#define NCCL_RESULTS(X)                                                                            \
    X(ncclSuccess, 0, "no error")                                                                  \
    X(ncclUnhandledCudaError, 1, "a CUDA call failed")                                             \
    X(ncclSystemError, 2, "a system call failed")                                                  \
    X(ncclInternalError, 3, "an internal check failed")                                            \
    X(ncclInvalidArgument, 4, "an argument is invalid")                                            \
    X(ncclInvalidUsage, 5, "the call is not allowed here")                                         \
    X(ncclRemoteError, 6, "another rank failed or is gone")                                        \
    X(ncclInProgress, 7, "the operation has not finished")                                         \
    X(ncclTimeout, 8, "the operation took too long")

typedef enum ncclResult_t {
#define NCCL_ENUM_(name, number, text) name = number,
    NCCL_RESULTS(NCCL_ENUM_)
#undef NCCL_ENUM_
} ncclResult_t;

typedef enum ncclDataType_t {
    ncclInt8 = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclFloat32 = 7,
    ncclFloat64 = 8,
    ncclBfloat16 = 9,
    ncclFloat8e4m3 = 10,
    ncclFloat8e5m2 = 11,
    ncclNumTypes = 12
} ncclDataType_t;

typedef enum ncclRedOp_t {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
    ncclNumOps = 5, /* the least that ncclRedOpCreatePreMulSum returns */
    ncclMaxRedOp = INT_MAX
} ncclRedOp_t;

typedef enum ncclScalarResidence_t {
    ncclScalarDevice = 0,       /* read when the operation runs */
    ncclScalarHostImmediate = 1 /* read before the call returns */
} ncclScalarResidence_t;

enum {
    NCCL_SPLIT_NOCOLOR = -1, /* the rank gets no communicator */
    NCCL_SHRINK_ABORT = 1,   /* first, the parent's calls that are under way end */
    NCCL_CONFIG_UNDEF_INT = INT_MIN,
    NCCL_WIN_DEFAULT = 0,
    NCCL_WIN_COLL_SYMMETRIC = 1 /* all ranks pass the same offset of a window in each call */
};

/* `magic` of the structs that begin with their size. */
#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_SIM_INFO_MAGIC 0x74685283u

/* A caller built for an older version passes fewer fields: `size` tells how many bytes. */
typedef struct ncclConfig_t {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cgaClusterSize;
    int minCTAs;
    int maxCTAs;
    const char *netName;
    int splitShare; /* the last of 2.18 */
    int trafficClass;
    const char *commName;
    int collnetEnable;
    int CTAPolicy;
    int shrinkShare;
    int nvlsCTAs;
    int nChannelsPerNetPeer;
    int nvlinkCentricSched;
    int graphUsageMode;
    int numRmaCtx;
    int maxP2pPeers;
    int graphStreamOrdering;
    int launchOrderImplicit;
    int numRmaSig;
    int rmaEagerInit;
    int hostCftMode;
    int nvlsHostMode;
} ncclConfig_t;

typedef struct ncclSimInfo_t {
    size_t size;
    unsigned int magic;
    unsigned int version;
    float estimatedTime;
} ncclSimInfo_t;

/* Of the ...Config variants of the collectives, since 2.31. */
typedef struct ncclCollConfig_t ncclCollConfig_t;

/* X(type, name, parameters, arguments), of which each also exists as pname. */
#define NCCL_FUNCTIONS(X)                                                                          \
    X(ncclResult_t, ncclGetVersion, (int *version), (version))                                     \
    X(const char *, ncclGetErrorString, (ncclResult_t result), (result))                           \
    X(const char *, ncclGetLastError, (ncclComm_t comm), (comm))                                   \
    X(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id), (id))                                    \
    X(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank),  \
      (comm, nranks, id, rank))                                                                    \
    X(ncclResult_t, ncclCommInitRankConfig,                                                        \
      (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config),            \
      (comm, nranks, id, rank, config))                                                            \
    X(ncclResult_t, ncclCommInitRankScalable,                                                      \
      (ncclComm_t * comm, int nranks, int rank, int nids, ncclUniqueId *ids,                       \
       ncclConfig_t *config),                                                                      \
      (comm, nranks, rank, nids, ids, config))                                                     \
    X(ncclResult_t, ncclCommInitAll, (ncclComm_t * comms, int ndevices, const int *devices),       \
      (comms, ndevices, devices))                                                                  \
    X(ncclResult_t, ncclCommSplit,                                                                 \
      (ncclComm_t comm, int color, int key, ncclComm_t *child, ncclConfig_t *config),              \
      (comm, color, key, child, config))                                                           \
    X(ncclResult_t, ncclCommShrink,                                                                \
      (ncclComm_t comm, int *excluded, int nexcluded, ncclComm_t *child, ncclConfig_t *config,     \
       int flags),                                                                                 \
      (comm, excluded, nexcluded, child, config, flags))                                           \
    X(ncclResult_t, ncclCommGrow,                                                                  \
      (ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *grown,           \
       ncclConfig_t *config),                                                                      \
      (comm, nranks, id, rank, grown, config))                                                     \
    X(ncclResult_t, ncclCommFinalize, (ncclComm_t comm), (comm))                                   \
    X(ncclResult_t, ncclCommDestroy, (ncclComm_t comm), (comm))                                    \
    X(ncclResult_t, ncclCommAbort, (ncclComm_t comm), (comm))                                      \
    X(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int flags), (comm, flags))                   \
    X(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t * error), (comm, error)) \
    X(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count), (comm, count))             \
    X(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device), (comm, device))        \
    X(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank), (comm, rank))            \
    X(ncclResult_t, ncclMemAlloc, (void **ptr, size_t nbytes), (ptr, nbytes))                      \
    X(ncclResult_t, ncclMemFree, (void *ptr), (ptr))                                               \
    X(ncclResult_t, ncclCommRegister,                                                              \
      (const ncclComm_t comm, void *ptr, size_t nbytes, void **handle),                            \
      (comm, ptr, nbytes, handle))                                                                 \
    X(ncclResult_t, ncclCommDeregister, (const ncclComm_t comm, void *handle), (comm, handle))     \
    X(ncclResult_t, ncclCommWindowRegister,                                                        \
      (ncclComm_t comm, void *ptr, size_t nbytes, ncclWindow_t *window, int flags),                \
      (comm, ptr, nbytes, window, flags))                                                          \
    X(ncclResult_t, ncclCommWindowDeregister, (ncclComm_t comm, ncclWindow_t window),              \
      (comm, window))                                                                              \
    X(ncclResult_t, ncclRedOpCreatePreMulSum,                                                      \
      (ncclRedOp_t * op, void *scalar, ncclDataType_t type, ncclScalarResidence_t residence,       \
       ncclComm_t comm),                                                                           \
      (op, scalar, type, residence, comm))                                                         \
    X(ncclResult_t, ncclRedOpDestroy, (ncclRedOp_t op, ncclComm_t comm), (op, comm))               \
    X(ncclResult_t, ncclGroupStart, (void), ())                                                    \
    X(ncclResult_t, ncclGroupEnd, (void), ())                                                      \
    X(ncclResult_t, ncclGroupSimulateEnd, (ncclSimInfo_t * info), (info))                          \
    X(ncclResult_t, ncclAllReduce,                                                                 \
      (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,            \
       ncclComm_t comm, CUstream stream),                                                          \
      (send, recv, count, type, op, comm, stream))                                                 \
    X(ncclResult_t, ncclReduceScatter,                                                             \
      (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,            \
       ncclComm_t comm, CUstream stream),                                                          \
      (send, recv, count, type, op, comm, stream))                                                 \
    X(ncclResult_t, ncclAllGather,                                                                 \
      (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,           \
       CUstream stream),                                                                           \
      (send, recv, count, type, comm, stream))                                                     \
    X(ncclResult_t, ncclReduce,                                                                    \
      (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,  \
       ncclComm_t comm, CUstream stream),                                                          \
      (send, recv, count, type, op, root, comm, stream))                                           \
    X(ncclResult_t, ncclBroadcast,                                                                 \
      (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, \
       CUstream stream),                                                                           \
      (send, recv, count, type, root, comm, stream))                                               \
    X(ncclResult_t, ncclBcast,                                                                     \
      (void *ptr, size_t count, ncclDataType_t type, int root, ncclComm_t comm, CUstream stream),  \
      (ptr, count, type, root, comm, stream))                                                      \
    X(ncclResult_t, ncclSend,                                                                      \
      (const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,             \
       CUstream stream),                                                                           \
      (send, count, type, peer, comm, stream))                                                     \
    X(ncclResult_t, ncclRecv,                                                                      \
      (void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream), \
      (recv, count, type, peer, comm, stream))                                                     \
    X(ncclResult_t, ncclAlltoAll,                                                                  \
      (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,           \
       CUstream stream),                                                                           \
      (send, recv, count, type, comm, stream))                                                     \
    X(ncclResult_t, ncclGather,                                                                    \
      (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, \
       CUstream stream),                                                                           \
      (send, recv, count, type, root, comm, stream))                                               \
    X(ncclResult_t, ncclScatter,                                                                   \
      (const void *send, void *recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm, \
       CUstream stream),                                                                           \
      (send, recv, count, type, root, comm, stream))                                               \
    X(ncclResult_t, ncclAllReduceConfig,                                                           \
      (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,            \
       ncclComm_t comm, CUstream stream, const ncclCollConfig_t *config),                          \
      (send, recv, count, type, op, comm, stream, config))                                         \
    X(ncclResult_t, ncclReduceScatterConfig,                                                       \
      (const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,            \
       ncclComm_t comm, CUstream stream, const ncclCollConfig_t *config),                          \
      (send, recv, count, type, op, comm, stream, config))                                         \
    X(ncclResult_t, ncclAllGatherConfig,                                                           \
      (const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,           \
       CUstream stream, const ncclCollConfig_t *config),                                           \
      (send, recv, count, type, comm, stream, config))

#define NCCL_DECLARE_(type, name, parameters, arguments)                                           \
    __attribute__((visibility("default"))) type name parameters;                                   \
    __attribute__((visibility("default"))) type p##name parameters;
NCCL_FUNCTIONS(NCCL_DECLARE_)
#undef NCCL_DECLARE_

/*
 * Opens the NCCL that the process has loaded already, else `given`, else libnccl.so.2 by the
 * loader's search. Never symm's own library in NCCL's place, nor one that `refuse` (may be NULL)
 * refuses. NULL: *why.
 */
void *symm__nccl_open(const char *given, bool (*refuse)(void *library), const char **why);

#endif
