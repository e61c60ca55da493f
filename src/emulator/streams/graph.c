/*
 * Graphs: the works of each stream that took part in the capture, in their order, and for each of
 * them how much of the other streams comes before it. A launch is one work of its stream. It runs
 * the streams of the capture side by side, as a GPU may, with pauses drawn from the seed, so that
 * an edge that is missing is noticed. Launches of one executable graph are ordered among each
 * other, whatever their streams.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "emulator/streams/execution.h"
#include "emulator/blocks/grid.h"

/* ---- Lists of works ---- */

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

static struct emu_nodes *nodes_retain(struct emu_nodes *nodes)
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

/* ---- Graphs ---- */

struct CUgraph_st {
    struct emu_nodes *nodes;
};

struct CUgraphExec_st {
    struct emu_nodes *nodes;
    bool node_priorities;
    pthread_mutex_t lock;
    struct emu_mark *last; /* the end of the last launch; NULL: never launched */
};

CUgraph emu__graph_create(struct emu_nodes *nodes)
{
    struct CUgraph_st *graph = calloc(1, sizeof *graph);
    if (!graph || !emu__handle_add(EMU_HANDLE_GRAPH, graph)) {
        free(graph);
        emu__nodes_release(nodes);
        return NULL;
    }
    graph->nodes = nodes;
    emu__count(EMU_GRAPHS, 1);
    return graph;
}

CUresult emu_cuGraphDestroy(CUgraph graph)
{
    EMU_BEGIN("graph=%p", (void *)graph);
    if (!emu__handle_remove(EMU_HANDLE_GRAPH, graph))
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_HANDLE, "no such graph: %p", (void *)graph));
    emu__nodes_release(graph->nodes);
    free(graph);
    emu__count(EMU_GRAPHS, -1);
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    EMU_BEGIN_HEALTHY("graph=%p flags=%llu", (void *)graph, flags);
    EMU_NOT_NULL(exec);
    if (flags & ~(unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "flags must be 0 or USE_NODE_PRIORITY"));
    if (!emu__handle_valid(EMU_HANDLE_GRAPH, graph))
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_HANDLE, "no such graph: %p", (void *)graph));
    CUresult result = emu__capture_forbids();
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    struct CUgraphExec_st *created = calloc(1, sizeof *created);
    if (!created || !emu__handle_add(EMU_HANDLE_GRAPH_EXEC, created)) {
        free(created);
        return EMU_END(CUDA_ERROR_OUT_OF_MEMORY);
    }
    created->nodes = nodes_retain(graph->nodes);
    created->node_priorities = flags != 0;
    pthread_mutex_init(&created->lock, NULL);
    emu__count(EMU_GRAPH_EXECS, 1);
    *exec = created;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuGraphExecDestroy(CUgraphExec exec)
{
    EMU_BEGIN("exec=%p", (void *)exec);
    if (!emu__handle_remove(EMU_HANDLE_GRAPH_EXEC, exec))
        return EMU_END(
            emu__rule(CUDA_ERROR_INVALID_HANDLE, "no such executable graph: %p", (void *)exec));
    emu__nodes_release(exec->nodes);
    emu__mark_release(exec->last);
    pthread_mutex_destroy(&exec->lock);
    free(exec);
    emu__count(EMU_GRAPH_EXECS, -1);
    return EMU_END(CUDA_SUCCESS);
}

/* ---- One launch ---- */

struct graph_work {
    struct emu_work work;
    struct emu_nodes *nodes;
    bool node_priorities;
    struct emu_mark *before; /* the launch before this one; NULL: none */
    struct emu_mark *end;    /* NULL: a launch that was captured, which has no order of its own */
};

_Thread_local bool emu__stream_priorities;

/* The branches of one launch while they run, each on a thread of its own. */
struct graph_run {
    const struct emu_nodes *nodes;
    struct CUstream_st *stream;
    bool stream_priorities;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t *done; /* of each branch, counted as a node's `seen` is */
    unsigned running;
    uint64_t seed;
};

struct branch {
    struct graph_run *run;
    unsigned number;
};

