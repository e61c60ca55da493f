/* From which size on a variant is the fastest. Pure. */
#ifndef SYMM_BENCH_CROSSOVER_H
#define SYMM_BENCH_CROSSOVER_H

#include <stdbool.h>
#include <stdint.h>
#include "collective_measure.h"

/* Zero before the first size. Sizes ascend. */
struct crossover {
    int variant;     /* the fastest one; undefined before the first size */
    uint64_t nbytes; /* the last size; 0: none */
    double times[MEASURE_MAX_VARIANTS];
};

/*
 * Takes the times of n variants at a size above 0. Another variant becomes the fastest only if it
 * is clearly faster, so that noise makes no rows. Returns whether the fastest variant has changed;
 * then *from is the size from which the new one holds: 0 for the first, else the size at which the
 * lines between this size and the last one cross.
 */
bool crossover_take(struct crossover *w, uint64_t nbytes, const double *times, int n,
                    uint64_t *from);

#endif
