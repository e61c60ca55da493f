/*
 * The rendezvous: the socket where ranks meet, named after the session. It lies in a folder that
 * only this user can enter. Without such a folder it is an abstract socket, which every user of the
 * host can reach.
 */
#ifndef SYMM_RENDEZVOUS_H
#define SYMM_RENDEZVOUS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include "runtime/base/deadline.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"

/* Rank 0's side. Empty: {.listener = -1}. */
struct symm_rendezvous {
    int listener;
    bool given;            /* SYMM_DIR gives the folder: it stays */
    char folder[PATH_MAX]; /* empty: the socket is abstract */
    char name[80];         /* name of the socket */
};

/*
 * Opens the rendezvous. Removes sockets of dead jobs from the folder. Uses the abstract socket if
 * the default folder cannot be used.
 * Errors: ERROR_ARGUMENT (the folder is not safe, or another user has the abstract socket),
 *         ERROR_STATE (the session is in use), ERROR_SYSTEM, ERROR_TIMEOUT. After ERROR_SYSTEM the
 *         abstract socket listens if possible, for symm__rendezvous_refuse().
 */
symm_status symm__rendezvous_open(struct symm_rendezvous *r, const char *session,
                                  symm_deadline deadline, const struct symm_log *log);

/*
 * Refuses connections that were not accepted, with this reason: at most n, until the deadline.
 * After the deadline, only the connections that already wait.
 */
void symm__rendezvous_refuse(struct symm_rendezvous *r, symm_status status, const char *why, int n,
                             symm_deadline deadline);

/*
 * Removes the rendezvous and refuses connections that were not accepted, with this reason.
 * Idempotent; NULL is fine.
 */
void symm__rendezvous_close(struct symm_rendezvous *r, symm_status status, const char *why);

/*
 * Connects to rank 0. Waits for it until the deadline, with a report each slow_us. *hub: its
 * process.
 * Errors: those of symm__rendezvous_open except ERROR_STATE.
 */
symm_status symm__rendezvous_connect(const char *session, symm_deadline deadline,
                                     const struct symm_log *log, int64_t slow_us, int *fd,
                                     pid_t *hub);

/*
 * Gets the process at the other end of a connection. Errors: ERROR_ARGUMENT if it belongs to
 * another user.
 */
symm_status symm__rendezvous_peer(int fd, pid_t *pid);

/*
 * Returns a descriptor that polls readable once the process has ended. Its connections may stay
 * open in forked children. -1: this process itself, or the kernel has no pidfd.
 */
int symm__rendezvous_watch(pid_t pid);

#endif
