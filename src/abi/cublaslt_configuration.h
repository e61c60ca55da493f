/* Configurations of cuBLASLt's algorithms for Hopper GPUs: tiles, clusters, and parts of k. */
#ifndef SYMM_CUBLASLT_CONFIGURATION_H
#define SYMM_CUBLASLT_CONFIGURATION_H

#include "cublaslt.h"

/* Of a column-major d. */
struct cublaslt_configuration {
    int tile_rows, tile_columns;
    int cluster; /* CUBLASLT_CLUSTER_... */
    int k_parts;
};

/* cuBLASLt's number of a tile; 0: it has none, or symm does not use it. Pure. */
int symm__cublaslt_tile(int rows, int columns);

/* The parts of k of an algorithm; 0: cuBLASLt does not tell. */
int symm__cublaslt_k_parts(const struct cublaslt *lt, const cublaslt_heuristic *algorithm);

/*
 * Gives an algorithm of the product this configuration. Partial sums are added in fp32. Returns
 * false, and the algorithm is not usable, if cuBLASLt refuses that, or wants more workspace than
 * the shape has.
 */
bool symm__cublaslt_configure(const struct cublaslt *lt, const struct cublaslt_shape *shape,
                              const struct cublaslt_product *product,
                              const struct cublaslt_configuration *with,
                              cublaslt_heuristic *algorithm);

#endif
