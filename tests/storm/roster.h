/* The ranks of a group in its order, whether or not it could be made: the same on all ranks. */
#ifndef STORM_ROSTER_H
#define STORM_ROSTER_H

#include "plan.h"

struct roster {
    int n, ranks[STORM_RANKS]; /* of the round */
};

int roster_place(const struct roster *roster, int rank); /* -1: not in it */
uint32_t roster_bits(const struct roster *roster);

#endif
