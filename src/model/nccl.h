/*
 * What a collective of NCCL takes, by the model and the constants that NCCL 2.30.7 chooses its
 * algorithms with (its src/graph/tuning.cc): rings, trees, trees by multicast, and PAT for one GPU
 * of each host, each with its protocols. Hopper GPUs, hosts with processors of Intel. Pure.
 */
#ifndef SYMM_NCCL_MODEL_H
#define SYMM_NCCL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

enum symm_model_operation {
    SYMM_MODEL_ALL_REDUCE,
    SYMM_MODEL_ALL_GATHER,
    SYMM_MODEL_REDUCE_SCATTER,
    SYMM_MODEL_OPERATIONS
};

enum { SYMM_MODEL_CHANNEL = 24000 /* bytes per us: GB/s times 1000 */ };

struct symm_nccl_call {
    enum symm_model_operation operation;
    uint64_t nbytes; /* of the whole buffer */
    uint32_t nhosts; /* at least 2 */
    uint32_t width;  /* GPUs of each host */
    uint32_t channels;
    bool nvls; /* trees by multicast, of an all-reduce */
};

/* The time of its fastest algorithm. */
uint64_t symm__nccl_ns(const struct symm_nccl_call *call);

#endif
