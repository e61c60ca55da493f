/* Arithmetic of sizes and counts, and a hash of numbers. */
#ifndef SYMM_NUMBERS_H
#define SYMM_NUMBERS_H

#include <stdint.h>

static inline uint64_t symm__min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t symm__max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* b must not be 0. */
static inline uint64_t symm__ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* The next multiple of `to`. The result must not overflow. */
static inline uint64_t symm__round_up(uint64_t n, uint64_t to)
{
    return symm__ceil_div(n, to) * to;
}

/* Adds x to a hash. */
static inline uint64_t symm__mix(uint64_t hash, uint64_t x)
{
    hash = (hash ^ x) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    return hash ^ hash >> 32;
}

#endif
