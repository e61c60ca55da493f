/* A detached thread and a record. The caller or the thread frees the record, whichever is last. */
#include "watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include "runtime/base/cond.h"

struct watch {
    void (*run)(void *job);
    void (*drop)(void *job);
    void *job;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done, abandoned;
};

static void watch_free(struct watch *w)
{
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static void *watched_thread(void *arg)
{
    struct watch *w = arg;

    w->run(w->job);
    pthread_mutex_lock(&w->lock);
    w->done = true;
    bool abandoned = w->abandoned;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (abandoned) {
        w->drop(w->job);
        watch_free(w);
    }
    return NULL;
}

static struct watch *watch_new(void (*run)(void *), void (*drop)(void *), void *job)
{
    struct watch *w = calloc(1, sizeof *w);

    if (!w)
        return NULL;
    *w = (struct watch){.run = run, .drop = drop, .job = job};
    pthread_mutex_init(&w->lock, NULL);
    if (symm__cond_init(&w->changed) == SYMM_OK)
        return w;
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}

/*
 * Starts the thread with all signals blocked, so that the application's handlers run on its own
 * threads.
 */
static int start(struct watch *w, pthread_t *thread)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(thread, NULL, watched_thread, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

symm_status symm__watch(void (*run)(void *), void (*drop)(void *), void *job,
                        symm_deadline deadline, bool *late)
{
    struct watch *w = watch_new(run, drop, job);
    pthread_t thread;

    *late = false;
    if (!w)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory for a helper thread");
    int err = start(w, &thread);
    if (err) {
        watch_free(w);
        return symm__fail_errno(err, "pthread_create");
    }

    pthread_mutex_lock(&w->lock);
    while (!w->done && !w->abandoned)
        if (!symm__cond_wait(&w->changed, &w->lock, deadline) && !w->done)
            w->abandoned = true;
    *late = w->abandoned;
    pthread_mutex_unlock(&w->lock);
    if (*late) {
        pthread_detach(thread);
    } else {
        pthread_join(thread, NULL);
        watch_free(w);
    }
    return SYMM_OK;
}
