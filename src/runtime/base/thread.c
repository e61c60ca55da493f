#include "thread.h"

#include <signal.h>

symm_status symm__thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    int err;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    err = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        return symm__fail_errno(err, "pthread_create");
    pthread_setname_np(*thread, name);
    return SYMM_OK;
}
