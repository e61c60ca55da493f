/*
 * The check of a sum over ranks, a residual and an RMS norm of rows:
 *
 *     sum          = in_0 + in_1 + ..., in fp32 in the order of the ranks, rounded to the type
 *     residual_out = sum + residual, in fp32, rounded
 *     out          = residual_out / sqrt(mean of its squares over the row + eps) * weight
 */
#ifndef SYMM_TOOLS_NORMS_H
#define SYMM_TOOLS_NORMS_H

#include "sums.h"

struct norms_asked {
    sums_source source; /* of `in`; NULL: that of sums_fill() */
    uint64_t seed;
    int nranks;
    size_t rows, hidden;
    double eps;
    const void *residual, *weight; /* on the host; NULL: zeros, ones */
    /* Of an element of `out`, before it is rounded; 0: (12 + hidden / 16384) 2^-23. */
    double relative_error;
};

struct norms_verdict {
    uint64_t wrong_residuals, wrong_norms;          /* elements */
    uint64_t first;                                 /* the first of them, */
    char got[ELEMENT_TEXT], expected[ELEMENT_TEXT]; /* in words */
};

/*
 * Compares every element of both outputs, of a type of 16 bits. A residual must have the right
 * bits; any NaN equals any other. A norm must be within the error of that of its residual.
 */
void norms_check(const struct element *e, const void *out, const void *residual_out,
                 const struct norms_asked *asked, struct norms_verdict *verdict);

#endif
