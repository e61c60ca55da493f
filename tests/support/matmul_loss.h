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
 * Runs products until the last of nranks ranks has gone. The others learn its number, and their OK
 * results are right. After they have released everything, a world without it works and leaves as
 * much device memory free as a world before. Returns the milliseconds until all others have learned
 * of the loss.
 */
int64_t matmul_lose_the_last(struct matmul_loss *loss, int nranks);

#endif
