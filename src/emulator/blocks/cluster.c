/* Clusters: their blocks, the barrier of their threads, and the sleep of blocks that wait. */
#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include "emulator/state/clock.h"
#include "emulator/state/sanitizer.h"
#include "block.h"

#define SLEEP_MS 1

struct emu_cluster *emu__cluster_create(void)
{
    struct emu_cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return NULL;
    pthread_mutex_init(&cluster->lock, NULL);
    emu__cond_init(&cluster->changed);
    return cluster;
}

void emu__cluster_begin(struct emu_cluster *cluster, unsigned nblocks, unsigned nthreads)
{
    cluster->nblocks = nblocks;
    cluster->nthreads = nthreads;
    cluster->ended = cluster->asleep = cluster->arrived = 0;
}

void emu__cluster_free(struct emu_cluster *cluster)
{
    if (!cluster)
        return;
    pthread_mutex_destroy(&cluster->lock);
    pthread_cond_destroy(&cluster->changed);
    free(cluster);
}

EMU_UNCHECKED void emu__cluster_lock(struct emu_cluster *cluster)
{
    if (cluster->nblocks > 1)
        pthread_mutex_lock(&cluster->lock);
    EMU_ACQUIRE(cluster);
}

EMU_UNCHECKED void emu__cluster_unlock(struct emu_cluster *cluster)
{
    EMU_RELEASE(cluster);
    if (cluster->nblocks > 1)
        pthread_mutex_unlock(&cluster->lock);
}

void emu__cluster_join(struct emu_cluster *cluster, struct block *b, unsigned rank)
{
    emu__cluster_lock(cluster);
    cluster->blocks[rank] = b;
    b->cluster = cluster;
    b->rank = rank;
    b->events = cluster->events;
    emu__cluster_unlock(cluster);
}

bool emu__cluster_leave(struct emu_cluster *cluster, unsigned rank)
{
    emu__cluster_lock(cluster);
    cluster->blocks[rank] = NULL;
    bool last = ++cluster->ended == cluster->nblocks;
    emu__cluster_event(cluster);
    emu__cluster_unlock(cluster);
    return last;
}

/* ---- Sleep ---- */

void emu__cluster_event(struct emu_cluster *cluster)
{
    cluster->events++;
    if (cluster->asleep > 0)
        pthread_cond_broadcast(&cluster->changed);
    cluster->asleep = 0;
}

bool emu__cluster_sleep(struct block *b)
{
    struct emu_cluster *c = b->cluster;
    const struct timespec until = emu__in_ms(SLEEP_MS);
    bool more = true;
    emu__cluster_lock(c);
    if (b->events == c->events) {
        more = ++c->asleep + c->ended < c->nblocks;
        if (more)
            pthread_cond_timedwait(&c->changed, &c->lock, &until);
        if (b->events == c->events)
            c->asleep--;
    }
    emu__cluster_unlock(c);
    return more;
}

/* ---- The barrier ---- */

/* With the lock. */
EMU_UNCHECKED static void open_if_all_arrived(struct emu_cluster *cluster)
{
    if (cluster->arrived < cluster->nthreads || cluster->nthreads == 0)
        return;
    cluster->arrived = 0;
    cluster->phase++;
    emu__cluster_event(cluster);
}

EMU_UNCHECKED void emu__cluster_arrive(void)
{
    struct block *b = emu__this_block;
    struct cuda_thread *t = b->running;
    if (t->arrived)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED,
                         "barrier.cluster.arrive twice without a wait in between");
    if (b->weak)
        emu__weak_fence(SYMM_EMULATED_RELEASE);
    emu__cluster_lock(b->cluster);
    t->arrived = true;
    t->phase = b->cluster->phase;
    b->cluster->arrived++;
    open_if_all_arrived(b->cluster);
    emu__cluster_unlock(b->cluster);
    b->progress = true;
}

EMU_UNCHECKED static bool has_opened(const struct block *b, const struct cuda_thread *t)
{
    return b->cluster->phase != t->phase;
}

EMU_UNCHECKED static void describe_barrier(const struct block *b, const struct cuda_thread *t,
                                           char *text, size_t nbytes)
{
    (void)t;
    snprintf(text, nbytes, "barrier.cluster, at which %u of %u threads have arrived",
             b->cluster->arrived, b->cluster->nthreads);
}

EMU_UNCHECKED void emu__cluster_wait(void)
{
    struct block *b = emu__this_block;
    struct cuda_thread *t = b->running;
    if (!t->arrived)
        emu__block_break(CUDA_ERROR_LAUNCH_FAILED, "barrier.cluster.wait without an arrive before");
    emu__block_await(b, has_opened, describe_barrier);
    t->arrived = false;
    b->met = true;
    if (b->weak)
        emu__weak_fence(SYMM_EMULATED_ACQUIRE);
}

EMU_UNCHECKED void emu__cluster_thread_left(struct block *b, struct cuda_thread *t)
{
    struct emu_cluster *c = b->cluster;
    emu__cluster_lock(c);
    c->nthreads--;
    if (t->arrived && c->phase == t->phase)
        c->arrived--;
    open_if_all_arrived(c);
    emu__cluster_unlock(c);
}
