/* Products as cuBLASLt has them, and the algorithms that trials pick for them. */
#ifndef SYMM_MATMUL_CUBLAS_PREPARED_H
#define SYMM_MATMUL_CUBLAS_PREPARED_H

#include "candidates.h"
#include "cublas.h"

/* The products of this number of rows of A. */
struct symm_cublas_part {
    int32_t rows;
    struct {
        struct cublaslt_shape shape;
        struct cublaslt_product product;
        bool flipped; /* d' = b' a' */
    } each[SYMM_MATMUL_MAX_B];
};

enum { MAX_PARTS = 2 }; /* ranks have m / nranks rows, or one more */

struct symm_cublas_product {
    struct symm_cublas *from;
    struct symm_problem problem;
    bool trials; /* are still to be made */
    int nshares; /* the ranks that share the rows, a product for each; 1: of all rows */
    int32_t nparts;
    struct symm_cublas_part parts[MAX_PARTS];
    struct symm_cublas_times us;
    symm_matrix packed; /* a copy of A, if the ranks' rows are not one matrix; or no data */
    struct symm_cublas_memory *workspace; /* NULL: none is needed */
};

/* All rows of A, or those of a shard, as one matrix; without data if rows are gathered. */
symm_matrix symm__cublas_rows_of_a(const struct symm_problem *p, int32_t rows);

/* The memory that the products' trials need, or their algorithms. */
uint64_t symm__cublas_most_nbytes(const struct symm_cublas_product *product, bool trial);

/*
 * Whether to pick algorithms by trials. cuBLASLt's first one for a longer product is hardly ever
 * slower than another one, and an algorithm that is fast in a trial may be slower at the clock of
 * long products.
 */
bool symm__cublas_is_short(const struct symm_cublas_product *product);

/*
 * Lists the candidates of product i of a part: one if it is long. Returns false, with the reason,
 * if there is none.
 */
bool symm__cublas_list(const struct symm_cublas_product *product,
                       const struct symm_cublas_part *part, int i,
                       struct symm_cublas_candidates *out, char why[CUBLASLT_WHY]);

/*
 * Gives each product its fastest algorithm, or if they are not short its first one, and sets their
 * times. If a trial fails, its product has the first candidate, and the times are 0. Once.
 */
void symm__cublas_pick(struct symm_cublas_product *product, const struct symm_cublas_rival *rival);

#endif
