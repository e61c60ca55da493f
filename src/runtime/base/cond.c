#include "cond.h"

#include <errno.h>
#include <time.h>

symm_status symm__cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int err = pthread_condattr_init(&attr);

    if (!err) {
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        err = pthread_cond_init(cond, &attr);
        pthread_condattr_destroy(&attr);
    }
    return err ? symm__fail_errno(err, "pthread_cond_init") : SYMM_OK;
}

bool symm__cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, symm_deadline deadline)
{
    const struct timespec until = {.tv_sec = deadline / 1000000,
                                   .tv_nsec = deadline % 1000000 * 1000};

    if (deadline == SYMM_NEVER)
        return pthread_cond_wait(cond, lock) == 0;
    return pthread_cond_timedwait(cond, lock, &until) != ETIMEDOUT;
}
