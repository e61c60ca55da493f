/* Groups: a comm, a pad, staging, a view. */
#ifndef SYMM_GROUP_H
#define SYMM_GROUP_H

#include "context.h"

/*
 * The world in two halves, as parts of making the context. Joining is Local and needs only the
 * exchange: the votes of making the context run on its comm. *mine is what this rank will bring to
 * the first of them; what the group cannot get of the device is put there, so that the others hear
 * of it. Furnishing needs everything else: Collective.
 */
symm_status symm__group_join_world(struct symm_context *ctx, symm_status *mine,
                                   struct symm_group **out);
symm_status symm__group_furnish_world(struct symm_group *group);

/*
 * A group of some of `of`'s ranks; what: the call, as the members must agree on it; mine: this
 * rank's failure, if it cannot take part. Collective over the members.
 */
symm_status symm__group_create(struct symm_group *of, int nranks, const int *ranks,
                               const char *what, symm_status mine, struct symm_group **out);

/*
 * Waits for what was enqueued through the group. Ends with it, or with the group: the waits of
 * kernels return when it is aborted.
 */
symm_status symm__group_quiesce(struct symm_group *group);

/*
 * Whoever releases multicast without the others' consent asks first that they be quiet: an end
 * reaches the ranks one after the other, and what is unbound while a peer still reads through the
 * switch faults there. (What is read without multicast stays alive by the reader's own mapping.)
 * Bounded: a peer that neither leaves nor dies is waited for this long; where the hub is gone, and
 * nobody can be asked, an end has that much time to reach the other kernels.
 */
enum { SYMM_QUIET_MS = 3000, SYMM_GRACE_MS = 100 };
void symm__group_await_quiet(struct symm_group *group);

/* An object of a later room that a group owns: released with the group. */
struct symm_attachment {
    struct symm_attachment *next;
    void (*release)(struct symm_attachment *attachment); /* Local */
};
/* Local; any thread. Detaching does not release; it does nothing if the attachment is not there. */
void symm__group_attach(struct symm_group *group, struct symm_attachment *attachment);
void symm__group_detach(struct symm_group *group, struct symm_attachment *attachment);
/* The newest attachment with this release function; NULL: none. Local; any thread. */
struct symm_attachment *symm__group_attached(struct symm_group *group,
                                             void (*release)(struct symm_attachment *));

/* Releases what belongs to the group, and its memory, on this rank. Local. */
void symm__group_let_go(struct symm_group *group);

/*
 * Gives back everything on this rank; keeps going and returns the first failure. Local. NULL is
 * fine.
 */
symm_status symm__group_release(struct symm_group *group);

/* The world ranks of this rank and another of the group, or of all its ranks. */
struct symm_rank_set symm__group_pair(const struct symm_group *group, int rank);
int symm__group_world_rank(const struct symm_group *group, int rank);

#endif
