/*
 * Element types on the host: random data that every rank can make for every other rank, and what a
 * sum of it may be.
 */
#ifndef SYMM_TOOLS_ELEMENT_H
#define SYMM_TOOLS_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <symm/types.h>

struct element {
    const char *name;
    symm_dtype dtype;
    size_t nbytes;
    int fraction_bits; /* explicitly stored */
    int min_exponent;  /* of normal numbers */
};

/* By "bf16", "fp16" or "fp32"; NULL: there is no such type. */
const struct element *element_find(const char *name);
extern const char element_names[]; /* "bf16, fp16, fp32" */

/* Rounds n floats to the type, nearest and ties to even, and widens n elements to floats. */
void element_narrow(const struct element *e, const float *in, void *out, size_t n);
void element_widen(const struct element *e, const void *in, float *out, size_t n);

/* The distance of neighbouring numbers of the type around x. */
double element_ulp(const struct element *e, double x);

#endif
