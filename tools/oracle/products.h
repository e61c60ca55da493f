/*
 * Random matrices, and the check of their product against a reference in double precision.
 *
 * d = alpha a b + beta c, l times: a is [l, m, k], b [l, k, columns], c [l, rows, columns] and d
 * [l, rows, n], all of one type; rows and columns are those of extents_of(). In a sum over ranks,
 * a b is that sum. All ranks have other a, b and c, but in an all-gather one a.
 *
 * Played: two processes multiply as if they were more ranks (SYMM_MATMUL_AS_IF). Each is rank 0,
 * and the other one plays all others. So in an all-gather the other ranks' rows are the other
 * process's own rows. Rank r's part of a sum is what the other process sends to rank nranks - r.
 * The other ranks' sums and columns are the other process's own ones.
 */
#ifndef SYMM_TOOLS_PRODUCTS_H
#define SYMM_TOOLS_PRODUCTS_H

#include "element.h"
#include "extents.h"

struct products {
    /* filled in by the caller */
    symm_matmul_kind kind;
    int nranks, rank;              /* 0: one rank alone */
    int process;                   /* 0: not played; else 1 or 2, by process; beta is 0 then */
    const struct element *element; /* a floating type */
    const struct element *partial; /* of the partial sums; NULL: of `element` */
    int m, n, k, l;
    bool b_by_columns, d_by_columns; /* else by rows, as a; c as d */
    double alpha, beta;
    double eps;          /* of the check */
    bool reference_only; /* a, b and c are not needed */
    /* the rest by products_create() */
    struct extents own;
    char *a, *b, *c; /* c NULL: beta is 0 */
    uint64_t seed;   /* of the data */
    int step;        /* one row and one column of each `step` are compared; 1: all of them */
    int nrows, ncolumns;
    int *rows, *columns;
    /*
     * [l, nrows, ncolumns]: of a b, of their absolute values, of the roundings of partial sums, and
     * c; the product of one rank.
     */
    double *sum, *magnitude, *rounding, *addend, *part;
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
 * their k roundings; beyond, it is four times the expected sum of k random roundings. k counts the
 * products of all ranks.
 */
double products_eps(int64_t k);

/* Sets `own`, and makes room. False: memory is short. products_destroy() follows in any case. */
bool products_create(struct products *p);
void products_destroy(struct products *p);

/* Fills a, b and c with normally distributed numbers by the seed. */
void products_fill(struct products *p, uint64_t seed);

/*
 * Chooses the compared elements by `choice`, and computes them from the numbers of the seed, of all
 * ranks if d needs them. False: memory is short.
 */
bool products_refer(struct products *p, uint64_t seed, uint64_t choice);

/*
 * An element is right within eps (|alpha| sum |a| |b| + |beta c|) of the reference, plus half a
 * last place for its own rounding. Sums over ranks: plus `roundings` times |alpha| sum over r of u
 * |p_r|, with p_r the partial sum of rank r, and u the unit roundoff of its type. So often each is
 * rounded on its way: once by symm.
 */
void products_check(const struct products *p, const void *d, int roundings,
                    struct products_verdict *out);

/* Sizes in elements, after products_create(). */
size_t products_a_count(const struct products *p);
size_t products_b_count(const struct products *p);
size_t products_c_count(const struct products *p);
size_t products_d_count(const struct products *p);
/* The compared elements of d. */
size_t products_compared(const struct products *p);

#endif
