/*
 * Two groups over the same ranks, each on a stream of its own with a graph of one call, which is
 * replayed. Nothing orders the two: odd ranks launch the second group's graph first.
 */
#ifndef TEST_GROUP_PAIR_H
#define TEST_GROUP_PAIR_H

#include "collective.h"
#include "ranks.h"

struct group_pair {
    struct collective_variant variants[2];
    size_t count;
    uint32_t max_blocks;
    int replays, looks; /* looks: replays between two checks of the results */
};

/* Adds wrong elements to the report, and each look at a result to its value[0]. */
void group_pair_replay(struct rank *self, symm_context *ctx, const struct group_pair *pair);

#endif
