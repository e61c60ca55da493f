/* The product for Hopper GPUs: whether it can run, what it takes, its launch. */
#ifndef SYMM_MATMUL_SM90_HOST_H
#define SYMM_MATMUL_SM90_HOST_H

#include "matmul/plan/plan.h"
#include "runtime/group/call.h"

/*
 * Whether this process may use the Hopper kernel: it is switched on, the driver encodes tensor
 * maps, and the kernels are compiled for this GPU. If so, allows the kernels their shared memory.
 * Local; the primary context is current. Errors: ERROR_ARGUMENT (a setting), ERROR_DRIVER
 */
symm_status symm__wgmma_look(const struct symm_context *ctx, bool *out);

/* Whether the kernel takes this run, with A as in `a`: layouts and addresses, and not alpha 0. */
bool symm__wgmma_suits(const struct symm_problem *p, const symm_shards *a);

/* Launches the product of args; p with the run's data. */
symm_status symm__wgmma_enqueue(struct symm_call *call, const struct symm_problem *p,
                                const struct symm_matmul_plan *plan, const symm_product_args *args);

/* Shared memory of a matmul_push_free_sms block that finds no room on an SM with this product. */
enum { SYMM_WGMMA_SENDER_NBYTES = 12 << 10 };

#endif
