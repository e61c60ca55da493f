/*
 * Products by cuBLASLt, which has kernels for all shapes. It is opened at run time if it is
 * installed. symm's own kernels compute all other products.
 */
#ifndef SYMM_MATMUL_CUBLAS_H
#define SYMM_MATMUL_CUBLAS_H

#include "runtime/group/context.h"
#include "matmul/plan/problem.h"

struct symm_cublas_product;

/* symm's kernels, as another candidate of trials. */
struct symm_cublas_rival {
    /* Enqueues the product of p, which is of one rank and has its data. Stream-ordered. */
    symm_status (*enqueue)(const struct symm_cublas_rival *rival, const struct symm_problem *p,
                           CUstream stream);
    bool one_matrix; /* its kernels have all rows as one matrix */
};

/* Measured times, us, of all products; 0: not measured. */
struct symm_cublas_times {
    double cublas, own; /* own: by the rival */
};

/*
 * Prepares products of all rows of A, or if nshares is not 1, of the rows that one of that many
 * ranks has. The rows are complete before their product begins. *out is NULL if cuBLASLt cannot
 * compute them: it is disabled or not installed, the driver is emulated, the problem wants the same
 * bits or rows that arrive during a product, it has a bias, an activation, types or a layout that
 * cuBLASLt does not support.
 *
 * Local; any thread; the primary context is current. Errors: ERROR_ARGUMENT (a setting)
 */
symm_status symm__cublas_prepare(struct symm_context *ctx, const struct symm_problem *p,
                                 int nshares, struct symm_cublas_product **out);
/*
 * Times the products by trials, which wait for the device. The times are 0 if trials fail, are not
 * wanted, or would be too long. So they are if the bits of a run would depend on which is faster:
 * unless any order is allowed, or the rival has the same bits. NULL is fine for both.
 */
struct symm_cublas_times symm__cublas_measure(struct symm_cublas_product *product,
                                              const struct symm_cublas_rival *rival);
/*
 * Lets the products take the fastest of their candidates, by trials: with any_order of all, else of
 * those with the same bits as the first one. If they fail, or would be too long, the products take
 * the first candidate. Then takes their memory. Releases them, and *product is NULL,
 * if there is none, or if the rival is faster with these bits. Once, before the first run.
 */
void symm__cublas_settle(struct symm_cublas_product **product,
                         const struct symm_cublas_rival *rival);
/* Releases the products; their runs are done. Never waits. NULL is fine. */
void symm__cublas_release(struct symm_cublas_product *product);

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
