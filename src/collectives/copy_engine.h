/*
 * The collectives whose data the copy engines move: kernels only meet the other ranks and reduce
 * what has come. Other ranks' memory is reached at this rank's addresses, so `in`, `out` or both
 * are symmetric and at the same place on all ranks.
 */
#ifndef SYMM_COPY_ENGINE_H
#define SYMM_COPY_ENGINE_H

#include "../runtime/enqueue.h"
#include "plan.h"

/* How a share goes through the staging area, whose two halves take its chunks by turns. */
struct symm_copy_chunks {
    uint64_t n;      /* how many */
    uint64_t nbytes; /* of each but the last, which may have less; a multiple of 16 */
    uint64_t room;   /* for one rank's chunk, with up to 15 bytes before it; a multiple of 16 */
};

/* Pure. nranks: 2 or more. */
struct symm_copy_chunks symm__copy_chunks(uint64_t nbytes, int nranks, uint64_t staging_nbytes);

/*
 * Enqueues the whole call. word: a hash of the call and of the place of what other ranks reach
 * into, for the ranks to compare.
 */
symm_status symm__copy_engine_run(struct symm_enqueue *e, const struct symm_machine *machine,
                                  const struct symm_collective_call *call, uint32_t word,
                                  const void *in, void *out);

#endif
