/*
 * A cluster: blocks that run at the same time, each on its own thread, and may access each other's
 * shared memory. A block of a grid without clusters is a cluster of its own.
 */
#ifndef SYMM_EMULATOR_CLUSTER_H
#define SYMM_EMULATOR_CLUSTER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct block;
struct cuda_thread;

#define EMU_CLUSTER_MAX 8u /* blocks, portable to every GPU with clusters */

struct emu_cluster {
    pthread_mutex_t lock; /* guards the rest, and the mbarriers of its blocks */
    pthread_cond_t changed;
    uint64_t events;         /* counts what a thread may wait for */
    unsigned nblocks, ended; /* blocks */
    unsigned asleep;         /* blocks that have seen all events; no thread is ready */
    struct block *blocks[EMU_CLUSTER_MAX]; /* NULL: not begun, or ended */
    /* The barrier of all threads. */
    unsigned nthreads, arrived; /* threads that have not ended; that have arrived */
    uint64_t phase;
};

/* A cluster without blocks. NULL: no memory. */
struct emu_cluster *emu__cluster_create(void);
/* Begins a new cluster in it, of nblocks blocks of nthreads threads. */
void emu__cluster_begin(struct emu_cluster *cluster, unsigned nblocks, unsigned nthreads);
/* Frees the cluster. No block of it runs. NULL is allowed. */
void emu__cluster_free(struct emu_cluster *cluster);
/* A block begins; `rank` is its number in the cluster. */
void emu__cluster_join(struct emu_cluster *cluster, struct block *b, unsigned rank);
/* A block ends: later accesses to it are faults. Returns whether it was the last one. */
bool emu__cluster_leave(struct emu_cluster *cluster, unsigned rank);

/* The lock, without which a cluster of one block does. ThreadSanitizer sees it in any case. */
void emu__cluster_lock(struct emu_cluster *cluster);
void emu__cluster_unlock(struct emu_cluster *cluster);

/* Something that a thread of the cluster may wait for has happened. With the lock. */
void emu__cluster_event(struct emu_cluster *cluster);
/*
 * No thread of the block is ready: sleeps until the next event that the block has not seen, for a
 * millisecond at most. False: there will be none, because no thread of the cluster is ready.
 */
bool emu__cluster_sleep(struct block *b);

/* barrier.cluster.arrive and .wait, by the running thread. */
void emu__cluster_arrive(void);
void emu__cluster_wait(void);
/* A thread ends. It counts as arrived. */
void emu__cluster_thread_left(struct block *b, struct cuda_thread *t);

#endif
