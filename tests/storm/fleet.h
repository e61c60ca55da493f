/* Many groups of the same ranks at once, a collective in each of them; a rank may end them all. */
#ifndef STORM_FLEET_H
#define STORM_FLEET_H

#include "actor.h"
#include "draw.h"
#include "slot.h"

/* abort: an event of one rank while the collectives run, or NULL. */
symm_status fleet_run(struct actor *a, struct slot *slot, struct draw *d,
                      const struct storm_event *abort);

#endif
