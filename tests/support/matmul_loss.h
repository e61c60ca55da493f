/* Products whose last rank goes away while they run. */
#ifndef TEST_MATMUL_LOSS_H
#define TEST_MATMUL_LOSS_H

#include "matmul.h"

struct matmul_loss {
    struct matmul_case c;
    bool gives_up; /* in the third round; otherwise it is killed in the middle of that one */
    int burst;     /* products of a round, one after the other; then the result is looked at */
    bool replayed; /* from a graph */
};

/*
 * Runs them until the last of so many ranks has gone. The others are told who it was, what they
 * were told is right is right, and when all is given back a world without it works and leaves as
 * much of their devices' memory free as one did before. Returns how long it took until the last of
 * them was told, in milliseconds.
 */
int64_t matmul_lose_the_last(struct matmul_loss *loss, int nranks);

#endif
