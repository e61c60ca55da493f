/*
 * Who am I and where do we meet: from the configuration, or from a launcher's variables (symm-run,
 * torchrun, Open MPI, Slurm), or alone.
 */
#ifndef SYMM_JOIN_H
#define SYMM_JOIN_H

#include <stdbool.h>
#include <symm/symm.h>
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

struct symm_join {
    int rank, nranks;
    int local_rank; /* for choosing a device */
    /* "symm-run", "torchrun", "Open MPI", "Slurm", "configuration", "alone" */
    const char *launcher;
    char session[65]; /* hex: a hash of everything that names this job, the generation included */
    bool has_token;
    uint8_t token[16];
    uint64_t id[2]; /* of the session without its generation */
};

/*
 * Resolves the configuration. A session is a hash of (uid, boot id, the launcher's job id or the
 * given session, and a generation that counts this rank's contexts of that session in this process:
 * those that joined, so that after a failed attempt the ranks still agree on it). With
 * config->all_gather rank 0 makes up session and token and passes them round. Errors:
 * ERROR_ARGUMENT names the variable or field; ERROR_UNSUPPORTED for ranks on more than one host.
 */
symm_status symm__join_resolve(const symm_config *config, struct symm_join *out);

/* The ranks have met: the next context of this session and rank is another generation. */
void symm__join_done(const struct symm_join *join);

#endif
