/* The product for Hopper GPUs: whether it can run, supported operands, the launch. */
#ifndef SYMM_MATMUL_SM90_HOST_H
#define SYMM_MATMUL_SM90_HOST_H

#include "matmul/plan/plan.h"
#include "runtime/group/call.h"

/* How this process may use the Hopper kernels, for data that suit them. */
struct symm_wgmma {
    bool usable, splits; /* the persistent kernel, and the one that splits k */
    int shape;           /* of the first one's tiles, from 1 on; 0: by estimate */
    int plain;           /* the same of plain products; -1: never by the kernel for these */
};

/*
 * Sets *out: kernels are usable if they are enabled, the driver encodes tensor maps, and they are
 * compiled for this GPU. Allows the kernels of products with this view their shared memory. Local;
 * the primary context is current. Errors: ERROR_ARGUMENT (a setting), ERROR_DRIVER
 */
symm_status symm__wgmma_enable(const struct symm_context *ctx, const symm_view *view,
                               struct symm_wgmma *out);

/* Whether the kernel supports this run, with A as in `a`: layouts, addresses, and not alpha 0. */
bool symm__wgmma_suits(const struct symm_problem *p, const symm_shards *a);

/*
 * Launches the product of args; p with the run's data. sums: the problem that p's results are
 * collected for, whose D gets the sums if the product adds parts.
 */
symm_status symm__wgmma_enqueue(struct symm_call *call, const struct symm_problem *p,
                                const struct symm_problem *sums,
                                const struct symm_matmul_plan *plan, const symm_product_args *args);

/* Whether the kernel for plain products supports this run. All rows are in `a`. */
bool symm__plain_suits(const struct symm_problem *p, const symm_shards *a);

/* Launches the product of args by that kernel. All rows are in args->a.own. */
symm_status symm__plain_enqueue(struct symm_call *call, const struct symm_problem *p,
                                const struct symm_matmul_plan *plan, const symm_product_args *args);

/*
 * Launches the product of args by the kernel that splits k, as the plan says. All rows are in
 * args->a.own, and results go to D. sums: the problem whose D gets the sums, if args have packs.
 */
symm_status symm__split_enqueue(struct symm_call *call, const struct symm_problem *p,
                                const struct symm_problem *sums,
                                const struct symm_matmul_plan *plan, const symm_product_args *args);

/* Shared memory with which a matmul_push_free_sms block does not fit on an SM with this product. */
enum { SYMM_WGMMA_SENDER_NBYTES = 12 << 10 };

#endif
