/* The launch of the portable product. */
#ifndef SYMM_MATMUL_PORTABLE_HOST_H
#define SYMM_MATMUL_PORTABLE_HOST_H

#include "matmul/plan/plan.h"
#include "runtime/group/call.h"

/* Launches the product of args; any problem. */
symm_status symm__portable_enqueue(struct symm_call *call, const struct symm_problem *p,
                                   const struct symm_matmul_plan *plan,
                                   const symm_product_args *args);

/* Shared memory with which a matmul_push_free_sms block does not fit on an SM with this product. */
enum { SYMM_PORTABLE_SENDER_NBYTES = 24 << 10 };

#endif
