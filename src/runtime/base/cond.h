/* Condition variables that wait by the monotonic clock. Changes of the time of day do not count. */
#ifndef SYMM_COND_H
#define SYMM_COND_H

#include <pthread.h>
#include "deadline.h"
#include "status.h"

/* Errors: ERROR_SYSTEM */
symm_status symm__cond_init(pthread_cond_t *cond);

/* Waits for a signal, lock held; may also return without one. False: the deadline is over. */
bool symm__cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, symm_deadline deadline);

#endif
