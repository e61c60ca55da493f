/* A detached thread and a record. The caller or the thread frees the record, whichever is last. */
#include "watchdog.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

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
    pthread_condattr_t attr;

    if (!w)
        return NULL;
    *w = (struct watch){.run = run, .drop = drop, .job = job};
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
    return w;
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

    struct timespec until = {.tv_sec = deadline / 1000000, .tv_nsec = deadline % 1000000 * 1000};
    pthread_mutex_lock(&w->lock);
    while (!w->done && !w->abandoned) {
        if (deadline == SYMM_NEVER)
            pthread_cond_wait(&w->changed, &w->lock);
        else if (pthread_cond_timedwait(&w->changed, &w->lock, &until) == ETIMEDOUT && !w->done)
            w->abandoned = true;
    }
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
