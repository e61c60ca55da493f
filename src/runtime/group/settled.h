/*
 * The last kernel of a context that has settled. A kernel settles if two things hold from the
 * moment at which the next kernel on its stream may begin: all kernels in front of it have ended,
 * and it needs no more room to end. For it never waits for other ranks, or all of its blocks are
 * resident on all ranks. So a next kernel of any size may begin early.
 *
 * That is true of the last kernel of a stream, whichever group has launched it. So one record
 * serves all groups of the context, and every call of the context on its stream ends it. Kernels of
 * other contexts on this stream are not seen.
 */
#ifndef SYMM_SETTLED_H
#define SYMM_SETTLED_H

#include <pthread.h>
#include <stdbool.h>
#include "abi/cuda_driver.h"

struct symm_group;

struct symm_settled {
    pthread_mutex_t lock;           /* threads may call on different groups */
    const struct symm_group *group; /* that launched it; NULL: none */
    CUstream stream;
    bool in_capture;
};

/* Records that the last kernel has settled, if the stream has one handle only. */
void symm__settled_note(struct symm_settled *settled, const struct symm_group *group,
                        CUstream stream, bool in_capture);
/*
 * A kernel of this group comes next on this stream. Returns whether it comes right behind the
 * recorded one, and the group launched that, too. Ends the record if it has this group or stream.
 */
bool symm__settled_take(struct symm_settled *settled, const struct symm_group *group,
                        CUstream stream, bool in_capture);

#endif
