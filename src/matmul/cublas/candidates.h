/*
 * The algorithms of cuBLASLt that may compute a product: its own proposals, and on Hopper GPUs
 * configurations with the tiles that fit the shape best. All split k into the same number of parts,
 * which depends on the shape and the GPU alone, so they have the same bits.
 */
#ifndef SYMM_MATMUL_CUBLAS_CANDIDATES_H
#define SYMM_MATMUL_CUBLAS_CANDIDATES_H

#include "matmul/plan/cublas_tiles.h"
#include "library.h"

enum {
    SYMM_CUBLAS_PROPOSALS = 8,
    SYMM_CUBLAS_CLUSTERS = 3,
    SYMM_CUBLAS_CANDIDATES = SYMM_CUBLAS_PROPOSALS + SYMM_CUBLAS_TILES * SYMM_CUBLAS_CLUSTERS
};

/* The first one is used where no trial picks one. */
struct symm_cublas_candidates {
    cublaslt_heuristic algorithms[SYMM_CUBLAS_CANDIDATES];
    int n;
};

/*
 * Lists the candidates of a product. any_order: proposals with other parts of k, too. Returns
 * false, with the reason, if there is none.
 */
bool symm__cublas_candidates(const struct symm_cublas *c, const struct cublaslt_shape *shape,
                             const struct cublaslt_product *product, bool any_order,
                             struct symm_cublas_candidates *out, char why[CUBLASLT_WHY]);

#endif
