/* What a group of several domains needs to communicate: made by its first call, or ahead of it. */
#ifndef SYMM_LINKS_H
#define SYMM_LINKS_H

#include "runtime/group/call.h"
#include "runtime/group/group.h"
#include "engine.h"

struct symm_links {
    struct symm_attachment attachment; /* of the group */
    struct symm_attachment inner_end;  /* of the inner group, which may be released first */
    struct symm_group *group;
    struct symm_group *inner;      /* its ranks of this domain; NULL: this rank alone */
    struct symm_engine_comm *flat; /* all its ranks, in its order */
    /*
     * The ranks with this rank's number in their domains, by domain. NULL: domains have different
     * numbers of ranks.
     */
    struct symm_engine_comm *rail;
    symm_algo algo;      /* SYMM_SPAN_ALGO: AUTO, FLAT or HIERARCHICAL */
    CUdeviceptr staging; /* plain device memory of this rank */
    size_t staging_nbytes;
    /* The ranks, int32_t, sorted by number in their domains, then by domain. Behind staging. */
    CUdeviceptr sorted;
    /* The thread that watches the communicators. */
    pthread_mutex_t lock; /* held while communicators are used; guards what follows */
    pthread_cond_t changed;
    pthread_t thread;
    bool runs, closing, finished, aborted;
    bool failed; /* the communicators could not be made: they may only be aborted */
};

/*
 * Makes them. Collective over the group, after symm__collective_begin_spanning(); text: that of the
 * call. Only votes if the group has them.
 * Errors: ERROR_UNSUPPORTED  no library for the engine on some rank
 *         ERROR_MISMATCH     versions of the library, SYMM_SPAN_ALGO, or the rows of
 *                            SYMM_TUNING_FILE differ between ranks
 *         ERROR_MEMORY, ERROR_DRIVER, ERROR_SYSTEM, ERROR_PEER, ERROR_TIMEOUT: if the communicators
 *         could not be made, the group has ended
 */
symm_status symm__links_make(struct symm_group *group, const char *text);

/* NULL: none yet. Local. */
struct symm_links *symm__links_of(struct symm_group *group);

/* Whether a group of several domains has as many ranks in each. */
bool symm__links_has_rails(const struct symm_group *group);

/* This rank's number in its domain, and the number of ranks of each domain with a rail. */
int symm__links_number(const struct symm_links *links);
int symm__links_width(const struct symm_links *links);

/*
 * This rank has failed, with its text, and others wait for it: ends the group for all. Returns st
 * with its text.
 */
symm_status symm__links_fail(struct symm_group *group, symm_status st);

/*
 * Before and after the use of communicators. On failure they must not be used.
 * Errors: ERROR_PEER (aborted, since the group has ended)
 */
symm_status symm__links_enter(struct symm_links *links);
void symm__links_leave(struct symm_links *links);

#endif
