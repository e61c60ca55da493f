/* A stream of random numbers: the same for the same seed, on all ranks. */
#ifndef TEST_DRAW_H
#define TEST_DRAW_H

#include <stdint.h>

struct draw {
    uint64_t state;
};

uint64_t draw_next(struct draw *draw);
uint32_t draw_below(struct draw *draw, uint32_t n);

#endif
