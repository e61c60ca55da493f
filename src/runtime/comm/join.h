/*
 * Determines rank, number of ranks and session: from the configuration, from a launcher's variables
 * (symm-run, torchrun, Open MPI, Slurm), or as a world of one rank.
 */
#ifndef SYMM_JOIN_H
#define SYMM_JOIN_H

#include <stdbool.h>
#include <symm/symm.h>
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

struct symm_join {
    int rank, nranks;
    int local_rank; /* chooses the device */
    /* "symm-run", "torchrun", "Open MPI", "Slurm", "configuration", "alone" */
    const char *launcher;
    char session[65]; /* hex: a hash of everything that identifies this job, with the generation */
    bool has_token;
    uint8_t token[16];
    uint64_t id[2]; /* the session without its generation */
};

/*
 * Resolves the configuration. A session is a hash of the uid, the boot id, the launcher's job id or
 * the given session, and the generation. The generation counts the contexts of this session and
 * rank in this process. Only contexts that joined count, so the ranks still agree after a failed
 * attempt. With config->all_gather, rank 0 draws session and token at random and sends them to all
 * ranks. Errors: ERROR_ARGUMENT names the variable or field; ERROR_UNSUPPORTED for ranks on more
 * than one host.
 */
symm_status symm__join_resolve(const symm_config *config, struct symm_join *out);

/* Counts a context that joined: the next one of this session and rank has the next generation. */
void symm__join_done(const struct symm_join *join);

#endif
