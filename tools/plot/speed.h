/* How fast links and memory of a device are: what the floors and roofs of pictures stand on. */
#ifndef SYMM_BENCH_SPEED_H
#define SYMM_BENCH_SPEED_H

#include <jansson.h>

/* GB/s (10^9); 0: not known. */
struct speed {
    double link;   /* one direction, by a copy engine: as measured */
    double memory; /* as the maker says */
};

/* Those of the device that a run names. */
struct speed speed_of(const json_t *run);

#endif
