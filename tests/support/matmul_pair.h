/* Products of two groups at once. */
#ifndef TEST_MATMUL_PAIR_H
#define TEST_MATMUL_PAIR_H

#include "matmul.h"

/* A case of the world's and one of a group of its ranks in the opposite order, pair after pair. */
struct matmul_pairs {
    const struct matmul_case (*cases)[2];
    int ncases, rounds; /* rounds of each pair */
    bool graphs;        /* every second round is captured, both at a time, and replayed */
    int apart_ms; /* from a rank's first to its second; 0: now and then it is late with both */
    int more;     /* runs of each behind its first, in a round that is not captured */
};

/*
 * One rank's part of a struct matmul_pairs, in a world of its own. Each group has a stream, and
 * half of the ranks begin with the second group's product.
 */
void matmul_run_pairs(struct rank *self, void *pairs);

#endif
