/* The product on Hopper GPUs: whether this one can, and enqueueing it. */
#ifndef SYMM_MATMUL_WGMMA_H
#define SYMM_MATMUL_WGMMA_H

#include "matmul/transport/transport.h"

/*
 * Whether products of this process may take it: it is switched on, the driver describes tensors,
 * and the kernels have been compiled for this GPU. Then they are allowed their shared memory.
 * Local; the primary context is current. Errors: ERROR_ARGUMENT (a setting), ERROR_DRIVER
 */
symm_status symm__wgmma_look(const struct symm_context *ctx, bool *out);

/* Whether it multiplies what this run has. */
bool symm__wgmma_multiplies(const struct symm_matmul_run *run);

/* The product of args, which suits it: plan.h. */
symm_status symm__wgmma_enqueue(const struct symm_matmul_run *run, const symm_product_args *args);

#endif
