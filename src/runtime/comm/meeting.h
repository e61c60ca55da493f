/*
 * How ranks of several hosts first learn of each other without help: an all-gather over TCP. Rank 0
 * listens; every other rank connects, proves that it knows the key, brings its bytes, and gets
 * those of all.
 */
#ifndef SYMM_MEETING_H
#define SYMM_MEETING_H

#include "runtime/base/log.h"
#include "wire.h"

enum { SYMM_MEETING_PLACES = 16 };

struct symm_meeting {
    int rank, nranks;
    struct symm_wire_key key;
    int nplaces; /* 1 or more addresses at which rank 0 may listen, tried in turn */
    struct symm_address places[SYMM_MEETING_PLACES];
    const struct symm_log *log;
    int64_t slow_us;    /* interval between reports of a long wait */
    const char *wanted; /* the name of the address in texts: "SYMM_ADDRESS" */
    /* Gets the place at which a rank other than 0 has met it. NULL: not wanted. */
    struct symm_address *met;
};

/*
 * Rank 0's listening socket, at the first place that is free. *at: where it listens.
 * Errors: ERROR_STATE (all ports are in use), ERROR_SYSTEM
 */
symm_status symm__meeting_listen(const struct symm_meeting *m, struct symm_address *at, int *fd);

/*
 * all gets nranks * nbytes, rank by rank. listener: of symm__meeting_listen() on rank 0, which
 * stays open; else -1. Blocks until all ranks have come, or the deadline of the first rank, which
 * ends the meeting for all. nbytes: at most 4096.
 * Errors: ERROR_TIMEOUT   names the ranks that have not come: on all that have, alike; or the
 *                         places at which nobody with this key listens
 *         ERROR_MISMATCH  a rank came twice, or has another nranks or nbytes: on all ranks alike
 *         ERROR_VERSION   another version listens at the only place, or at the deadline at one
 *         ERROR_PEER      rank 0 has ended
 *         ERROR_MEMORY, ERROR_SYSTEM
 */
symm_status symm__meeting_gather(const struct symm_meeting *m, int listener, const void *mine,
                                 size_t nbytes, void *all, symm_deadline deadline);

#endif
