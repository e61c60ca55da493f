/* A group: a comm, areas and a view. */
#ifndef SYMM_GROUP_H
#define SYMM_GROUP_H

#include "context.h"

/*
 * Creates the world group in two halves. Join is Local and needs only the exchange; the votes that
 * create the context run on its comm. *mine: this rank's status for the first vote; a failure of
 * the device is stored there. Furnish is Collective and needs the rest of the context.
 */
symm_status symm__group_join_world(struct symm_context *ctx, symm_status *mine,
                                   struct symm_group **out);
symm_status symm__group_furnish_world(struct symm_group *group);

/*
 * Creates a group of some ranks of `of`. what: the text of the call, on which members must agree.
 * mine: this rank's failure, or OK. Collective over the members.
 */
symm_status symm__group_create(struct symm_group *of, int nranks, const int *ranks,
                               const char *what, symm_status mine, struct symm_group **out);

/*
 * The same with this rank's place in ranks, which are numbers in the comm of `of`, and with
 * SYMM_CREATE_ORDINARY or SYMM_CREATE_INNER.
 */
symm_status symm__group_create_at(struct symm_group *of, int rank, int nranks, const int *ranks,
                                  uint64_t kind, const char *what, symm_status mine,
                                  struct symm_group **out);

/* For domains.c: a group without anything; the callbacks of its comm; adds it to its context. */
struct symm_group *symm__group_new(struct symm_context *ctx);
symm_status symm__group_equip_event(struct symm_group *group);
struct symm_host_comm_events symm__group_events(struct symm_group *group);
void symm__group_list(struct symm_group *group);

/*
 * Waits for the work enqueued through the group. After an abort the waits of kernels return, so
 * this returns too.
 */
symm_status symm__group_quiesce(struct symm_group *group);

/*
 * For symm_config.hold: from now on, also now, kernels of this rank in the group and in its inner
 * group stop to wait when the group has ended. Local; any thread.
 */
void symm__group_hold_no_more(struct symm_group *group);

/*
 * For symm_config.hold: whether the group has ended because a rank's process exited in order, and
 * no kernel of this rank has waited long for it. Local; any thread.
 */
bool symm__group_ended_unnoticed(struct symm_group *group);

/* An object of a later folder that a group owns: released with the group. */
struct symm_attachment {
    struct symm_attachment *next;
    void (*release)(struct symm_attachment *attachment); /* Local */
};
/*
 * Local; any thread. Detach does not release, and does nothing if the attachment is not in the
 * list.
 */
void symm__group_attach(struct symm_group *group, struct symm_attachment *attachment);
void symm__group_detach(struct symm_group *group, struct symm_attachment *attachment);
/* The newest attachment with this release function; NULL: none. Local; any thread. */
struct symm_attachment *symm__group_attachment(struct symm_group *group,
                                               void (*release)(struct symm_attachment *));

/* Releases the group's attachments and memory on this rank. Local. */
void symm__group_let_go(struct symm_group *group);

/*
 * Releases the group on this rank. Local. Continues after failures; returns the first. NULL is
 * fine.
 */
symm_status symm__group_release(struct symm_group *group);

/*
 * The numbers in the domain: the set of this rank's and another rank's, and that of a rank. And the
 * number in the world, for texts.
 */
struct symm_rank_set symm__group_pair(const struct symm_group *group, int rank);
int symm__group_domain_rank(const struct symm_group *group, int rank);
int symm__group_world_rank(const struct symm_group *group, int rank);

#endif
