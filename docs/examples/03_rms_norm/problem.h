/* The problem and its solution on the host, for both programs: what goes in, what must come out. */
#ifndef PROBLEM_H
#define PROBLEM_H

#include "fused.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct problem {
    uint64_t seed;
    int32_t rows, hidden;
    float eps;
    int roundings;        /* of a sum with its bias to its norm; 1: only the norm is rounded */
    uint32_t threads;     /* of a block, enough for a row */
    size_t nbytes;        /* of x and of y */
    symm_bf16 *x, *y;     /* [rows, hidden] */
    symm_bf16 *bias_gain; /* [2, hidden] */
} problem;

/*
 * Rows and hidden from the command line, if there. Allocates, and fills x with what this rank
 * has. 0, or what main shall return.
 */
int problem_create(problem *p, int argc, char **argv, int rows, int hidden);
void problem_fill(problem *p, uint64_t seed, int rank);
/* How many elements of y are not what they should be, by a computation in double precision. */
long problem_count_wrong(const problem *p, int nranks);
void problem_destroy(problem *p);

#ifdef __cplusplus
}
#endif

#endif
