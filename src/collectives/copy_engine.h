/*
 * The collectives whose data the copy engines move: kernels only meet the other ranks and reduce
 * what has come. Other ranks' memory is reached at this rank's addresses, so `out` of an all-reduce
 * and of an all-gather is symmetric and at the same place on all ranks. All other memory is read
 * and written by its own rank alone, and may be any.
 */
#ifndef SYMM_COPY_ENGINE_H
#define SYMM_COPY_ENGINE_H

#include "runtime/group/call.h"
#include "algorithms.h"

/* What is reduced: the longest of the ranks' shares. */
struct symm_copy_share {
    uint64_t nbytes; /* at least 1 */
    int nranks;      /* at least 2 */
    bool gathered;   /* the results go to all ranks */
};

/*
 * How a share goes through the staging area of its rank. There each other rank has a room, in which
 * its chunks lie in two slots by turns.
 */
struct symm_copy_chunks {
    uint64_t n;      /* how many */
    uint64_t nbytes; /* of each but the last, which may have less; a multiple of 16 */
    uint64_t room;   /* from one rank's chunk to the next one's; a multiple of 16 */
};

/* Pure, the same on all ranks. As few chunks as pays: each copy takes time beside its bytes. */
struct symm_copy_chunks symm__copy_chunks(const struct symm_copy_share *share,
                                          uint64_t staging_nbytes);

/*
 * Enqueues the whole call. word: a hash of the call and of the place of what other ranks write to,
 * for the ranks to compare.
 */
symm_status symm__copy_engine_run(struct symm_call *e, const struct symm_limits *limits,
                                  const struct symm_collective_call *call, uint32_t word,
                                  const void *in, void *out);

#endif
