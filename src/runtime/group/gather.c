/* Gathers bytes of all ranks, and puts those of several domains in order. */
#include "gather.h"

#include <stdlib.h>
#include <string.h>
#include "domains.h"

/* all: by slot. Writes it by rank. */
static void sort(const struct symm_group *group, const char *slots, size_t nbytes, char *all)
{
    for (int r = 0; r < group->nranks; r++)
        memcpy(all + (size_t)r * nbytes, slots + (size_t)group->domains->slot[r] * nbytes, nbytes);
}

symm_status symm__group_vote(struct symm_group *group, struct symm_vote *vote)
{
    const symm_deadline deadline = symm__deadline_in(group->ctx->timeout_ms);
    char *all = vote->all;
    symm_status st;

    if (!group->domains || !all)
        return symm__host_comm_vote(group->comm, vote, deadline);
    vote->all = malloc((size_t)symm__host_comm_nslots(group->comm) * vote->nbytes);
    if (!vote->all && vote->status == SYMM_OK)
        vote->status = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    st = symm__host_comm_vote(group->comm, vote, deadline);
    if (st == SYMM_OK)
        sort(group, vote->all, vote->nbytes, all);
    free(vote->all);
    vote->all = all;
    return st;
}

/*
 * More bytes than one vote can carry, in pieces. They are collected in a temporary buffer, since
 * outputs stay untouched on failure.
 */
static symm_status gather_pieces(struct symm_group *group, const char *text, symm_status status,
                                 const char *mine, size_t nbytes, size_t most, char *all)
{
    const size_t nranks = (size_t)group->nranks;
    char *gathered = malloc(nranks * nbytes), *piece = malloc(nranks * most);
    symm_status st = SYMM_OK;

    if (status == SYMM_OK && (!gathered || !piece))
        status = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    for (size_t at = 0; at < nbytes; at += most) {
        size_t n = nbytes - at < most ? nbytes - at : most;
        struct symm_vote vote = {
            .text = text, .status = status, .mine = mine + at, .nbytes = n, .all = piece, .fd = -1};
        TRY(symm__group_vote(group, &vote));
        for (size_t r = 0; r < nranks; r++)
            memcpy(gathered + r * nbytes + at, piece + r * n, n);
    }
    memcpy(all, gathered, nranks * nbytes);
out:
    free(piece);
    free(gathered);
    return st;
}

symm_status symm__group_gather(struct symm_group *group, const char *text, symm_status status,
                               const void *mine, size_t nbytes, void *all)
{
    const size_t most = symm__vote_max(symm__host_comm_nslots(group->comm));
    struct symm_vote vote = {.text = text,
                             .status = status,
                             .mine = mine,
                             .nbytes = nbytes,
                             .all = nbytes ? all : NULL,
                             .fd = -1};

    if (most == 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%d ranks are too many for a vote", group->nranks);
    return nbytes <= most ? symm__group_vote(group, &vote)
                          : gather_pieces(group, text, status, mine, nbytes, most, all);
}
