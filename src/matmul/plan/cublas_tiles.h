/*
 * Which tiles of cuBLASLt's kernel for Hopper GPUs fit a product, and into how many parts k is
 * split. Fitted to an H200 GPU (docs/notes/products.md). Pure.
 */
#ifndef SYMM_MATMUL_CUBLAS_TILES_H
#define SYMM_MATMUL_CUBLAS_TILES_H

#include <stdint.h>

/* Of a batch of products with column-major d. */
struct symm_cublas_extents {
    uint64_t rows, columns; /* of d */
    uint64_t k;
    int32_t batches;
};

struct symm_cublas_tile {
    int rows, columns;
};

enum { SYMM_CUBLAS_TILES = 6 };

/* The parts of k: they depend on the extents and the SMs alone. */
int symm__cublas_k_parts(const struct symm_cublas_extents *x, int nsms);

/* The tiles with the lowest estimated times, best first. Returns their number. */
int symm__cublas_tiles(const struct symm_cublas_extents *x, int nsms,
                       struct symm_cublas_tile out[SYMM_CUBLAS_TILES]);

#endif
