/*
 * A multicast object: one address that stands for the same place in the windows of all ranks of a
 * set. This is one rank's side of it, driver calls only; multicast.c agrees on it with the others.
 */
#ifndef SYMM_MULTICAST_OBJECT_H
#define SYMM_MULTICAST_OBJECT_H

#include <stdatomic.h>
#include <symm/types.h>
#include "runtime/driver/driver.h"
#include "runtime/memory/state.h"

struct symm_multicast_binding {
    struct symm_segment *segment; /* with a reference */
    bool bound;                   /* by this rank */
    bool agreed;                  /* by all ranks */
};

struct symm_multicast {
    struct symm_multicast *next;
    struct symm_memory *memory;
    struct symm_rank_set members;
    uint64_t id; /* agreed */
    int refs;
    /* A call on it never came back: it stays as it is until the process ends. */
    atomic_bool abandoned;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr base; /* reserved; 0: not */
    bool mapped;
    struct symm_multicast_binding *bindings;
    size_t nbindings, cap;
};

/*
 * All of these set *result to that of the driver call that failed; it is untouched by other
 * failures.
 */

/* Creates the object for nranks devices and exports a close-on-exec descriptor of it. */
symm_status symm__multicast_object_create(struct symm_multicast *mc, int nranks, int *fd,
                                          CUresult *result);
/* Another rank's object; fd stays the caller's. */
symm_status symm__multicast_object_import(struct symm_multicast *mc, int fd, CUresult *result);
symm_status symm__multicast_object_add_device(struct symm_multicast *mc, CUresult *result);
/*
 * Binds segments[*nbound ..]; maps the whole object. Both block in the driver until all devices
 * have been added, perhaps for ever: ERROR_TIMEOUT, and the object is abandoned, when that takes
 * longer than the deadline. bind may be repeated after a failure and goes on where it was.
 */
symm_status symm__multicast_object_bind(struct symm_multicast *mc,
                                        struct symm_segment *const *segments, size_t n,
                                        size_t *nbound, symm_deadline deadline, CUresult *result);
symm_status symm__multicast_object_map(struct symm_multicast *mc, symm_deadline deadline,
                                       CUresult *result);

/* With the arguments of the bind. */
symm_status symm__multicast_object_unbind(struct symm_multicast *mc, const struct symm_segment *s);
/*
 * Unbinds everything, unmaps, releases. Keeps going; returns the first failure. Keeps the segments'
 * references.
 */
symm_status symm__multicast_object_release(struct symm_multicast *mc);

#endif
