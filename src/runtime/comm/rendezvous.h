/*
 * Where ranks meet: a socket named by the session. It lies in a folder that only this user can
 * enter; without one it is an abstract socket, which every user of the host can reach.
 */
#ifndef SYMM_RENDEZVOUS_H
#define SYMM_RENDEZVOUS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

/* Rank 0's end. Empty: {.listener = -1}. */
struct symm_rendezvous {
    int listener;
    bool given;            /* the folder, by SYMM_DIR: it stays */
    char folder[PATH_MAX]; /* empty: the socket is abstract */
    char name[80];         /* of the socket */
};

/*
 * Opens the meeting place. Sockets of dead jobs are removed from the folder. If a default folder
 * cannot be used, the abstract socket is taken.
 * Errors: ERROR_ARGUMENT (the folder is not safe, or another user has the abstract socket),
 *         ERROR_STATE (the session is in use), ERROR_SYSTEM, ERROR_TIMEOUT. After ERROR_SYSTEM the
 *         abstract socket listens if possible, for symm__rendezvous_refuse().
 */
symm_status symm__rendezvous_open(struct symm_rendezvous *r, const char *session,
                                  symm_deadline deadline, const struct symm_log *log);

/*
 * Refuses, with this reason, connections that have not been accepted: at most n, until the
 * deadline; with a deadline that is over, those that are there.
 */
void symm__rendezvous_refuse(struct symm_rendezvous *r, symm_status status, const char *why, int n,
                             symm_deadline deadline);

/*
 * Takes the meeting place away and refuses, with this reason, connections that have not been
 * accepted. Idempotent; NULL is fine.
 */
void symm__rendezvous_close(struct symm_rendezvous *r, symm_status status, const char *why);

/*
 * Connects to rank 0, waiting for it if need be, with a report each slow_us; *hub is its process.
 * Errors: as of symm__rendezvous_open, but ERROR_STATE.
 */
symm_status symm__rendezvous_connect(const char *session, symm_deadline deadline,
                                     const struct symm_log *log, int64_t slow_us, int *fd,
                                     pid_t *hub);

/* The process at the other end of a connection, which must be of this user. */
symm_status symm__rendezvous_peer(int fd, pid_t *pid);

/*
 * A descriptor that polls readable once the process has ended: its connections may outlive it in
 * children that it forked. -1 for this process itself, and where the kernel cannot.
 */
int symm__rendezvous_watch(pid_t pid);

#endif
