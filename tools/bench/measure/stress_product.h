/* The product of a group of symm-bench stress, beside the calls of stress_group.h. */
#ifndef SYMM_BENCH_STRESS_PRODUCT_H
#define SYMM_BENCH_STRESS_PRODUCT_H

#include "stress_group.h"

/* Fills its matrices, poisons its result, and creates it. Collective over the group. */
symm_status stress_product_prepare(struct stress_group *g);
symm_status stress_product_enqueue(const struct stress_group *g);
/* Checks its result, and that nothing else was written. Waits for the stream. */
symm_status stress_product_check(struct stress *x, struct stress_group *g);
/* Also where there is none. */
void stress_product_release(struct stress_group *g);

#endif
