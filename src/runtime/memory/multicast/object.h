/*
 * A multicast object: one address range that stands for the same offsets in the windows of all its
 * ranks. This is one rank's side, with driver calls only. multicast.c votes with the other ranks.
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
    /* A call on it has not returned: it stays unchanged until the process ends. */
    atomic_bool abandoned;
    CUmemGenericAllocationHandle handle;
    CUdeviceptr base; /* reserved address; 0: none */
    bool mapped;
    struct symm_multicast_binding *bindings;
    size_t nbindings, cap;
};

/*
 * All of these set *result to the result of a failed driver call. Other failures leave it
 * unchanged.
 */

/* Creates the object for nranks devices and exports a close-on-exec descriptor of it. */
symm_status symm__multicast_object_create(struct symm_multicast *mc, int nranks, int *fd,
                                          CUresult *result);
/* Imports another rank's object. The caller keeps fd. */
symm_status symm__multicast_object_import(struct symm_multicast *mc, int fd, CUresult *result);
symm_status symm__multicast_object_add_device(struct symm_multicast *mc, CUresult *result);
/*
 * Binds segments[*nbound ..]; maps the whole object. Both block in the driver until all devices are
 * added, perhaps for ever. After the deadline they return ERROR_TIMEOUT, and the object is
 * abandoned. bind may be repeated after a failure; it continues at *nbound.
 */
symm_status symm__multicast_object_bind(struct symm_multicast *mc,
                                        struct symm_segment *const *segments, size_t n,
                                        size_t *nbound, symm_deadline deadline, CUresult *result);
symm_status symm__multicast_object_map(struct symm_multicast *mc, symm_deadline deadline,
                                       CUresult *result);

/* Unbinds a segment with the arguments of its bind. */
symm_status symm__multicast_object_unbind(struct symm_multicast *mc, const struct symm_segment *s);
/*
 * Unbinds all segments, unmaps and releases. Continues after failures; returns the first. Keeps the
 * references of the segments.
 */
symm_status symm__multicast_object_release(struct symm_multicast *mc);

#endif
