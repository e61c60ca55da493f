/* All-reduces of rows with residual and norm, which have more tensors than in and out. */
#ifndef SYMM_TOOLS_NORM_H
#define SYMM_TOOLS_NORM_H

#include "operation.h"
#include "oracle/norms.h"

#define NORM_EPS 1e-5f

/* Device memory. Residual and weight are the same on all ranks. */
struct norm_tensors {
    size_t hidden;           /* elements of a row */
    char *residual, *weight; /* inputs */
    char *residual_out;
    char *host_residual, *host_weight, *host_residual_out; /* copies on the host */
};

/* The whole rows that are nearest to count elements; one at least, unless count is 0. */
size_t norm_count(size_t count, size_t hidden);

/* Makes residual and weight on the host, by the seed. */
void norm_fill(const struct norm_tensors *t, const struct element *e, size_t count, uint64_t seed);

/* Stream-ordered. */
symm_status norm_enqueue(const struct operation_call *call);

/* Compares `out` and host_residual_out with the reference for inputs of sums_fill(). */
void norm_check(const struct operation_call *call, const void *out, uint64_t seed,
                struct norms_verdict *verdict);

#endif
