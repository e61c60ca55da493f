/* Trials of cuBLASLt's algorithms for a product, on scratch memory, to pick the fastest one. */
#ifndef SYMM_MATMUL_CUBLAS_TRIAL_H
#define SYMM_MATMUL_CUBLAS_TRIAL_H

#include "candidates.h"
#include "cublas.h"

struct symm_cublas_trial {
    const struct symm_driver *drv;
    const struct cublaslt *lt;
    CUstream stream;
    CUevent begin, end;
    CUdeviceptr memory; /* operands, and a workspace */
    bool busy;          /* a run has not ended in time: the device still uses the memory */
};

/* A product whose algorithms a trial times. */
struct symm_cublas_tried {
    const struct cublaslt_product *product;
    const struct symm_cublas_candidates *candidates;
    struct symm_problem problem; /* the same product: of one rank, with one b */
    bool flipped;                /* a is the problem's b */
    const struct symm_cublas_rival *rival;
};

/* The memory that trials of a product need. Pure. */
uint64_t symm__cublas_trial_nbytes(const struct cublaslt_shape *shape);

/*
 * Takes this much memory, cleared, and a stream. Local; the primary context is current. Errors:
 * ERROR_DRIVER, ERROR_MEMORY; *out is then still to be closed.
 */
symm_status symm__cublas_trial_open(const struct symm_driver *drv, const struct cublaslt *lt,
                                    uint64_t nbytes, struct symm_cublas_trial *out);
/*
 * Times the candidates of a product, and picks the fastest one: in any order of all, else of the
 * first one and those with its bits. Times the rival, too, if it has these bits.
 * Waits for the device. Errors, and nothing is picked: ERROR_DRIVER; ERROR_MEMORY; ERROR_TIMEOUT: a
 * run has not ended within some seconds.
 */
symm_status symm__cublas_trial_pick(struct symm_cublas_trial *t,
                                    const struct symm_cublas_tried *tried,
                                    struct symm_cublas_pick *pick);
/* Enqueues a candidate: of n algorithms, or behind them the rival. Returns whether it runs. */
bool symm__cublas_trial_enqueue(const struct symm_cublas_trial *t,
                                const struct symm_cublas_tried *tried,
                                const struct cublaslt_operands *on,
                                const cublaslt_heuristic *algorithms, int n, int candidate);
/* Waits until the device has done what the trial has enqueued. Errors: ERROR_DRIVER, _TIMEOUT */
symm_status symm__cublas_trial_await(struct symm_cublas_trial *t);
/* Releases the stream, and the memory unless the trial is busy. May wait for the device. */
void symm__cublas_trial_close(struct symm_cublas_trial *t);

#endif
