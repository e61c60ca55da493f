/* Graphs: thin wrappers of the open driver. */
#include <symm/stream.h>

#include "runtime/group/capture.h"
#include "runtime/group/known_stream.h"
#include "scope.h"

/* ERROR_STATE unless the stream is being captured (by any program) exactly if `wanted`. */
static symm_status expect_capture(const struct symm_scope *s, CUstream stream, bool wanted)
{
    int status = CU_STREAM_CAPTURE_STATUS_NONE;
    symm_status st = SYMM_OK;

    TRY_CU(s->drv, cuStreamIsCapturing, stream, &status);
    if ((status != CU_STREAM_CAPTURE_STATUS_NONE) != wanted)
        st = symm__fail(SYMM_ERROR_STATE, "the stream %p is %s", (void *)stream,
                        wanted ? "not being captured" : "being captured already");
out:
    return st;
}

symm_status symm_graph_begin(symm_stream stream)
{
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    TRY(symm__scope_begin(&s, stream));
    TRY(expect_capture(&s, stream, false));
    TRY(symm__known_stream_before_capture(s.drv, stream));
    /*
     * Thread-local mode: calls of other threads, such as the context's I/O thread, do not
     * invalidate the capture.
     */
    TRY_CU(s.drv, cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    symm__capture_began(stream);
out:
    return symm__scope_end(&s, st, __func__);
}

/* In a thread that may not end the capture it goes on, and stays in the list. */
static symm_status end_capture(const struct symm_scope *s, CUstream stream, CUgraph *graph)
{
    CUresult cu = CUDA_SUCCESS;
    symm_status st;

    TRY(expect_capture(s, stream, true));
    cu = s->drv->cuStreamEndCapture(stream, graph);
    if (cu != CUDA_SUCCESS)
        st = symm__driver_fail(s->drv, cu, "cuStreamEndCapture");
out:
    if (cu != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
        symm__capture_ended(stream); /* also if it has ended by other code */
    return st;
}

/*
 * Instantiation could invalidate another capture of this thread, so the capture mode is relaxed
 * meanwhile.
 */
static symm_status instantiate_relaxed(const struct symm_driver *drv, CUgraph graph,
                                       CUgraphExec *out)
{
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    symm_status st = SYMM_OK;

    TRY_CU(drv, cuThreadExchangeStreamCaptureMode, &mode);
    CUresult cu =
        drv->cuGraphInstantiateWithFlags(out, graph, CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
    drv->cuThreadExchangeStreamCaptureMode(&mode);
    if (cu != CUDA_SUCCESS)
        st = symm__driver_fail(drv, cu, "cuGraphInstantiateWithFlags");
out:
    return st;
}

symm_status symm_graph_end(symm_stream stream, symm_graph *out)
{
    CUgraphExec exec = NULL;
    CUgraph graph = NULL;
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    TRY(symm__need(out, "out"));
    TRY(symm__scope_begin(&s, stream));
    TRY(end_capture(&s, stream, &graph));
    TRY(instantiate_relaxed(s.drv, graph, &exec));
    *out = exec;
out:
    if (graph)
        s.drv->cuGraphDestroy(graph);
    return symm__scope_end(&s, st, __func__);
}

symm_status symm_graph_launch(symm_graph graph, symm_stream stream)
{
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    TRY(symm__need(graph, "graph"));
    TRY(symm__scope_begin(&s, stream));
    TRY_CU(s.drv, cuGraphLaunch, graph, stream);
out:
    return symm__scope_end(&s, st, __func__);
}

void symm_graph_destroy(symm_graph graph)
{
    const struct symm_driver *drv = symm__driver_current();

    if (graph && drv)
        drv->cuGraphExecDestroy(graph);
}
