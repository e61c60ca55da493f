/*
 * Products of few rows by cuBLASLt, which splits k if there are fewer tiles than SMs. It is opened
 * at run time if it is installed. symm's own kernels compute all other products.
 */
#ifndef SYMM_MATMUL_CUBLAS_H
#define SYMM_MATMUL_CUBLAS_H

#include "runtime/group/context.h"
#include "matmul/plan/problem.h"

struct symm_cublas_product;

/*
 * Prepares products whose A is complete before they begin: nothing is gathered, or an all-gather
 * comes first. *out is NULL if cuBLASLt cannot compute them: it is disabled or not installed,
 * the driver is emulated, there are more than SYMM_FEW_ROWS rows, a bias, an activation, types or a
 * layout that it does not support.
 *
 * Local; any thread; the primary context is current. Errors: ERROR_ARGUMENT (a setting)
 */
symm_status symm__cublas_prepare(struct symm_context *ctx, const struct symm_problem *p,
                                 struct symm_cublas_product **out);
/* Releases the products; their runs are done. Never waits. NULL is fine. */
void symm__cublas_release(struct symm_cublas_product *product);

/* The destination of a copy of A before the products; data NULL: A is one matrix already. */
const symm_matrix *symm__cublas_packed(const struct symm_cublas_product *product);

/*
 * Whether cuBLASLt can compute this run, with all of A at `a`: the data have the alignment that the
 * products were prepared for, and alpha is not 0.
 */
bool symm__cublas_suits(const struct symm_problem *p, const void *a);

/* Enqueues the products, of data that suit. Stream-ordered. Errors: ERROR_DRIVER */
symm_status symm__cublas_enqueue(const struct symm_cublas_product *product,
                                 const struct symm_problem *p, const void *a, CUstream stream);

#endif
