/* Threads of the library. */
#ifndef SYMM_THREAD_H
#define SYMM_THREAD_H

#include <pthread.h>
#include "status.h"

/* Starts a thread with all signals blocked. name: 15 bytes at most. Errors: ERROR_SYSTEM */
symm_status symm__thread_start(pthread_t *thread, const char *name, void *(*run)(void *),
                               void *arg);

#endif
