/* Which calls symm runs, and how. */
#ifndef SYMM_NCCL_TAKE_H
#define SYMM_NCCL_TAKE_H

#include "comm.h"
#include "scales.h"

enum nccl_operation { NCCL_ALL_REDUCE, NCCL_REDUCE_SCATTER, NCCL_ALL_GATHER, NCCL_OPERATIONS };

/* "allreduce", "reducescatter", "allgather": as SYMM_NCCL_FORWARD has them. */
const char *nccl__operation_name(enum nccl_operation operation);

struct nccl_call {
    struct nccl_comm *comm; /* NULL: not known */
    enum nccl_operation operation;
    const void *in;
    void *out;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op; /* of an all-gather: ncclSum */
    CUstream stream;
    bool scaled;             /* op is a sum of scaled elements: */
    struct nccl_scale scale; /* a copy, since a program may destroy it before the group ends */
};

/* 0: there is no such type. */
size_t nccl__type_nbytes(ncclDataType_t type);
/* The bytes of the larger buffer. */
size_t nccl__call_nbytes(const struct nccl_call *call);

/*
 * Whether symm runs the call. Depends only on arguments that NCCL demands to be equal on all ranks.
 */
bool nccl__takes(const struct nccl_call *call);

/* Enqueues a taken call. */
ncclResult_t nccl__take(const struct nccl_call *call);

#endif
