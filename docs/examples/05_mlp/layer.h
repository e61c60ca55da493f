/* The layer on the host: whose part is what, what goes in, and what must come out. */
#ifndef LAYER_H
#define LAYER_H

#include <symm/symm.h>

/* first of all that ranks share out, and how many of them a rank has */
typedef struct part {
    int64_t first, count;
} part;

typedef struct layer {
    uint64_t seed;
    int64_t m, k, f;    /* x is [m, k], W1 [k, f] */
    part rows, columns; /* of x, and of W1, b1 and h, that this rank has */
    symm_bf16 *x;       /* [rows.count, k] */
    symm_bf16 *w1, *b1; /* [k, columns.count], [columns.count] */
    symm_bf16 *h;       /* [m, columns.count] */
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
 * How many elements of h in `rows` rows, spread over all of them, are not what they should be, by a
 * computation in double precision.
 */
long layer_count_wrong(const layer *l, int step, int64_t rows);
void layer_destroy(layer *l);

#endif
