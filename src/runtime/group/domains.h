/*
 * Groups of several domains. On each rank such a group has the comm of the ranks of its own domain,
 * whose votes the hubs relay. It has no memory, no pads and no kernels.
 */
#ifndef SYMM_DOMAINS_H
#define SYMM_DOMAINS_H

#include "group.h"

/* Where the ranks of a group are, if they are in several domains. */
struct symm_domains {
    struct symm_span_birth birth; /* hash, order, ndomains, most */
    uint32_t *domains;            /* numbers of its domains in the job, rising */
    int *world;                   /* by rank: its number in the world */
    int *domain;                  /* by rank: the index of its domain */
    int *slot;                    /* by rank: its place in the result of a vote */
    int nlocal;
    int *local; /* ranks of this rank's domain, in the order of the group */
};

/*
 * On rank 0 of several domains, opens the root. Before the device, because the other domains
 * connect right after the meeting, and give up a connection that gets no answer. mine: this rank's
 * failure, which is returned if there is one.
 */
symm_status symm__domains_root(struct symm_context *ctx, symm_status mine, struct symm_root **out);

/*
 * The world of a job with several domains. Local: its comm exists already. *mine: this rank's
 * status for the first vote; a failure of the device is stored there.
 */
symm_status symm__domains_world(struct symm_context *ctx, symm_status *mine,
                                struct symm_group **out);

/*
 * Creates that world as the last step of a context: on all ranks, or on none. st: the result in
 * this domain, the same on all its ranks, with its text.
 */
symm_status symm__domains_begin(struct symm_context *ctx, symm_status st);

/*
 * A group of some ranks of `of`, which has several domains: one of several domains, too, or an
 * ordinary one. As symm__group_create().
 */
symm_status symm__domains_create(struct symm_group *of, int nranks, const int *ranks,
                                 const char *what, symm_status mine, struct symm_group **out);

/*
 * An ordinary group of the ranks of this rank's domain, which serves `of`: both end together. Also
 * sets of->inner, until the caller releases it. Each domain does so by itself. Collective over
 * those ranks. As symm__group_create().
 */
symm_status symm__domains_inner(struct symm_group *of, const char *what, symm_status mine,
                                struct symm_group **out);

/* Whether a rank of the group is in this rank's domain. */
bool symm__group_is_near(const struct symm_group *group, int rank);

/*
 * OK for a group of one domain; else ERROR_ARGUMENT, for calls that need symmetric memory. NULL is
 * fine.
 */
symm_status symm__domains_refuse(const struct symm_group *group);

#endif
