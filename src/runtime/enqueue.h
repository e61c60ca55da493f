/*
 * What every stream-ordered call does before and after its work: it refuses dead groups and forked children, keeps the
 * group's one order (outside of captures a call on another stream waits for the call before), notes the call for the
 * other ranks' error texts, and with SYMM_CHECK=1 compares it with theirs.
 */
#ifndef SYMM_ENQUEUE_H
#define SYMM_ENQUEUE_H

#include "context.h"
#include "kernel.h"

struct symm_enqueue {
    struct symm_group *group;
    CUstream stream;
    bool capturing;
};

/*
 * Begins a call. everyone: all ranks of the group make this call (so it can be compared); the format is the call with
 * its arguments, as ranks must agree on them. On OK, symm__enqueue_end must follow, and the primary context is current.
 */
__attribute__((format(printf, 5, 6))) symm_status symm__enqueue_begin(struct symm_enqueue *e, struct symm_group *group,
                                                                      symm_stream stream, bool everyone,
                                                                      const char *fmt, ...);
/* Ends it: restores the caller's context, records the order. Returns st, or the first failure of its own. */
symm_status symm__enqueue_end(struct symm_enqueue *e, symm_status st);

/* Launches one of the library's own kernels. */
symm_status symm__enqueue_kernel(struct symm_enqueue *e, enum symm_kernel_id id, uint32_t blocks, uint32_t threads,
                                 const void *args);

#endif
