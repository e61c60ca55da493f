/* Votes of a group in which every rank gets the bytes of all, by rank. */
#ifndef SYMM_GATHER_H
#define SYMM_GATHER_H

#include "context.h"

/*
 * A vote on the group's comm, without descriptors; for any group. Collective. vote->all: nranks *
 * nbytes. Errors: as symm__host_comm_vote(); ERROR_MEMORY
 */
symm_status symm__group_vote(struct symm_group *group, struct symm_vote *vote);

/*
 * The same for any number of bytes, in as many votes as they need. all is untouched on failure.
 * mine_status: this rank's failure, or OK. Errors: also ERROR_ARGUMENT (too many bytes)
 */
symm_status symm__group_gather(struct symm_group *group, const char *text, symm_status mine_status,
                               const void *mine, size_t nbytes, void *all);

#endif
