/* The parent process of all ranks of a job: starts them, judges their ends, stops them. */
#ifndef SYMM_TOOLS_SUPERVISOR_H
#define SYMM_TOOLS_SUPERVISOR_H

#include <signal.h>
#include <sys/types.h>
#include "launch.h"
#include "meeting.h"

enum { LAUNCH_GRACE_MS = 2000 }; /* from SIGTERM to SIGKILL */

/*
 * Runs the job in this process, which must have no other children. `watched` are the signals to
 * pass on to the ranks; they and SIGCHLD are blocked here, and the ranks start with the mask
 * `inherited`. When `face` is no longer the parent of this process, the ranks are stopped. Destroys
 * the meeting once they have ended. Returns what launch_ranks() returns.
 */
int supervise(const struct launch *job, struct meeting *meeting, const sigset_t *watched,
              const sigset_t *inherited, pid_t face);

#endif
