/*
 * Which of cuBLASLt's algorithms for a product give the same bits. Algorithms that add in the same
 * order do so for all data. Others are told apart by operands whose sums cancel: their results are
 * what rounding has left of the partial sums.
 */
#ifndef SYMM_MATMUL_CUBLAS_BITS_H
#define SYMM_MATMUL_CUBLAS_BITS_H

#include "trial.h"

/*
 * Enqueues such operands to the trial's memory, for the first product of a batch. Waits for earlier
 * work of the trial. Errors: as symm__cublas_trial_pick(), ERROR_MEMORY.
 */
symm_status symm__cublas_fill(struct symm_cublas_trial *t, const struct cublaslt_shape *s,
                              const struct cublaslt_operands *on);

/*
 * Keeps the first of *n algorithms that runs, and the others with the same bits, in their order. *n
 * may become 0. *rival: whether the rival counts; it does no longer if its bits are others. The
 * operands have been filled. Waits for the device. Errors, and *n is as before: as
 * symm__cublas_trial_pick(), ERROR_MEMORY.
 */
symm_status symm__cublas_keep_same(struct symm_cublas_trial *t, const struct symm_cublas_pick *pick,
                                   const struct symm_cublas_tried *tried,
                                   const struct cublaslt_operands *on,
                                   cublaslt_heuristic *algorithms, int *n, bool *rival);

#endif
