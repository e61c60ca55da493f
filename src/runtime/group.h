/* Groups: a lane, a pad, staging, a view. */
#ifndef SYMM_GROUP_H
#define SYMM_GROUP_H

#include "context.h"

/*
 * The world in two halves, as parts of making the context. Joining is Local and needs only the
 * exchange: the steps of making the context run on its lane. *mine is what this rank will bring to
 * the first of them; what the group cannot get of the device is put there, so that the others hear
 * of it. Furnishing needs everything else: Collective.
 */
symm_status symm__group_join_world(struct symm_context *ctx, symm_status *mine,
                                   struct symm_group **out);
symm_status symm__group_furnish_world(struct symm_group *group);

/* A group of some of `of`'s ranks; what: the call, as the members must agree on it; mine: this
 * rank's failure, if it cannot take part. Collective over the members. */
symm_status symm__group_create(struct symm_group *of, int nranks, const int *ranks,
                               const char *what, symm_status mine, struct symm_group **out);

/*
 * Waits for what was enqueued through the group. Ends with it, or with the group: the waits of
 * kernels return when it is aborted.
 */
symm_status symm__group_quiesce(struct symm_group *group);

/*
 * An end reaches the ranks and their kernels within a few milliseconds, but not at once. A peer that hears of it later
 * may still be reading through the switch, where what is unbound meanwhile faults; and when a group has ended, nobody
 * can be asked any more. So whoever releases multicast without the others waits this long before. (What is read without
 * multicast stays alive by the reader's own mapping.)
 */
enum { SYMM_GRACE_US = 100000 };

/* Gives back everything on this rank; keeps going and returns the first failure. Local. NULL is fine. */
symm_status symm__group_release(struct symm_group *group);

/* The world ranks of this rank and another of the group, or of all its ranks. */
struct symm_rank_set symm__group_pair(const struct symm_group *group, int rank);
int symm__group_world_rank(const struct symm_group *group, int rank);

#endif
