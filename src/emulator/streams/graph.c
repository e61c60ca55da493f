/*
 * Graphs and executable graphs. A launch is one work of its stream, which runs the graph's nodes.
 * The launches of one executable graph run in their order, in whichever streams they are.
 */
#include "graph.h"

#include <stdlib.h>
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/handle.h"
#include "capture.h"
#include "mark.h"
#include "queue.h"

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
    EMU_TRY(emu__handle_remove(EMU_HANDLE_GRAPH, graph));
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
    EMU_TRY(emu__handle_check(EMU_HANDLE_GRAPH, graph));
    EMU_TRY(emu__capture_forbids());
    struct CUgraphExec_st *created = calloc(1, sizeof *created);
    if (!created || !emu__handle_add(EMU_HANDLE_GRAPH_EXEC, created)) {
        free(created);
        return EMU_END(CUDA_ERROR_OUT_OF_MEMORY);
    }
    created->nodes = emu__nodes_retain(graph->nodes);
    created->node_priorities = flags != 0;
    pthread_mutex_init(&created->lock, NULL);
    emu__count(EMU_GRAPH_EXECS, 1);
    *exec = created;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuGraphExecDestroy(CUgraphExec exec)
{
    EMU_BEGIN("exec=%p", (void *)exec);
    EMU_TRY(emu__handle_remove(EMU_HANDLE_GRAPH_EXEC, exec));
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
    struct emu_mark *end;    /* NULL: a captured launch, ordered by its own graph */
};

static void graph_run(struct emu_work *work, struct CUstream_st *stream)
{
    struct graph_work *w = (struct graph_work *)work;
    if (w->before)
        emu__mark_wait(w->before, stream->execution);
    if (w->nodes->count > 0)
        emu__nodes_run(w->nodes, w->node_priorities, stream);
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
    w->nodes = emu__nodes_retain(exec->nodes);
    w->node_priorities = exec->node_priorities;
    return w;
}

/* Enqueues a launch that waits for the last one. With exec's lock, which orders them. */
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
    EMU_TRY(emu__handle_check(EMU_HANDLE_GRAPH_EXEC, exec));
    struct CUstream_st *s;
    EMU_TRY(emu__stream_get(stream, true, &s));
    if (emu__capturing(s)) {
        struct graph_work *w = graph_work_create(exec);
        return EMU_END(w ? emu__capture_add(s, &w->work) : CUDA_ERROR_OUT_OF_MEMORY);
    }
    pthread_mutex_lock(&exec->lock);
    CUresult result = launch_locked(exec, s);
    pthread_mutex_unlock(&exec->lock);
    return EMU_END(result);
}
