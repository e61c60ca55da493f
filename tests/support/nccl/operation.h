/* Collectives and transfers, as host functions of their streams. */
#ifndef STANDIN_OPERATION_H
#define STANDIN_OPERATION_H

#include "comm.h"

enum operation_kind {
    OPERATION_ALL_REDUCE,
    OPERATION_REDUCE_SCATTER,
    OPERATION_REDUCE,
    OPERATION_ALL_GATHER,
    OPERATION_BROADCAST,
    OPERATION_SEND,
    OPERATION_RECV
};

struct operation {
    ncclComm_t comm;
    CUstream stream;
    enum operation_kind kind;
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    struct scale scale;  /* used: op is ncclSum of scaled elements */
    int root;            /* or the other rank of a transfer */
    unsigned registered; /* bits: what it sends, what it receives is registered memory */
    uint64_t number;
    void *scaled; /* this rank's elements, while it runs */
};

/*
 * Enqueues operations of one communicator in one host function, which sends everything before it
 * receives anything. It waits for all their streams, and they wait for it.
 */
ncclResult_t operations_enqueue(const struct operation *operations, size_t n);

#endif
