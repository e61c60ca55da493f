/* The layers on the host: each rank's weights, the inputs, and the expected results. */
#ifndef MODEL_H
#define MODEL_H

#include <symm/symm.h>

enum { LAYERS = 2 };

/* A rank has columns of W1 and the rows of W2 that belong to them. */
typedef struct weights {
    symm_bf16 *w1;   /* [hidden, columns] */
    symm_bf16 *w2;   /* [columns, hidden] */
    symm_bf16 *gain; /* [hidden] */
} weights;

/* What a layer gets, and what the last one returns: both [tokens, hidden], on every rank. */
typedef struct state {
    symm_bf16 *residual, *h;
} state;

typedef struct model {
    uint64_t seed;
    int rank, nranks;
    int64_t tokens, hidden, columns;
    float eps;
    weights layer[LAYERS];
    state states[LAYERS + 1];
} model;

/*
 * Tokens, hidden and the columns of W1 of one rank from the command line, if there. Allocates; 0,
 * or what main shall return.
 */
int model_create(model *m, int argc, char **argv, const int64_t sizes[3], int rank, int nranks);
/* The weights of this rank, and the first state, which is another one in each step. */
void model_fill_weights(model *m, uint64_t seed);
void model_fill_tokens(model *m, int step);
/*
 * Counts wrong elements of a token's later states, each compared with a computation in double
 * precision from the state before it. Collective: a layer is a sum over the ranks.
 */
symm_status model_count_wrong(const model *m, symm_group *group, int64_t token, long *wrong);
void model_destroy(model *m);

#endif
