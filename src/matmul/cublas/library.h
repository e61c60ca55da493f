/*
 * cuBLASLt as a context has opened it: the library, device memory for its workspaces, and the
 * algorithms that trials have picked. Any thread.
 */
#ifndef SYMM_MATMUL_CUBLAS_LIBRARY_H
#define SYMM_MATMUL_CUBLAS_LIBRARY_H

#include "abi/cublaslt.h"
#include "runtime/group/context.h"
#include "runtime/group/group.h"

/* Device memory for cuBLASLt's partial sums, and for a copy of A. */
struct symm_cublas_memory {
    struct symm_cublas_memory *next;
    CUdeviceptr at;
    uint64_t nbytes;
};

/* An algorithm that trials have picked, with the shape and the flags of its product. */
struct symm_cublas_pick {
    struct symm_cublas_pick *next;
    struct cublaslt_shape shape;
    bool any_order, has_c;
    bool is_short;          /* there were trials of several candidates */
    bool rival, one_matrix; /* symm's kernels were to be tried, with all rows as one matrix */
    cublaslt_heuristic chosen;
    double us;     /* of one product */
    double own_us; /* the same by symm's kernels; 0: not tried, or with other bits */
};

struct symm_cublas {
    struct symm_attachment attachment; /* of the world */
    struct symm_context *ctx;
    struct cublaslt lt; /* handle NULL: not available */
    struct symm_cublas_memory
        *spare; /* of destroyed products: freeing it would wait for the device */
    struct symm_cublas_pick *picks;
};

/* Opens the library at the first call. NULL: it is not available. */
struct symm_cublas *symm__cublas_library(struct symm_context *ctx);

/* Takes device memory. NULL: there is none. */
struct symm_cublas_memory *symm__cublas_take(struct symm_cublas *c, uint64_t nbytes);
/* Gives it back for the next symm__cublas_take(). */
void symm__cublas_give(struct symm_cublas *c, struct symm_cublas_memory *memory);
/* Keeps memory that the device may still use until the context ends. */
void symm__cublas_keep(struct symm_cublas *c, CUdeviceptr memory);

/* Completes a pick whose first members are set, if there is one for the same. */
bool symm__cublas_recall(struct symm_cublas *c, struct symm_cublas_pick *pick);
/* Remembers a pick. Without memory for it, the next product has trials of its own. */
void symm__cublas_remember(struct symm_cublas *c, const struct symm_cublas_pick *pick);

#endif
