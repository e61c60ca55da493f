/*
 * Products by cuBLASLt, which has kernels for all shapes. It is opened at run time if it is
 * installed. symm's own kernels compute all other products.
 */
#ifndef SYMM_MATMUL_CUBLAS_H
#define SYMM_MATMUL_CUBLAS_H

#include "runtime/group/context.h"
#include "matmul/plan/problem.h"

struct symm_cublas_product;

/*
 * Prepares products of all rows of A, or if nshares is not 1, of the rows that one of that many
 * ranks has. The rows are complete before their product begins. *out is NULL if cuBLASLt cannot
 * compute them: it is disabled or not installed, the driver is emulated, the problem wants the same
 * bits or rows that arrive during a product, it has a bias, an activation, types or a layout that
 * cuBLASLt does not support. In any order, and if trials are wanted, the products are timed.
 *
 * Local; any thread; the primary context is current. Errors: ERROR_ARGUMENT (a setting)
 */
symm_status symm__cublas_prepare(struct symm_context *ctx, const struct symm_problem *p,
                                 int nshares, struct symm_cublas_product **out);
/*
 * Lets the products take the fastest of cuBLASLt's first algorithms, by trials: with any_order of
 * all, else of those with the same bits as the first one. Trials wait for the device. If they fail,
 * or would be too long, the products take the first algorithm. Then takes their memory; if there is
 * none, releases them, and *product is NULL. Once, before the first run.
 */
void symm__cublas_settle(struct symm_cublas_product **product);
/* Releases the products; their runs are done. Never waits. NULL is fine. */
void symm__cublas_release(struct symm_cublas_product *product);

/* The measured time of all products; 0: not measured. NULL is fine. */
double symm__cublas_us(const struct symm_cublas_product *product);

/* The destination of a copy of A before the products; data NULL: A is one matrix already. */
const symm_matrix *symm__cublas_packed(const struct symm_cublas_product *product);

/*
 * Whether cuBLASLt can compute this run, with A, or this rank's shard of it, at `a`: the data have
 * the alignment that the products were prepared for, and alpha is not 0.
 */
bool symm__cublas_suits(const struct symm_cublas_product *product, const struct symm_problem *p,
                        const void *a);

/*
 * Enqueues the products of rows [first_row, first_row + rows), which are at `a`: all rows, or those
 * of one rank. The data suit. Stream-ordered. Errors: ERROR_DRIVER
 */
symm_status symm__cublas_enqueue(const struct symm_cublas_product *product,
                                 const struct symm_problem *p, const void *a, int32_t first_row,
                                 int32_t rows, CUstream stream);

#endif
