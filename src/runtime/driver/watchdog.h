/* Calls that may block in the driver for ever, run where giving up on them is possible. */
#ifndef SYMM_WATCHDOG_H
#define SYMM_WATCHDOG_H

#include <stdbool.h>
#include "runtime/base/deadline.h"
#include "runtime/base/status.h"

/*
 * Runs run(job) on a thread of its own and waits for it. *late: it had not returned by the
 * deadline. Then thread and job are abandoned on purpose: such a call cannot be cancelled, and what
 * it uses must stay as it is until the process ends; if it does return some day, the thread calls
 * drop(job) and is gone. Otherwise the job is the caller's again.
 */
symm_status symm__watch(void (*run)(void *job), void (*drop)(void *job), void *job,
                        symm_deadline deadline, bool *late);

#endif
