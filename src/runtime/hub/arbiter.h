/* Decisions that only one rank can make for all: offsets in the window. heap.h has the one arbiter. */
#ifndef SYMM_ARBITER_H
#define SYMM_ARBITER_H

#include <stdbool.h>
#include "runtime/base/rank_set.h"
#include "runtime/base/status.h"

/*
 * Decides, in the hub's thread, what all ranks of a vote then take as given. Only rank 0's is used.
 */
struct symm_arbiter {
    /*
     * Called when all ranks of a vote with op != 0 have come. status: the worst of theirs. Returns
     * the verdict (with a text if it fails) and fills in the answer.
     */
    symm_status (*decide)(void *self, uint32_t op, struct symm_rank_set members, symm_status status,
                          const uint64_t args[4], uint64_t answer[4]);
    /* Rank has freed the block at offset off of the window. */
    void (*freed)(void *self, int rank, uint64_t off);
    /* Whether no block is free on some of its ranks and not on others. */
    bool (*settled)(void *self);
    void *self;
};

#endif
