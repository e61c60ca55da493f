/* The operands and results of a product at one shape, for all its variants. */
#ifndef SYMM_BENCH_MATMUL_ROUND_H
#define SYMM_BENCH_MATMUL_ROUND_H

#include "operations/product.h"
#include "oracle/products.h"
#include "session.h"

struct matmul_round {
    struct session *s;
    const struct cublas_shape *shape;
    int rank, nranks;          /* of the product */
    struct product_buffers on; /* the device */
    struct products data;      /* on the host, with what d should be, */
    struct products part; /* and what this rank's product should be, if results are collected */
    bool has_data;        /* by this seed: */
    uint64_t seed;
    char *got;          /* a result on the host */
    char *kept;         /* another one to compare its bits with, */
    const char *keeper; /* the name of its variant; NULL: none yet */
};

/* Allocates the memory of s, shape, rank and nranks, which are set. Collective. */
symm_status matmul_round_open(struct matmul_round *r);
/* Frees the memory if st, which it returns, is SYMM_OK: else symmetric memory is the context's. */
symm_status matmul_round_close(struct matmul_round *r, symm_status st);

/* Makes the data of a seed, and with --check their products, unless it has them. */
symm_status matmul_round_offer(struct matmul_round *r, uint64_t seed);

/* Bytes of the result of a call. */
size_t matmul_result_nbytes(const struct products *expected);

#endif
