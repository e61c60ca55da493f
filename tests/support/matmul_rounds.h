/* Rounds of one product in a world of its own, with fresh data each, and a rank that is late. */
#ifndef TEST_MATMUL_ROUNDS_H
#define TEST_MATMUL_ROUNDS_H

#include "matmul.h"

struct matmul_rounds {
    struct matmul_case c;
    int rounds;
    int burst;      /* runs of a round, one behind the other; 0: one */
    int late_rank;  /* sleeps before its runs; -1: none */
    bool replayed;  /* all rounds but the first one are replays of a graph */
    uint64_t first; /* round */
};

/*
 * A rank's function: runs a struct matmul_rounds. Compares each result with a reference in double
 * precision, and checks that no memory is left allocated.
 */
void matmul_run_rounds(struct rank *self, void *rounds);

#endif
