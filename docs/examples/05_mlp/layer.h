/* The layers on the host: each rank's part, the inputs, and the expected results. */
#ifndef LAYER_H
#define LAYER_H

#include <symm/symm.h>

/* A rank's part of rows or columns that the ranks share. */
typedef struct part {
    int64_t first, count;
} part;

typedef struct layer {
    uint64_t seed;
    int rank, nranks;
    int64_t m, k, f;    /* x and y are [m, k], W1 is [k, f], W2 is [f, k] */
    part rows, columns; /* of x and y; of W1, b1 and h, and rows of W2 */
    symm_bf16 *x;       /* [rows.count, k] */
    symm_bf16 *w1, *b1; /* [k, columns.count], [columns.count] */
    symm_bf16 *h;       /* [m, columns.count] */
    symm_bf16 *w2;      /* [columns.count, k] */
    symm_bf16 *y;       /* [rows.count, k] */
} layer;

/*
 * m, k and f from the command line, if there. Allocates; 0, or what main shall return. A rank may
 * have no rows, but has at least one column.
 */
int layer_create(layer *l, int argc, char **argv, const int64_t sizes[3], int rank, int nranks);
/* The weights of this rank, and its rows of x, which are others in each step. */
void layer_fill_weights(layer *l, uint64_t seed);
void layer_fill_rows(layer *l, int step);
/*
 * Counts wrong elements of h and y in `rows` rows, spread over all of them, by a computation in
 * double precision. Collective: y is a sum over the ranks.
 */
symm_status layer_count_wrong(const layer *l, symm_group *group, int step, int64_t rows,
                              long *wrong);
void layer_destroy(layer *l);

#endif
