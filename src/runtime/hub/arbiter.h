/* Decisions that one rank makes for all: offsets in the window. heap.h has the only arbiter. */
#ifndef SYMM_ARBITER_H
#define SYMM_ARBITER_H

#include <stdbool.h>
#include "runtime/base/rank_set.h"
#include "runtime/base/status.h"

/*
 * Runs in the hub's thread. All ranks of a vote use its answer. Only rank 0 has an arbiter in use.
 */
struct symm_arbiter {
    /*
     * Called when all ranks have come to a vote with op != 0. status: the verdict so far. Returns
     * the final verdict, with a failure text if it is not OK, and fills in the answer.
     */
    symm_status (*decide)(void *self, uint32_t op, struct symm_rank_set members, symm_status status,
                          const uint64_t args[4], uint64_t answer[4]);
    /* Notes that `rank` has freed the block at offset `off` of the window. */
    void (*freed)(void *self, int rank, uint64_t off);
    /* Whether every block is either live or freed on all of its ranks. */
    bool (*settled)(void *self);
    void *self;
};

#endif
