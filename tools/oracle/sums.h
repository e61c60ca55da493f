/*
 * Random inputs of a reduction over ranks, and the check of its result against a reference.
 *
 * Element i of rank r follows from (seed, r, i) alone, so every rank knows all inputs without
 * communication.
 */
#ifndef SYMM_TOOLS_SUMS_H
#define SYMM_TOOLS_SUMS_H

#include "element.h"

enum { NREDOPS = SYMM_MAX + 1 };

/*
 * When a sum or an average of floating types is right. An average is a sum over the R ranks; its
 * bound is the sum's over R, plus one ulp. Integers, which wrap around, minima and maxima are exact
 * by every rule, but for the sign of a zero by SUMS_SWITCH. Any NaN equals any other.
 */
enum sums_rule {
    SUMS_EXACT,  /* added in the order of the ranks, in fp32 or, of fp64, in fp64, divided there,
                    rounded once: these bits */
    SUMS_SWITCH, /* added as above, in any order: 2^-23 sum|x| + 1 ulp of the type; of fp64
                    2^-52 */
    SUMS_TYPE    /* rounded to the type at each addition, or each element divided before them:
                    2^-p sum|x| + 1 ulp, p its fraction bits */
};

/* Writes n inputs of a rank, which begin at its element `first`. */
typedef void (*sums_source)(const struct element *e, uint64_t seed, int rank, size_t first,
                            size_t n, void *out);

/* The reduction that a result is checked against. */
struct sums_asked {
    sums_source source; /* NULL: sums_fill() */
    uint64_t seed;
    symm_redop op;
    int rank, nranks; /* element i is reduced over ranks rank .. rank + nranks - 1 */
    size_t first;     /* of their elements first + i */
    enum sums_rule rule;
    /*
     * Calls in a chain: each one's input is the output before, on all ranks. Each further call
     * multiplies a sum by nranks and leaves other reductions unchanged, but for the roundings of
     * its rule. 0 is 1.
     */
    int links;
    /* Only rank mine's input is the output before; the other ranks' are the same in each call. */
    bool alone;
    int mine;
};

struct sums_verdict {
    uint64_t wrong;                                 /* elements */
    uint64_t first;                                 /* the first of them, */
    char got[ELEMENT_TEXT], expected[ELEMENT_TEXT]; /* in words */
};

/*
 * Fills a rank's input: integers of all bits; floating numbers within [-1, 1], dense around 0, with
 * full fractions.
 */
void sums_fill(const struct element *e, void *out, size_t count, uint64_t seed, int rank);

/* n of these inputs, which begin at a rank's element `first`: a sums_source. */
void sums_inputs(const struct element *e, uint64_t seed, int rank, size_t first, size_t n,
                 void *out);

/* Compares every element. */
void sums_check(const struct element *e, const void *got, size_t count,
                const struct sums_asked *asked, struct sums_verdict *out);

/* A seed for each use of a seed. */
uint64_t sums_seed(uint64_t seed, uint64_t use);

/* Bijective mixing of 64 bits: every bit of the result depends on every bit of x. */
uint64_t sums_mix(uint64_t x);

#endif
