/*
 * Which kernel an all-reduce takes, and with what grid. Pure: computed from what all ranks have
 * agreed on and from the call alone, never from where the data lie, since every rank must come to
 * the same grid.
 */
#ifndef SYMM_ALL_REDUCE_PLAN_H
#define SYMM_ALL_REDUCE_PLAN_H

#include <symm/collectives.h>
#include "../runtime/dtype.h"
#include "../runtime/kernel.h"

struct symm_all_reduce_machine {
    int nranks;                /* of the group */
    int nsms, max_threads;     /* of each rank's device, the least */
    int compute_major;         /* the lowest */
    const char *multicast_off; /* NULL: multimem can reach the group's memory */
    uint64_t staging_nbytes;   /* of each rank */
};

struct symm_all_reduce_call {
    symm_algo algo;
    uint32_t flags, max_blocks;
    symm_dtype dtype;
    symm_redop op;
    uint64_t count; /* at least 1 */
};

struct symm_all_reduce_plan {
    symm_algo algo; /* never AUTO */
    enum symm_kernel_id kernel;
    uint32_t blocks, threads;
};

/* Names in texts; NULL for values that are none of the enum's. */
const char *symm__redop_name(symm_redop op);
const char *symm__algo_name(symm_algo algo);

/* Why this cannot run here; NULL: it can. */
const char *symm__all_reduce_reason(const struct symm_all_reduce_machine *machine, symm_algo algo,
                                    symm_dtype dtype, symm_redop op);

/* The plan of a call that has no reason against it, for two ranks or more. */
struct symm_all_reduce_plan symm__all_reduce_plan(const struct symm_all_reduce_machine *machine,
                                                  const struct symm_all_reduce_call *call);

#endif
