/*
 * Random matrices, and the check of their product against a reference in double precision.
 *
 * d = alpha a b + beta c, l times: a is [l, m, k], b [l, k, n], c and d [l, m, n], all row-major
 * and of one type. A is the same on all ranks, b and c differ.
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
    double off, bound;                              /* its error, and the largest right one */
};

/*
 * The eps of sums of k products in fp32: 2^-21 sqrt(k). Up to k = 16 it exceeds the largest sum of
 * their k roundings; beyond, it is four times the expected sum of k random roundings.
 */
double products_eps(int k);

/* False: memory is short. products_destroy() follows in any case. */
bool products_create(struct products *p);
void products_destroy(struct products *p);

/* Fills a, b and c with normally distributed numbers by the seed. */
void products_fill(struct products *p, uint64_t seed, int rank);

/* Chooses the compared elements by the seed, and computes them. False: memory is short. */
bool products_refer(struct products *p, uint64_t seed);

/*
 * An element is right within eps (|alpha| sum |a| |b| + |beta c|) of the reference, plus half a
 * last place for its own rounding.
 */
void products_check(const struct products *p, const void *d, struct products_verdict *out);

/* Sizes in elements. */
size_t products_a_count(const struct products *p);
size_t products_b_count(const struct products *p);
size_t products_d_count(const struct products *p);
/* The compared elements of d. */
size_t products_compared(const struct products *p);

#endif
