/*
 * How ranks talk. Every rank keeps one SOCK_SEQPACKET connection to the hub, which lives in the
 * context of rank 0 and is served by that context's I/O thread. One connection is bootstrap, votes,
 * descriptor broker, failure detector (EOF) and abort path.
 *
 * Everything collective on the host is a *step* on a *lane*: each rank of the lane brings what it
 * called, its status, some bytes and perhaps a descriptor; when the last has come the hub compares,
 * lets the arbiter decide what only one can decide (offsets), and sends all of them the same
 * verdict, everyone's bytes and descriptors.
 */
#ifndef SYMM_EXCHANGE_H
#define SYMM_EXCHANGE_H

#include <stdatomic.h>
#include "runtime/base/deadline.h"
#include "runtime/comm/doing.h"
#include "runtime/comm/join.h"
#include "runtime/base/log.h"
#include "runtime/base/rank_set.h"
#include "runtime/base/status.h"

struct symm_exchange;
struct symm_lane;

/*
 * Decides, in the hub's thread, what all ranks of a step then take as given. Only rank 0's is used.
 */
struct symm_arbiter {
    /*
     * Called when all ranks of a step with op != 0 have come. status: the worst of theirs. Returns
     * the verdict (with a text if it fails) and fills in the answer.
     */
    symm_status (*decide)(void *self, uint32_t op, struct symm_rank_set members, symm_status status,
                          const uint64_t args[4], uint64_t answer[4]);
    /* Rank has freed the block at offset off of the window. */
    void (*freed)(void *self, int rank, uint64_t off);
    /* Whether no block is free on some of its ranks and not on others. */
    bool (*settled)(void *self);
    void *self;
};

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
 * Says goodbye and closes; leaving without it is dying. Every lane must have been closed. NULL is
 * fine.
 */
void symm__exchange_close(struct symm_exchange *x);

/*
 * Tells the arbiter, before this rank's next step, that the block at off is free here. Never waits;
 * any thread. Returns the number of this call, from 1.
 */
uint64_t symm__exchange_freed(struct symm_exchange *x, uint64_t off);
/* What was freed by calls up to this number is known to be free on all ranks. Any thread. */
uint64_t symm__exchange_settled(struct symm_exchange *x);

/*
 * What a lane tells its owner. Called from the I/O thread or from whoever aborts; must not block.
 */
struct symm_lane_events {
    /* The lane got its sticky status. */
    void (*ended)(void *user);
    /* Somebody asks what this rank does. */
    void (*doing)(void *user, struct symm_doing *out);
    /* The answer to symm__lane_ask; rank: in the lane. */
    void (*told)(void *user, int rank, const struct symm_doing *doing);
    void *user;
};

/* The world's lane: all ranks, in order. */
symm_status symm__lane_world(struct symm_exchange *x, const struct symm_lane_events *events,
                             struct symm_lane **out);

/*
 * One collective step. In: everything up to fd. Out, only if the verdict is OK: all, fds, answer.
 */
struct symm_step {
    const char *what;   /* the call with its arguments, the same text on all ranks */
    uint32_t op;        /* for the arbiter; 0: nothing to decide */
    symm_status status; /* this rank's, with symm__failure_text() when it is not OK */
    uint64_t args[4];   /* the arbiter gets those of the lowest rank */
    const void *mine;   /* nbytes, at most symm__step_max(), the same on all ranks */
    size_t nbytes;
    bool gives_fd; /* fd is sent; it stays the caller's */
    int fd;
    void *all; /* nranks * nbytes, or NULL */
    int *fds;  /* nranks descriptors, the caller's to close, -1 where a rank gave none; or NULL */
    uint64_t answer[4];
};

/*
 * Takes part in the lane's next step. Returns the verdict, the same on all ranks: OK; the status of
 * the lowest failing rank, its text with "rank R: " in front; MISMATCH with who called what; or the
 * lane's sticky status. On expiry the lane is aborted with ERROR_TIMEOUT, and the text says which
 * ranks had not come and what they are doing.
 */
symm_status symm__lane_step(struct symm_lane *lane, struct symm_step *step, symm_deadline deadline);
size_t symm__step_max(int nranks); /* bytes a rank may bring to one step */

/*
 * Makes a lane of some of a lane's ranks (numbers in the parent), called by those ranks only, in
 * that order of ranks. step is its first step (what, op, status, args in; answer out).
 */
symm_status symm__lane_create(struct symm_lane *parent, int nranks, const int *ranks,
                              const struct symm_lane_events *events, struct symm_step *step,
                              symm_deadline deadline, struct symm_lane **out);

/* Forgets the lane, on this rank. NULL is fine. */
void symm__lane_close(struct symm_lane *lane);

int symm__lane_rank(const struct symm_lane *lane);
int symm__lane_nranks(const struct symm_lane *lane);
const int *symm__lane_ranks(const struct symm_lane *lane); /* world ranks */
struct symm_rank_set symm__lane_members(const struct symm_lane *lane);

/*
 * Ends the lane on all its ranks with this status and text. The first abort wins. Any thread; never
 * waits.
 */
void symm__lane_abort(struct symm_lane *lane, symm_status status, const char *text);

/*
 * OK, or the sticky status; with a text recorded for this thread. Any thread; one load when
 * healthy.
 */
symm_status symm__lane_check(struct symm_lane *lane);

/*
 * OK if the lane had not ended anywhere when this was called. An end reaches the ranks one after
 * the other, but the hub before any of them: so what a rank had received from its peers before a
 * confirmation, no peer had spoilt by ending early. Any thread; one round trip to the hub.
 */
symm_status symm__lane_confirm(struct symm_lane *lane, symm_deadline deadline);

/*
 * Says that no kernel of this rank uses the lane's group any more, and waits until every rank that
 * is still there has said so, the deadline is over, or the hub is gone. For lanes that have ended,
 * on which nobody can vote. Returns whether all are quiet.
 */
bool symm__lane_quiet(struct symm_lane *lane, symm_deadline deadline);

/*
 * Asks rank (of the lane) what it does; the answer comes to events.told. Any thread; never waits.
 */
void symm__lane_ask(struct symm_lane *lane, int rank);

#endif
