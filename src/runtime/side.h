/*
 * A group's side streams, on which a call has copies run beside what it has in the caller's stream.
 * They have the greatest priority: what a kernel waits for must not be kept waiting by kernels that
 * find no room on the device, which may come after it only.
 * They are forked from it and joined to it by events, so that in a capture they become branches of
 * the graph.
 */
#ifndef SYMM_SIDE_H
#define SYMM_SIDE_H

#include "enqueue.h"

enum { SYMM_SIDES_MAX = 2 };

struct symm_sides;

/*
 * Side streams 0 to n - 1 for one call, n at most SYMM_SIDES_MAX. They are made at first need and
 * stay with the group. A stream takes part in a capture until that ends, whatever has been joined:
 * so a call never gets those that another capture has.
 */
symm_status symm__sides_take(struct symm_enqueue *e, int n, struct symm_sides **out);

/* The point in the caller's stream that side streams follow from now on: after all that it has. */
symm_status symm__sides_mark(struct symm_sides *sides);
/* What side stream i gets from now on comes after the last mark. */
symm_status symm__side_follow(struct symm_sides *sides, int i);
/* What the caller's stream gets from now on comes after all that side stream i has. */
symm_status symm__side_join(struct symm_sides *sides, int i);
CUstream symm__side_stream(const struct symm_sides *sides, int i);

/*
 * Joins all that have not been, also after a failure, which it returns: a capture cannot be ended
 * otherwise.
 */
symm_status symm__sides_finish(struct symm_sides *sides, symm_status st);

/* Gives back all that the group has; *st keeps the first failure. Local. */
void symm__sides_release(struct symm_group *group, symm_status *st);

#endif
