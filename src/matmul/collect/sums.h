/*
 * Sums of all ranks' products by the group's collectives. An unfused product leaves its partial
 * sums in the workspace, without gaps and in the order of D. Then a reduce-scatter or an all-reduce
 * of each d puts the sums into D.
 */
#ifndef SYMM_MATMUL_SUMS_H
#define SYMM_MATMUL_SUMS_H

#include "collectives/algorithms.h"
#include "matmul/plan/problem.h"
#include "runtime/group/call.h"

/*
 * The order of the elements of all d, if this rank's D can be the output of collectives; 0: it
 * cannot. They can make the sums if all ranks have the same order, and it is not 0. Pure.
 */
int64_t symm__sums_order(const struct symm_problem *p);

/* The estimated time of the collectives, with these limits. The same on all ranks. Pure. */
double symm__sums_us(const struct symm_limits *limits, const struct symm_problem *p);

/* Makes the areas that the collectives would be slower without. Collective. */
symm_status symm__sums_provide(struct symm_call *call, const struct symm_problem *p);

/* Enqueues the collectives from the d of `product`, in the workspace, to the d of p. */
symm_status symm__sums_enqueue(struct symm_call *call, const struct symm_problem *product,
                               const struct symm_problem *p);

#endif
