/* Where ranks meet: a socket in a folder that only this user can enter, named by the session. */
#ifndef SYMM_RENDEZVOUS_H
#define SYMM_RENDEZVOUS_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>
#include "deadline.h"
#include "log.h"
#include "status.h"

/* Rank 0's end. Empty: {.listener = -1, .folder_fd = -1}. */
struct symm_rendezvous {
    int listener, folder_fd;
    bool named; /* the folder, by SYMM_DIR: the user's, so it stays */
    char folder[PATH_MAX], name[80];
};

/*
 * Opens the meeting place. A socket that a dead job left is replaced.
 * Errors: ERROR_ARGUMENT (the folder is not safe), ERROR_STATE (the session is in use),
 * ERROR_SYSTEM, ERROR_TIMEOUT
 */
symm_status symm__rendezvous_open(struct symm_rendezvous *r, const char *session,
                                  symm_deadline deadline);

/* Takes the meeting place away: nobody else can come. Idempotent. */
void symm__rendezvous_close(struct symm_rendezvous *r);

/*
 * Connects to rank 0, waiting for it if need be, with a report each slow_us; *hub is its process.
 * Errors: as above, but ERROR_STATE.
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
