/* Chooses the variants of a product to measure: symm's and the peers'. */
#ifndef SYMM_BENCH_MATMUL_VARIANTS_H
#define SYMM_BENCH_MATMUL_VARIANTS_H

#include "operations/product.h"
#include "session.h"

enum { MATMUL_MAX_VARIANTS = 11 };

struct matmul_peers {
    struct nccl *nccl; /* NULL if it is not wanted, or not there: */
    struct cublas *cublas;
    char why_nccl[512], why_cublas[512];
};

/* Opens the peers that the options want. */
symm_status matmul_peers_open(const struct session *s, struct matmul_peers *peers);

/* The ranks of a product: with --as-if, its number. */
int matmul_nranks(const struct session *s);

/*
 * Lists the variants that run at a shape, at most MATMUL_MAX_VARIANTS. Reports the others at the
 * first shape. A variant that an option names is refused at any shape.
 */
symm_status matmul_variants(struct session *s, const struct matmul_peers *peers,
                            const struct cublas_shape *shape, bool first,
                            const struct product_variant **out, int *n);

#endif
