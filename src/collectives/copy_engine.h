/*
 * The collectives by copy engines: these move the data; kernels only synchronize the ranks and
 * reduce. Copies reach other ranks' memory at this rank's offsets, so `out` of an all-reduce, an
 * all-gather and a broadcast is symmetric memory at the same place on all ranks. All other buffers
 * are accessed by their own rank alone, and may be any memory.
 */
#ifndef SYMM_COPY_ENGINE_H
#define SYMM_COPY_ENGINE_H

#include "runtime/group/call.h"
#include "arguments.h"

/* The longest share of a reduction. */
struct symm_copy_share {
    uint64_t nbytes; /* at least 1 */
    int nranks;      /* at least 2 */
    bool gathered;   /* the results go to all ranks */
};

/*
 * How a share passes through the staging area of its rank, in which each other rank has two slots
 * for its chunks, used alternately.
 */
struct symm_copy_chunks {
    uint64_t n;      /* number of chunks */
    uint64_t nbytes; /* of each but the last, which may have less; a multiple of 16 */
    uint64_t stride; /* from one rank's slots to the next one's; a multiple of 16 */
};

/* Pure. The fewest chunks that pay, because each copy has a fixed cost. */
struct symm_copy_chunks symm__copy_chunks(const struct symm_copy_share *share,
                                          uint64_t staging_nbytes);

/*
 * Enqueues the whole call. word: a hash of the call and of the place of `out`, which the ranks
 * compare.
 */
symm_status symm__copy_engine_run(struct symm_call *e, const struct symm_limits *limits,
                                  const struct symm_collective_call *call, uint32_t word,
                                  const struct symm_arguments *data);

#endif
