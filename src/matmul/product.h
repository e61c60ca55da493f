/* A product, and a run of it. */
#ifndef SYMM_MATMUL_PRODUCT_H
#define SYMM_MATMUL_PRODUCT_H

#include "matmul/collect/collect.h"
#include "matmul/sm90/host.h"
#include "matmul/transport/transport.h"
#include "runtime/group/group.h"

struct symm_matmul {
    struct symm_attachment attachment; /* of the group */
    struct symm_group *group;
    const struct symm_matmul_operation *operation;
    struct symm_problem problem;
    struct symm_matmul_plan plan;
    struct symm_transport transport;
    struct symm_collect collect;
    struct symm_product_trace trace;
    struct symm_wgmma wgmma;
    uint64_t number;                    /* of the creating call in the group: on all ranks */
    struct symm_cublas_product *cublas; /* for data that suit it; NULL: symm's kernels only.
                                           Of all of A; of a pipelined product, by shards */
};

struct symm_matmul_run {
    const struct symm_matmul *m;
    struct symm_call *call;
    struct symm_problem problem; /* with the run's data */
    struct symm_problem product; /* what the multiplier computes: see symm__collect_product() */
    symm_shards shards;          /* A as the product reads it */
    const struct symm_multiplier *multiplier;
    bool sends; /* transfers may have been enqueued */
};

/* A kind of product. Adding one is a row of the table in operation.c. */
struct symm_matmul_operation {
    const char *name;
    bool collective; /* all ranks of the group create it and make each run; else it is local */
    /* Pure: the same on all ranks. columns and p's k: the maximum over the ranks. */
    struct symm_matmul_plan (*plan)(const struct symm_matmul_limits *limits,
                                    const struct symm_problem *p, int64_t columns);
    /*
     * Prepares memory, signals and streams, on all ranks before any of them signals. Collective.
     * NULL: the operation is local.
     */
    symm_status (*prepare)(struct symm_call *call, struct symm_matmul *m);
    /* Enqueues a run's transfers and products, by strategy of the plan. */
    symm_status (*run[SYMM_STRATEGY_UNFUSED + 1])(struct symm_matmul_run *run);
    /* Enqueues the work after them, by problem; or NULL. */
    symm_status (*finish)(struct symm_matmul_run *run);
};

/* NULL: there is no such kind. */
const struct symm_matmul_operation *symm__matmul_operation(symm_matmul_kind kind);

/* A vote of the ranks in this call. */
symm_status symm__matmul_vote(struct symm_call *call, struct symm_vote *vote);

/* An implementation of products: cuBLASLt, the Hopper kernel or the portable kernel. */
struct symm_multiplier {
    bool (*suits)(const struct symm_matmul_run *run);
    symm_status (*enqueue)(const struct symm_matmul_run *run, const symm_product_args *args);
    uint32_t sender_nbytes; /* see symm_round */
    uint32_t adds;          /* the ways of sums that it can be a part of: bits 1 << symm_sums */
};

/* Picks the first multiplier that suits the run's problem and shards. */
void symm__matmul_choose(struct symm_matmul_run *run);

/* Whether the run's multiplier can do its part of the sums that the plan has: see symm_parts. */
bool symm__matmul_adds(const struct symm_matmul_run *run);

/* Enqueues the products with the shards of steps [first_step, last_step). */
symm_status symm__matmul_multiply(const struct symm_matmul_run *run, int first_step, int last_step);

#endif
