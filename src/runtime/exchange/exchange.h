/*
 * Communication between the processes of the ranks. Every rank keeps one SOCK_SEQPACKET connection
 * to the hub in the context of its domain's lowest rank. That context's I/O thread serves the hub.
 * The connection carries bootstrap, votes, descriptors and aborts; its end (EOF) reports a death.
 *
 * Every collective call of hosts is a *vote* on a *comm* (host communicator). Each rank of the comm
 * contributes the text of its call, its status, bytes and perhaps a descriptor. When the last rank
 * has come, the hub compares the texts, calls the arbiter for offsets, and sends all ranks the same
 * verdict with all bytes and descriptors.
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
#include "runtime/root/root.h"

struct symm_exchange;
struct symm_host_comm;

struct symm_exchange_config {
    const struct symm_join *join;
    const struct symm_log *log;
    struct symm_arbiter arbiter;
    int timeout_ms;           /* time limit of joining */
    int slow_ms;              /* interval between reports of a long wait; 0: SYMM_SLOW_MS */
    const char *device_uuid;  /* 16 bytes; equal UUIDs are refused; NULL: none yet */
    const char *more_devices; /* how to get more devices, behind their number in a text */
    struct symm_root *root;   /* rank 0's of several domains; taken, also on failure; or NULL */
    /*
     * Called by the I/O thread about every 50 ms. It must not block, since rank 0's thread serves
     * all ranks. May be NULL.
     */
    void (*tick)(void *user);
    void *user;
};

/*
 * Joins the other ranks: opens the rendezvous or connects to it, starts the I/O thread, sends HELLO
 * and waits for admission.
 * Errors: ERROR_SYSTEM, ERROR_ARGUMENT (the folder is not safe), ERROR_MISMATCH (names the wrong
 *         ranks), ERROR_PEER, ERROR_TIMEOUT (names the missing ranks), ERROR_VERSION, ERROR_MEMORY
 */
symm_status symm__exchange_open(const struct symm_exchange_config *config,
                                struct symm_exchange **out);

/*
 * Sends BYE and closes. Without BYE the rank counts as dead. All comms must be closed before. NULL
 * is fine.
 */
void symm__exchange_close(struct symm_exchange *x);

/* Whether this thread is the I/O thread, which runs callbacks of the owner and the program. */
bool symm__exchange_is_here(const struct symm_exchange *x);

/*
 * Reports to the arbiter, before this rank's next vote, that this rank has freed the block at off.
 * Never waits; any thread. Returns the number of this call, from 1.
 */
uint64_t symm__exchange_freed(struct symm_exchange *x, uint64_t off);
/* Blocks freed by calls up to this number are free on all ranks. Any thread. */
uint64_t symm__exchange_settled(struct symm_exchange *x);

/*
 * A comm's callbacks to its owner. Called from the I/O thread or the aborting thread. They must not
 * block.
 */
struct symm_host_comm_events {
    /* The comm has ended and has its sticky status. */
    void (*ended)(void *user);
    /* Another rank or the hub asks for this rank's activity. */
    void (*activity)(void *user, struct symm_activity *out);
    /* The answer to symm__host_comm_ask(). rank: the comm rank. */
    void (*told)(void *user, int rank, const struct symm_activity *activity);
    void *user;
};

/* The comm of all ranks, in order. */
symm_status symm__host_comm_world(struct symm_exchange *x,
                                  const struct symm_host_comm_events *events,
                                  struct symm_host_comm **out);

/*
 * The comm of all ranks of a job with several domains. A comm of several domains has on each rank
 * the ranks of its own domain. The result of a vote has nslots contributions: of each domain as
 * many as the largest has ranks, in order, those that do not exist zero. No descriptors.
 */
void symm__host_comm_span(struct symm_exchange *x, const struct symm_host_comm_events *events,
                          struct symm_host_comm **out);
int symm__host_comm_nslots(const struct symm_host_comm *comm);

