/*
 * Determines rank, number of ranks and session: from the configuration, from a launcher's variables
 * (symm-run, torchrun, Open MPI, Slurm), or as a world of one rank.
 */
#ifndef SYMM_JOIN_H
#define SYMM_JOIN_H

#include <stdbool.h>
#include <symm/symm.h>
#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "span.h"

struct symm_join {
    int rank, nranks;             /* in this rank's domain */
    int world_rank, world_nranks; /* in the job; the same where all ranks are in one domain */
    const int *names;             /* the world ranks of the domain's ranks; NULL: their own */
    struct symm_span *span;       /* NULL: the job has one domain. The owner frees it */
    int local_rank;               /* chooses the device */
    bool one_host;                /* the launcher says that all ranks are on this host */
    bool met_nobody;              /* with span: nothing told of other hosts, which there may be */
    /* "symm-run", "torchrun", "Open MPI", "Slurm", "configuration", "alone" */
    const char *launcher;
    char session[65]; /* hex: a hash of everything that identifies this job, with the generation */
    bool has_token;
    uint8_t token[16];
    uint64_t id[2];     /* the session without host, domain and generation */
    bool has_random_id; /* rank 0 has drawn it: no other job can have it */
};

/* The world rank of a rank of the domain, for texts. */
static inline int symm__join_name(const struct symm_join *join, int rank)
{
    return join->names ? join->names[rank] : rank;
}

/* For reports while ranks of several hosts meet. */
struct symm_join_wait {
    symm_deadline deadline;
    int64_t slow_us;
    const struct symm_log *log;
};

/*
 * Resolves the configuration. A session is a hash of the launcher's job id or the given session, of
 * the uid and the boot id, of the domain, and of the generation. The generation counts the contexts
 * of this session and rank in this process. Only contexts that joined count, so the ranks still
 * agree after a failed attempt. With config->all_gather, rank 0 draws session and token at random
 * and sends them to all ranks. With config->span, ranks of several hosts meet here (cards.h);
 * only then is `wait` needed.
 * Errors: ERROR_ARGUMENT     names the variable or field
 *         ERROR_UNSUPPORTED  ranks on more than one host without config->span
 *         those of symm__cards_gather()
 */
symm_status symm__join_resolve(const symm_config *config, const struct symm_join_wait *wait,
                               struct symm_join *out);

/* Counts a context that joined: the next one of this session and rank has the next generation. */
void symm__join_done(const struct symm_join *join);

/* Adds to the text of a failure to join on one host what to set if there are more. Returns st. */
symm_status symm__join_explain(const struct symm_join *join, symm_status st);

/* Mixes a text with its NUL into a hash of two independent halves. */
void symm__join_mix(uint64_t id[2], const char *text);

#endif
