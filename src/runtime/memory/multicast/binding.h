/* Multicast objects in use, and what they have bound: for multicast.c, which makes them. */
#ifndef SYMM_MULTICAST_BINDING_H
#define SYMM_MULTICAST_BINDING_H

#include "object.h"

/* NULL: out of memory. With one reference; not in the list. */
struct symm_multicast *symm__multicast_object_new(struct symm_memory *m,
                                                  struct symm_rank_set members);
/* Takes a reference of the newest object of exactly these ranks; NULL: there is none. */
struct symm_multicast *symm__multicast_object_get(struct symm_memory *m,
                                                  struct symm_rank_set members);
/* Releases an object that is not in the list (any more). */
void symm__multicast_object_destroy(struct symm_multicast *mc);

/*
 * Makes a place for the binding of a segment, so that once it is bound there is nothing left to
 * fail.
 */
symm_status symm__multicast_binding_add(struct symm_multicast *mc, struct symm_segment *s);
/*
 * Binds the segments from *nbound on and, for a new object, maps it. Fails only when the driver
 * does not come back, having ended the comm; else the report says how it went.
 */
symm_status symm__multicast_bind_and_map(struct symm_multicast *mc, struct symm_host_comm *comm,
                                         struct symm_segment *const *segments, size_t n,
                                         size_t *nbound, bool map,
                                         struct symm_multicast_report *mine);

#endif
