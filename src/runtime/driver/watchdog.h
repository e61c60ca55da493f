/* Runs calls that may block in the driver for ever, so that the caller can give up on them. */
#ifndef SYMM_WATCHDOG_H
#define SYMM_WATCHDOG_H

#include <stdbool.h>
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

/*
 * Runs run(job) on a helper thread and waits for it. *late: it has not returned by the deadline.
 * The call cannot be cancelled, so thread and job are then abandoned, and everything the call uses
 * must stay valid until the process ends. If the call returns later, the thread calls drop(job) and
 * ends. If *late is false, the caller owns the job again.
 */
symm_status symm__watch(void (*run)(void *job), void (*drop)(void *job), void *job,
                        symm_deadline deadline, bool *late);

#endif
