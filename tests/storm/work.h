/* Work that ranks enqueue on a group's stream, wait for, and compare. */
#ifndef STORM_WORK_H
#define STORM_WORK_H

#include "actor.h"
#include "collective.h"
#include "draw.h"
#include "slot.h"

/* A collective that runs here, of at most `most` bytes on either side. */
struct collective work_draw(struct draw *d, symm_group *group, size_t most);
/* Reports wrong elements of a rank's result. */
void work_look(struct actor *a, const struct collective *c, symm_group *group, const char *got);

/* Several collectives, or a graph of them that is replayed, and one wait. */
symm_status work_burst(struct actor *a, struct slot *slot, struct draw *d);
/* One collective at any place. */
symm_status work_trial(struct actor *a, struct slot *slot, struct draw *d);
/* Bytes to the next rank by put and from it by get, ordered by signals. */
symm_status work_ring(struct actor *a, struct slot *slot, struct draw *d);
/* A small matrix product of any kind. */
symm_status work_product(struct actor *a, struct slot *slot, struct draw *d);

#endif
