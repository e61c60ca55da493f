/*
 * Multicast objects in use and their bound segments. Serves multicast.c, which creates the objects.
 */
#ifndef SYMM_MULTICAST_BINDING_H
#define SYMM_MULTICAST_BINDING_H

#include "object.h"

/* Creates an object with one reference, not in the list. NULL: out of memory. */
struct symm_multicast *symm__multicast_object_new(struct symm_memory *m,
                                                  struct symm_rank_set members);
/* Takes a reference of the newest object of exactly these ranks; NULL: none. */
struct symm_multicast *symm__multicast_object_get(struct symm_memory *m,
                                                  struct symm_rank_set members);
/* Releases an object that is not in the list. */
void symm__multicast_object_destroy(struct symm_multicast *mc);

/* Adds an entry for the binding of a segment, so that nothing can fail after the bind. */
symm_status symm__multicast_binding_add(struct symm_multicast *mc, struct symm_segment *s);
/*
 * Binds the segments from *nbound on and maps a new object. The report has the result. Fails only
 * if a driver call does not return; the comm is then aborted.
 */
symm_status symm__multicast_bind_and_map(struct symm_multicast *mc, struct symm_host_comm *comm,
                                         struct symm_segment *const *segments, size_t n,
                                         size_t *nbound, bool map,
                                         struct symm_multicast_report *mine);

#endif