/* Up to a fifth of a millisecond, before one work in four. */
static void pause_before(const struct graph_run *run, size_t i)
{
    uint64_t draw = emu__random(run->seed, i);
    if (draw % 4 == 0)
        usleep((useconds_t)(draw >> 8) % 200);
}

static bool may_start(const struct graph_run *run, const struct emu_node *node)
{
    for (unsigned i = 0; i < node->nseen; i++)
        if (i != node->branch && run->done[i] < node->seen[i])
            return false;
    return true;
}

static void branch_run(struct graph_run *run, unsigned number)
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
    struct graph_run *run = branch->run;
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

static bool branch_start(struct graph_run *run, unsigned number)
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

static void nodes_run(const struct emu_nodes *nodes, bool node_priorities,
                      struct CUstream_st *stream)
{
    struct graph_run run = {.nodes = nodes,
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
    pthread_mutex_lock(&run.lock); /* nobody waits for a branch that will never be there */
    while (started < nodes->nbranches && branch_start(&run, started))
        started++;
    run.running = started - 1;
    if (started < nodes->nbranches) /* nothing is run any more; nobody shall wait for it */
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

static void graph_run(struct emu_work *work, struct CUstream_st *stream)
{
    struct graph_work *w = (struct graph_work *)work;
    if (w->before)
        emu__mark_wait(w->before, stream->execution);
    if (w->nodes->count > 0)
        nodes_run(w->nodes, w->node_priorities, stream);
    if (w->end)
        emu__mark_reach(w->end);
}

static bool graph_uses(const struct emu_work *work, const struct CUmod_st *module)
{
    const struct emu_nodes *nodes = ((const struct graph_work *)work)->nodes;
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->nodes[i].work->uses && nodes->nodes[i].work->uses(nodes->nodes[i].work, module))
            return true;
    return false;
}

static void graph_destroy(struct emu_work *work)
{
    struct graph_work *w = (struct graph_work *)work;
    emu__nodes_release(w->nodes);
    emu__mark_release(w->before);
    emu__mark_release(w->end);
    free(w);
}

static struct graph_work *graph_work_create(CUgraphExec exec)
{
    struct graph_work *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->work = (struct emu_work){.references = 1,
                                .run = graph_run,
                                .destroy = graph_destroy,
                                .uses = graph_uses,
                                .always = true};
    w->nodes = nodes_retain(exec->nodes);
    w->node_priorities = exec->node_priorities;
    return w;
}

/* Enqueues a launch that waits for the one before it. With exec's lock, for their order. */
static CUresult launch_locked(CUgraphExec exec, struct CUstream_st *stream)
{
    struct graph_work *w = graph_work_create(exec);
    if (!w)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct emu_mark *end = w->end = emu__mark_create();
    if (!end) {
        graph_destroy(&w->work);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    w->before = exec->last ? emu__mark_retain(exec->last) : NULL;
    emu__mark_retain(end);
    CUresult result = emu__stream_enqueue(stream, &w->work);
    if (result == CUDA_SUCCESS) {
        emu__mark_release(exec->last);
        exec->last = end;
    } else {
        emu__mark_release(end);
    }
    return result;
}

CUresult emu_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    EMU_BEGIN_HEALTHY("exec=%p stream=%p", (void *)exec, (void *)stream);
    if (!emu__handle_valid(EMU_HANDLE_GRAPH_EXEC, exec))
        return EMU_END(
            emu__rule(CUDA_ERROR_INVALID_HANDLE, "no such executable graph: %p", (void *)exec));
    struct CUstream_st *s;
    CUresult result = emu__stream_get(stream, true, &s);
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    if (emu__capturing(s)) {
        struct graph_work *w = graph_work_create(exec);
        return EMU_END(w ? emu__capture_add(s, &w->work) : CUDA_ERROR_OUT_OF_MEMORY);
    }
    pthread_mutex_lock(&exec->lock);
    result = launch_locked(exec, s);
    pthread_mutex_unlock(&exec->lock);
    return EMU_END(result);
}
