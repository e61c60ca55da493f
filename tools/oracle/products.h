/*
 * Random matrices, and the check of their product against a reference in double precision.
 *
 * d = alpha a b + beta c, l times: a is [l, m, k], b [l, k, n], c and d [l, m, n], each row after
 * row and all of one type. A is the same on all ranks, b and c are this rank's.
 */
#ifndef SYMM_TOOLS_PRODUCTS_H
#define SYMM_TOOLS_PRODUCTS_H

#include "element.h"

struct products {
    /* filled in by the caller */
    const struct element *element; /* a floating type */
    int m, n, k, l;
    double alpha, beta;
    double eps; /* of the check */
    /* the rest by products_create() */
    char *a, *b, *c; /* c NULL: beta is 0 */
    int step;        /* one row and one column of each `step` are compared; 1: all of them */
    int nrows, ncolumns;
    int *rows, *columns;
    double *sum, *magnitude; /* [l, nrows, ncolumns]: of a b, and of their absolute values */
};

struct products_verdict {
    uint64_t wrong; /* elements */
    /* the first of them, */
    int l, row, column;
    char got[ELEMENT_TEXT], expected[ELEMENT_TEXT]; /* in words */
    double off, bound;                              /* how far off it is, and may be */
};

/*
 * The eps of sums of k products in fp32: 2^-21 sqrt(k). To k = 16 that is more than their k
 * roundings can come to; beyond, four times what k roundings at random are expected to.
 */
double products_eps(int k);

/* False: memory is short. products_destroy() frees what there is either way. */
bool products_create(struct products *p);
void products_destroy(struct products *p);

/* Normally distributed numbers, other ones with each seed; c a part of them. */
void products_fill(struct products *p, uint64_t seed, int rank);

/* Chooses, by the seed, what is compared, and computes what it should be. False: memory is short.
 */
bool products_refer(struct products *p, uint64_t seed);

/*
 * An element is right if it is not further from the reference than eps (|alpha| sum |a| |b| +
 * |beta c|), and half a last place for its own rounding.
 */
void products_check(const struct products *p, const void *d, struct products_verdict *out);

/* Sizes in elements. */
size_t products_a_count(const struct products *p);
size_t products_b_count(const struct products *p);
size_t products_d_count(const struct products *p);
/* Of d, those that are compared. */
size_t products_compared(const struct products *p);

#endif
