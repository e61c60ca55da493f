#include "nodes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "emulator/state/machine.h"
#include "emulator/state/thread.h"

struct emu_nodes *emu__nodes_create(void)
{
    struct emu_nodes *nodes = calloc(1, sizeof *nodes);
    if (nodes)
        nodes->references = 1;
    return nodes;
}

static bool nodes_grow(struct emu_nodes *nodes)
{
    if (nodes->count < nodes->capacity)
        return true;
    size_t capacity = nodes->capacity ? nodes->capacity * 2 : 16;
    struct emu_node *grown = realloc(nodes->nodes, capacity * sizeof *grown);
    if (!grown)
        return false;
    nodes->nodes = grown;
    nodes->capacity = capacity;
    return true;
}

bool emu__nodes_add(struct emu_nodes *nodes, struct emu_work *work, unsigned branch,
                    const uint64_t *seen, unsigned nseen)
{
    uint64_t *copy = malloc(nseen * sizeof *copy);
    if (!copy || !nodes_grow(nodes)) {
        free(copy);
        return false;
    }
    memcpy(copy, seen, nseen * sizeof *copy);
    emu__work_retain(work);
    nodes->nodes[nodes->count++] = (struct emu_node){work, branch, copy, nseen};
    if (branch >= nodes->nbranches)
        nodes->nbranches = branch + 1;
    return true;
}

struct emu_nodes *emu__nodes_retain(struct emu_nodes *nodes)
{
    atomic_fetch_add(&nodes->references, 1);
    return nodes;
}

void emu__nodes_release(struct emu_nodes *nodes)
{
    if (atomic_fetch_sub(&nodes->references, 1) > 1)
        return;
    for (size_t i = 0; i < nodes->count; i++) {
        emu__work_release(nodes->nodes[i].work);
        free(nodes->nodes[i].seen);
    }
    free(nodes->nodes);
    free(nodes);
}

/* ---- Runs ---- */

_Thread_local bool emu__stream_priorities;

/*
 * One run. Each branch has a thread, as a GPU may run them concurrently, and pauses drawn from the
 * seed, so that a missing edge is noticed.
 */
struct run {
    const struct emu_nodes *nodes;
    struct CUstream_st *stream;
    bool stream_priorities;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t *done; /* of each branch, counted as in emu_node.seen */
    unsigned running;
    uint64_t seed;
};

struct branch {
    struct run *run;
    unsigned number;
};

/* Sleeps up to 0.2 ms before one work in four. */
static void pause_before(const struct run *run, size_t i)
{
    uint64_t draw = emu__random(run->seed, i);
    if (draw % 4 == 0)
        usleep((useconds_t)(draw >> 8) % 200);
}

static bool may_start(const struct run *run, const struct emu_node *node)
{
    for (unsigned i = 0; i < node->nseen; i++)
        if (i != node->branch && run->done[i] < node->seen[i])
            return false;
    return true;
}

static void branch_run(struct run *run, unsigned number)
{
    const struct emu_nodes *nodes = run->nodes;
    struct emu_execution *execution = run->stream->execution;
    const bool before = emu__stream_priorities;
    emu__stream_priorities = run->stream_priorities;
    for (size_t i = 0; i < nodes->count; i++) {
        const struct emu_node *node = &nodes->nodes[i];
        if (node->branch != number)
            continue;
        pthread_mutex_lock(&run->lock);
        while (!may_start(run, node))
            pthread_cond_wait(&run->changed, &run->lock);
        pthread_mutex_unlock(&run->lock);
        if (nodes->nbranches > 1)
            pause_before(run, i);
        if (emu__sticky(execution) == CUDA_SUCCESS)
            node->work->run(node->work, run->stream);
        pthread_mutex_lock(&run->lock);
        run->done[number]++;
        pthread_cond_broadcast(&run->changed);
        pthread_mutex_unlock(&run->lock);
    }
    emu__stream_priorities = before;
}

static void *branch_thread(void *arg)
{
    struct branch *branch = arg;
    struct run *run = branch->run;
    emu__running = run->stream->execution->device;
    branch_run(run, branch->number);
    free(branch);
    emu__block_thread_end();
    pthread_mutex_lock(&run->lock);
    run->running--;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

static bool branch_start(struct run *run, unsigned number)
{
    struct branch *branch = malloc(sizeof *branch);
    if (!branch)
        return false;
    *branch = (struct branch){run, number};
    if (emu__thread_start(branch_thread, branch))
        return true;
    free(branch);
    return false;
}

static uint64_t next_seed(void)
{
    static _Atomic uint64_t launches;
    return emu__random(emu__machine.seed, atomic_fetch_add(&launches, 1));
}

void emu__nodes_run(const struct emu_nodes *nodes, bool node_priorities, struct CUstream_st *stream)
{
    struct run run = {.nodes = nodes,
                      .stream = stream,
                      .stream_priorities = !node_priorities,
                      .seed = next_seed()};
    unsigned started = 1;
    run.done = malloc(nodes->nbranches * sizeof *run.done);
    if (!run.done) {
        emu__device_fail(stream->execution->device, CUDA_ERROR_OUT_OF_MEMORY);
        return;
    }
    for (unsigned i = 0; i < nodes->nbranches; i++)
        run.done[i] = 1;
    pthread_mutex_init(&run.lock, NULL);
    pthread_cond_init(&run.changed, NULL);
    pthread_mutex_lock(
        &run.lock); /* no branch waits before the branches that did not start are marked as done */
    while (started < nodes->nbranches && branch_start(&run, started))
        started++;
    run.running = started - 1;
    if (started < nodes->nbranches)
        emu__device_fail(stream->execution->device, CUDA_ERROR_OUT_OF_MEMORY);
    for (unsigned i = started; i < nodes->nbranches; i++)
        run.done[i] = UINT64_MAX;
    pthread_mutex_unlock(&run.lock);
    branch_run(&run, 0);
    pthread_mutex_lock(&run.lock);
    while (run.running > 0)
        pthread_cond_wait(&run.changed, &run.lock);
    pthread_mutex_unlock(&run.lock);
    pthread_cond_destroy(&run.changed);
    pthread_mutex_destroy(&run.lock);
    free(run.done);
}
