/* symm's kernels as a candidate of trials: a product as SYMM_MATMUL_SAME_BITS would have it. */
#ifndef SYMM_MATMUL_RIVAL_H
#define SYMM_MATMUL_RIVAL_H

#include "matmul/cublas/cublas.h"
#include "product.h"

struct symm_rival {
    struct symm_cublas_rival base;
    const struct symm_call *call; /* that creates the product */
    const struct symm_matmul *m;
};

/*
 * Sets *out. Returns what trials take: NULL if the Hopper kernel cannot run, or if the product is
 * traced, since its kernels are slower. Products that do not suit the kernel fail.
 */
const struct symm_cublas_rival *symm__rival(const struct symm_call *call,
                                            const struct symm_matmul *m, struct symm_rival *out);

/* The plan of a product of one rank by symm's kernels. */
struct symm_matmul_plan symm__rival_plan(const struct symm_matmul *m, const struct symm_problem *p);

#endif
