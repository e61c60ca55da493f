#include "mark.h"

#include <stdlib.h>
#include "emulator/state/clock.h"

struct emu_mark *emu__mark_create(void)
{
    struct emu_mark *mark = calloc(1, sizeof *mark);
    if (!mark)
        return NULL;
    mark->references = 1;
    pthread_mutex_init(&mark->lock, NULL);
    emu__cond_init(&mark->reached_cond);
    return mark;
}

struct emu_mark *emu__mark_retain(struct emu_mark *mark)
{
    atomic_fetch_add(&mark->references, 1);
    return mark;
}

void emu__mark_release(struct emu_mark *mark)
{
    if (!mark || atomic_fetch_sub(&mark->references, 1) > 1)
        return;
    pthread_cond_destroy(&mark->reached_cond);
    pthread_mutex_destroy(&mark->lock);
    free(mark);
}

void emu__mark_reach(struct emu_mark *mark)
{
    int64_t now = emu__now_ns();
    pthread_mutex_lock(&mark->lock);
    mark->reached = true;
    mark->ns = now;
    pthread_cond_broadcast(&mark->reached_cond);
    pthread_mutex_unlock(&mark->lock);
}

bool emu__mark_reached(struct emu_mark *mark)
{
    pthread_mutex_lock(&mark->lock);
    bool reached = mark->reached;
    pthread_mutex_unlock(&mark->lock);
    return reached;
}

void emu__mark_wait(struct emu_mark *mark, const struct emu_execution *execution)
{
    pthread_mutex_lock(&mark->lock);
    while (!mark->reached && (!execution || emu__sticky(execution) == CUDA_SUCCESS)) {
        struct timespec until = emu__in_ms(20); /* then the device's state is checked again */
        pthread_cond_timedwait(&mark->reached_cond, &mark->lock, &until);
    }
    pthread_mutex_unlock(&mark->lock);
}
