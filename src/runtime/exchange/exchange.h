/*
 * How ranks talk. Every rank keeps one SOCK_SEQPACKET connection to the hub, which lives in the
 * context of rank 0 and is served by that context's I/O thread. One connection is bootstrap, votes,
 * descriptor broker, failure detector (EOF) and abort path.
 *
 * Everything collective on the host is a *vote* on a *comm*: each rank of the comm brings what it
 * called, its status, some bytes and perhaps a descriptor; when the last has come the hub compares,
 * lets the arbiter decide what only one can decide (offsets), and sends all of them the same
 * verdict, everyone's bytes and descriptors.
 */
#ifndef SYMM_EXCHANGE_H
#define SYMM_EXCHANGE_H

#include <stdatomic.h>
#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/base/rank_set.h"
#include "runtime/base/status.h"
#include "runtime/comm/activity.h"
#include "runtime/comm/join.h"
#include "runtime/hub/arbiter.h"

struct symm_exchange;
struct symm_host_comm;

struct symm_exchange_config {
    const struct symm_join *join;
    const struct symm_log *log;
    struct symm_arbiter arbiter;
    int timeout_ms;          /* of joining */
    const char *device_uuid; /* 16 bytes; two ranks with the same one are refused; NULL: none yet */
    /*
     * Called by the I/O thread about every 50 ms; must not block: on rank 0 it serves all. May be
     * NULL.
     */
    void (*tick)(void *user);
    void *user;
};

/*
 * Meets the others: binds or connects, says hello, is checked, and starts the I/O thread.
 * Errors: ERROR_SYSTEM, ERROR_ARGUMENT (the folder is not safe), ERROR_MISMATCH (a table of who is
 *         wrong), ERROR_PEER, ERROR_TIMEOUT (names who is missing), ERROR_VERSION, ERROR_MEMORY
 */
symm_status symm__exchange_open(const struct symm_exchange_config *config,
                                struct symm_exchange **out);

/*
 * Says goodbye and closes; leaving without it is dying. Every comm must have been closed. NULL is
 * fine.
 */
void symm__exchange_close(struct symm_exchange *x);

/*
 * Tells the arbiter, before this rank's next vote, that the block at off is free here. Never waits;
 * any thread. Returns the number of this call, from 1.
 */
uint64_t symm__exchange_freed(struct symm_exchange *x, uint64_t off);
/* What was freed by calls up to this number is known to be free on all ranks. Any thread. */
uint64_t symm__exchange_settled(struct symm_exchange *x);

/*
 * What a comm tells its owner. Called from the I/O thread or from whoever aborts; must not block.
 */
struct symm_host_comm_events {
    /* The comm got its sticky status. */
    void (*ended)(void *user);
    /* Somebody asks what this rank does. */
    void (*activity)(void *user, struct symm_activity *out);
    /* The answer to symm__host_comm_ask; rank: in the comm. */
    void (*told)(void *user, int rank, const struct symm_activity *activity);
    void *user;
};

/* The world's comm: all ranks, in order. */
symm_status symm__host_comm_world(struct symm_exchange *x,
                                  const struct symm_host_comm_events *events,
                                  struct symm_host_comm **out);

/*
 * One collective vote. In: everything up to fd. Out, only if the verdict is OK: all, fds, answer.
 */
struct symm_vote {
    const char *what;   /* the call with its arguments, the same text on all ranks */
    uint32_t op;        /* for the arbiter; 0: nothing to decide */
    symm_status status; /* this rank's, with symm__failure_text() when it is not OK */
    uint64_t args[4];   /* the arbiter gets those of the lowest rank */
    const void *mine;   /* nbytes, at most symm__vote_max(), the same on all ranks */
    size_t nbytes;
    bool gives_fd; /* fd is sent; it stays the caller's */
    int fd;
    void *all; /* nranks * nbytes, or NULL */
    int *fds;  /* nranks descriptors, the caller's to close, -1 where a rank gave none; or NULL */
    uint64_t answer[4];
};

/*
 * Takes part in the comm's next vote. Returns the verdict, the same on all ranks: OK; the status of
 * the lowest failing rank, its text with "rank R: " in front; MISMATCH with who called what; or the
 * comm's sticky status. On expiry the comm is aborted with ERROR_TIMEOUT, and the text says which
 * ranks had not come and what they are doing.
 */
symm_status symm__host_comm_vote(struct symm_host_comm *comm, struct symm_vote *vote,
                                 symm_deadline deadline);
size_t symm__vote_max(int nranks); /* bytes a rank may bring to one vote */

/*
 * Makes a comm of some of a comm's ranks (numbers in the parent), called by those ranks only, in
 * that order of ranks. vote is its first vote (what, op, status, args in; answer out).
 */
symm_status symm__host_comm_create(struct symm_host_comm *parent, int nranks, const int *ranks,
                                   const struct symm_host_comm_events *events,
                                   struct symm_vote *vote, symm_deadline deadline,
                                   struct symm_host_comm **out);

/* Forgets the comm, on this rank. NULL is fine. */
void symm__host_comm_close(struct symm_host_comm *comm);

int symm__host_comm_rank(const struct symm_host_comm *comm);
int symm__host_comm_nranks(const struct symm_host_comm *comm);
const int *symm__host_comm_ranks(const struct symm_host_comm *comm); /* world ranks */
struct symm_rank_set symm__host_comm_members(const struct symm_host_comm *comm);

/*
 * Ends the comm on all its ranks with this status and text. The first abort wins. Any thread; never
 * waits.
 */
void symm__host_comm_abort(struct symm_host_comm *comm, symm_status status, const char *text);

/*
 * OK, or the sticky status; with a text recorded for this thread. Any thread; one load when
 * healthy.
 */
symm_status symm__host_comm_check(struct symm_host_comm *comm);

/*
 * OK if the comm had not ended anywhere when this was called. An end reaches the ranks one after
 * the other, but the hub before any of them: so what a rank had received from its peers before a
 * confirmation, no peer had spoilt by ending early. Any thread; one round trip to the hub.
 */
symm_status symm__host_comm_confirm(struct symm_host_comm *comm, symm_deadline deadline);

/*
 * Says that no kernel of this rank uses the comm's group any more, and waits until every rank that
 * is still there has said so, the deadline is over, or the hub is gone. For comms that have ended,
 * on which nobody can vote. Returns whether all are quiet.
 */
bool symm__host_comm_quiet(struct symm_host_comm *comm, symm_deadline deadline);

/*
 * Asks rank (of the comm) what it does; the answer comes to events.told. Any thread; never waits.
 */
void symm__host_comm_ask(struct symm_host_comm *comm, int rank);

#endif