/* One vote. Inputs: all members up to fd. Outputs, only if the verdict is OK: all, fds, answer. */
struct symm_vote {
    const char *text;   /* text of the call with its arguments; the same on all ranks */
    uint32_t op;        /* for the arbiter; 0: none */
    symm_status status; /* of this rank, with symm__failure_text() if it is not OK */
    uint64_t args[4];   /* the arbiter gets those of the lowest rank with an op */
    /* nbytes of this rank; nbytes is at most symm__vote_max() and the same on all ranks */
    const void *mine;
    size_t nbytes;
    bool gives_fd; /* fd is sent; the caller keeps it */
    int fd;
    void *all; /* nslots * nbytes, or NULL; nslots is nranks in one domain */
    int *fds;  /* nranks descriptors, which the caller closes; -1: the rank gave none; or NULL */
    uint64_t answer[4];
};

/*
 * Takes part in the comm's next vote. Returns the verdict, the same on all ranks: OK; the status of
 * the lowest failing rank, with " (on rank R)" behind its text; ERROR_MISMATCH with each rank's
 * call; or the comm's sticky status. After the deadline the comm is aborted with ERROR_TIMEOUT; the
 * text names the missing ranks and their activities.
 */
symm_status symm__host_comm_vote(struct symm_host_comm *comm, struct symm_vote *vote,
                                 symm_deadline deadline);
/*
 * A vote in which rank 0 hands out *fd, unless it is -1, and keeps it. Sets *fd on the other ranks:
 * to a copy, which they close, or to -1 if rank 0 gave none or the verdict is not OK.
 */
symm_status symm__host_comm_hand_out(struct symm_host_comm *comm, struct symm_vote *vote,
                                     symm_deadline deadline, int *fd);
size_t symm__vote_max(int nslots); /* most bytes of a rank in one vote */

/*
 * Creates a comm of some ranks of the parent. Only these ranks call it, with the same order of
 * ranks (numbers in the parent). vote: its first vote (inputs what, op, status, args; output
 * answer).
 */
symm_status symm__host_comm_create(struct symm_host_comm *parent, int nranks, const int *ranks,
                                   const struct symm_host_comm_events *events,
                                   struct symm_vote *vote, symm_deadline deadline,
                                   struct symm_host_comm **out);
/*
 * The same of several domains, of a parent that has them. ranks: those of this domain. birth: hash,
 * order, ndomains and most; domains: their numbers, rising.
 */
symm_status symm__host_comm_create_span(struct symm_host_comm *parent, int nranks, const int *ranks,
                                        const struct symm_span_birth *birth,
                                        const uint32_t *domains,
                                        const struct symm_host_comm_events *events,
                                        struct symm_vote *vote, symm_deadline deadline,
                                        struct symm_host_comm **out);

/* Closes the comm on this rank. NULL is fine. */
void symm__host_comm_close(struct symm_host_comm *comm);

int symm__host_comm_rank(const struct symm_host_comm *comm);
int symm__host_comm_nranks(const struct symm_host_comm *comm);
const int *symm__host_comm_ranks(const struct symm_host_comm *comm); /* in the domain */
/* World ranks, for texts. */
const int *symm__host_comm_names(const struct symm_host_comm *comm);
struct symm_rank_set symm__host_comm_members(const struct symm_host_comm *comm);

/*
 * Ends the comm on all ranks with this status and text. The first abort wins. Any thread; never
 * waits.
 */
void symm__host_comm_abort(struct symm_host_comm *comm, symm_status status, const char *text);

/*
 * Returns OK or the sticky status, with its text recorded for this thread. Any thread; one load
 * while the comm is alive.
 */
symm_status symm__host_comm_check(struct symm_host_comm *comm);

/*
 * The rank of the domain by whose exit the comm has ended: its process exited in order without
 * destroying its context. -1: there is none. Any thread.
 */
int symm__host_comm_exited(struct symm_host_comm *comm);

/*
 * Returns OK if the comm had ended on no rank when this was called. An end reaches the hub before
 * any rank's kernels. So no peer had ended early and overwritten the data that this rank received
 * before the confirmation. Any thread; one round trip to the hub.
 */
symm_status symm__host_comm_confirm(struct symm_host_comm *comm, symm_deadline deadline);

/*
 * Declares that no kernel of this rank uses the comm's group any more. Waits until all remaining
 * ranks have declared it, until the deadline, or until the hub is lost. For ended comms, which
 * allow no vote. Returns whether all ranks are quiet.
 */
bool symm__host_comm_quiet(struct symm_host_comm *comm, symm_deadline deadline);

/* Asks a comm rank for its activity. The answer arrives in events.told. Any thread; never waits. */
void symm__host_comm_ask(struct symm_host_comm *comm, int rank);

#endif
