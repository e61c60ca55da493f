/*
 * Products of few rows by cuBLASLt, which splits k where there are not enough tiles for all
 * multiprocessors. It is opened at run time, if it is there: what it cannot have, symm's own
 * kernels multiply.
 */
#ifndef SYMM_MATMUL_CUBLAS_H
#define SYMM_MATMUL_CUBLAS_H

#include "runtime/group/context.h"
#include "matmul/plan/problem.h"

struct symm_cublas_product;

/*
 * Prepares products whose A is in one place before they begin: nothing is gathered, or by an
 * all-gather. *out is NULL where they are not left to cuBLASLt: it is switched off or not there,
 * the driver is emulated, there are more than SYMM_FEW_ROWS rows, a bias, an activation, types or a
 * layout that it does not have.
 *
 * Local; any thread; the primary context is current. Errors: ERROR_ARGUMENT (a setting)
 */
symm_status symm__cublas_prepare(struct symm_context *ctx, const struct symm_problem *p,
                                 struct symm_cublas_product **out);
/* Its runs are done. Waits for nothing. NULL is fine. */
void symm__cublas_forget(struct symm_cublas_product *product);

/* Where all of A is to be copied before its products; data NULL: it is one matrix as it is. */
const symm_matrix *symm__cublas_packed(const struct symm_cublas_product *product);

/*
 * Whether it multiplies this run, with all of A at `a`: the data are aligned as was said when it
 * was prepared, and alpha is not 0.
 */
bool symm__cublas_suits(const struct symm_problem *p, const void *a);

/* The products of data that suit it. Stream-ordered. Errors: ERROR_DRIVER */
symm_status symm__cublas_enqueue(const struct symm_cublas_product *product,
                                 const struct symm_problem *p, const void *a, CUstream stream);

#endif
