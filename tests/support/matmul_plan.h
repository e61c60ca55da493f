/* Many products, each with every strategy: the results are right, and mostly the same. */
#ifndef TEST_MATMUL_PLAN_H
#define TEST_MATMUL_PLAN_H

#include "matmul.h"

struct matmul_plan {
    int first, ncases;
    const struct matmul_case *cases; /* NULL: they are drawn */
    bool any_bits; /* strategies may differ in the last ones: each is compared with the reference */
};

/*
 * One rank's part of a struct matmul_plan, in a world of its own, which is left as it was. Counts
 * cases in value[0] of the report.
 */
void matmul_run_plan(struct rank *self, void *plan);

#endif
