/*
 * Numbers for the examples: random ones that every rank can compute for every other, so that each
 * can check the result by itself, and bfloat16 on the host.
 */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <symm/symm.h>
#include <string.h>
#include <time.h>

/* The same number on every rank, another one in every run. Collective. */
static inline symm_status random_seed(symm_group *group, uint64_t *out)
{
    uint64_t all[SYMM_MAX_RANKS];
    struct timespec now;
    symm_status st;

    timespec_get(&now, TIME_UTC);
    const uint64_t mine = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    st = symm_exchange(group, &mine, sizeof mine, all);
    if (st == SYMM_OK)
        *out = all[0];
    return st;
}

/* The i-th number of a series, between -1 and 1. */
static inline float random_number(uint64_t seed, uint64_t series, uint64_t i)
{
    uint64_t x = seed + (series << 40) + i;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return (float)(x >> 40) * 0x1p-23f - 1;
}

/* A bfloat16 is the upper half of a float; rounded to nearest even. Not for NaNs. */
static inline symm_bf16 to_bf16(float x)
{
    uint32_t bits;
    symm_bf16 half;

    memcpy(&bits, &x, sizeof bits);
    half.bits = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    return half;
}

static inline float from_bf16(symm_bf16 half)
{
    const uint32_t bits = (uint32_t)half.bits << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif
