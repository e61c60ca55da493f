/* Which of several variants is the fastest from which size on. Pure. */
#ifndef SYMM_BENCH_CROSSOVER_H
#define SYMM_BENCH_CROSSOVER_H

#include <stdbool.h>
#include <stdint.h>
#include "collective_measure.h"

/* Sizes come one after another, ascending; zeroed before the first of them. */
struct crossover {
    int variant;     /* it; of no meaning before the first size */
    uint64_t nbytes; /* the last size; 0: there was none */
    double times[MEASURE_MAX_VARIANTS];
};

/*
 * Takes how long each of n variants takes at a size above 0. Another one wins only if it is clearly
 * faster, since differences of a measurement would make rows that mean nothing. Returns whether
 * there is another winner now, and from how many bytes on: the first from 0, each after it from
 * where the lines between this size and the last cross.
 */
bool crossover_take(struct crossover *w, uint64_t nbytes, const double *times, int n,
                    uint64_t *from);

#endif
