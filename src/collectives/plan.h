/*
 * Which kernel a collective takes, and with what grid. Pure: computed from what all ranks have
 * agreed on and from the call alone, never from where the data lie, since every rank must come to
 * the same grid.
 */
#ifndef SYMM_PLAN_H
#define SYMM_PLAN_H

#include "collectives/kernels/ids.h"
#include "runtime/base/dtype.h"
#include "runtime/group/tuning.h"

struct symm_limits {
    int nranks;                       /* of the group */
    int nsms, max_threads;            /* of each rank's device, the least */
    int compute_major;                /* the lowest */
    const char *multicast_off;        /* NULL: multimem can reach the group's memory */
    uint64_t staging_nbytes;          /* of each rank */
    uint32_t block_packets;           /* of each block in the packet area */
    const struct symm_tuning *tuning; /* what AUTO goes by; NULL: by its model */
};

struct symm_collective_call {
    enum symm_operation operation;
    symm_algo algo;
    uint32_t flags, max_blocks;
    symm_dtype dtype;
    symm_redop op;  /* of an all-gather: SYMM_SUM, which means nothing */
    uint64_t count; /* at least 1; of one share, but in an all-reduce of everything */
};

struct symm_plan {
    symm_algo algo; /* never AUTO; with COPY_ENGINE the rest is 0 */
    symm_kernel_id kernel;
    uint32_t blocks, threads;
    uint64_t count, stride, share, slice; /* as in symm_collective_args */
    uint32_t room;
    bool early; /* it may begin while the kernel before it ends */
};

bool symm__algo_by_switch(symm_algo algo);

/* Bytes of the larger of in and out. */
uint64_t symm__collective_nbytes(const struct symm_limits *limits,
                                 const struct symm_collective_call *call);

/* Why this cannot run here; NULL: it can. */
const char *symm__collective_reason(const struct symm_limits *limits, enum symm_operation operation,
                                    symm_algo algo, symm_dtype dtype, symm_redop op);

/* The plan of a call that has no reason against it, for two ranks or more. */
struct symm_plan symm__plan(const struct symm_limits *limits,
                            const struct symm_collective_call *call);

#endif
