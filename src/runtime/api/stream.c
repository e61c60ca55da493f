/* Streams, events, plain device memory and graphs: thin wrappers of the open driver. */
#include <symm/stream.h>

#include <stdlib.h>
#include "runtime/group/call.h"
#include "runtime/group/capture.h"
#include "runtime/group/context.h"

/* A call that has a stream or an event, but no context. */
struct scope {
    const struct symm_driver *drv;
    bool pushed;
};

/*
 * Finds the driver and makes the stream's context current. For the legacy stream, keeps the current
 * context.
 */
static symm_status begin(struct scope *s, CUstream stream)
{
    CUcontext ctx;
    symm_status st = SYMM_OK;

    s->drv = symm__driver_current();
    if (!s->drv)
        return symm__fail(SYMM_ERROR_STATE, "this process has no context of symm (or was forked)");
    if (stream) {
        TRY_CU(s->drv, cuStreamGetCtx, stream, &ctx);
        TRY_CU(s->drv, cuCtxPushCurrent, ctx);
        s->pushed = true;
    }
out:
    return st;
}

/* Undoes begin(). On failure puts the call's name in front of the text. */
static symm_status end(struct scope *s, symm_status st, const char *call)
{
    CUcontext popped;

    if (s->pushed)
        s->drv->cuCtxPopCurrent(&popped);
    return st == SYMM_OK ? SYMM_OK : symm__fail_in(st, "%s: ", call);
}

static symm_status begin_in(struct scope *s, struct symm_context *ctx)
{
    symm_status st = SYMM_OK;

    if (!ctx)
        return symm__fail(SYMM_ERROR_ARGUMENT, "the context is NULL");
    if (symm__forked(ctx))
        return symm__fail(SYMM_ERROR_STATE, "this is a forked child");
    s->drv = ctx->drv;
    TRY_CU(s->drv, cuCtxPushCurrent, ctx->primary);
    s->pushed = true;
out:
    return st;
}

static symm_status need(const void *argument, const char *name)
{
    return argument ? SYMM_OK : symm__fail(SYMM_ERROR_ARGUMENT, "%s is NULL", name);
}

/* ------------------------------------------------------------------------ streams and events */

symm_status symm_stream_create(symm_context *ctx, symm_stream *out)
{
    CUstream stream;
    struct scope s = {.drv = NULL};
    symm_status st;

    TRY(need(out, "out"));
    TRY(begin_in(&s, ctx));
    TRY_CU(s.drv, cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    *out = stream;
out:
    return end(&s, st, __func__);
}

void symm_stream_destroy(symm_stream stream)
{
    const struct symm_driver *drv = symm__driver_current();

    if (!stream || !drv)
        return;
    symm__capture_ended(stream);
    drv->cuStreamDestroy(stream);
}

symm_status symm_event_create(symm_context *ctx, symm_event *out)
{
    CUevent event;
    struct scope s = {.drv = NULL};
    symm_status st;

    TRY(need(out, "out"));
    TRY(begin_in(&s, ctx));
    TRY_CU(s.drv, cuEventCreate, &event, CU_EVENT_DEFAULT);
    *out = event;
out:
    return end(&s, st, __func__);
}

void symm_event_destroy(symm_event event)
{
    const struct symm_driver *drv = symm__driver_current();

    if (event && drv)
        drv->cuEventDestroy(event);
}

symm_status symm_event_record(symm_event event, symm_stream stream)
{
    struct scope s = {.drv = NULL};
    symm_status st;

    TRY(need(event, "event"));
    TRY(begin(&s, stream));
    TRY_CU(s.drv, cuEventRecord, event, stream);
out:
    return end(&s, st, __func__);
}

symm_status symm_event_elapsed_us(symm_event from, symm_event to, float *out)
{
    struct scope s = {.drv = NULL};
    float ms;
    symm_status st;

    TRY(need(from, "from"));
    TRY(need(to, "to"));
    TRY(need(out, "out"));
    TRY(begin(&s, NULL));
    CUresult cu = s.drv->cuEventElapsedTime(&ms, from, to);
    /* The event has not happened yet, or was never recorded. */
    if (cu == CUDA_ERROR_NOT_READY || cu == CUDA_ERROR_INVALID_HANDLE)
        st = symm__fail(SYMM_ERROR_STATE, "not both events have happened");
    else if (cu != CUDA_SUCCESS)
        st = symm__driver_fail(s.drv, cu, "cuEventElapsedTime");
    else
        *out = ms * 1000;
out:
    return end(&s, st, __func__);
}

/* ----------------------------------------------------------------------------- plain memory */

symm_status symm_device_alloc(symm_context *ctx, size_t nbytes, void **out)
{
    struct symm_device_block *block = NULL;
    struct scope s = {.drv = NULL};
    symm_status st;

    TRY(need(out, "out"));
    if (nbytes == 0) {
        st = symm__fail(SYMM_ERROR_ARGUMENT, "nbytes is 0");
        goto out;
    }
    TRY(begin_in(&s, ctx));
    block = calloc(1, sizeof *block);
    if (!block) {
        st = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
        goto out;
    }
    TRY_CU(s.drv, cuMemAlloc, &block->ptr, nbytes);
    *out = (void *)(uintptr_t)block->ptr;
    pthread_mutex_lock(&ctx->owned_lock);
    block->next = ctx->device_blocks;
    ctx->device_blocks = block;
    pthread_mutex_unlock(&ctx->owned_lock);
    block = NULL;
out:
    free(block);
    return end(&s, st, __func__);
}

void symm_device_free(symm_context *ctx, void *ptr)
{
    struct symm_device_block *block = NULL;
    struct scope s = {.drv = NULL};

    if (!ctx || !ptr || begin_in(&s, ctx) != SYMM_OK)
        return;
    pthread_mutex_lock(&ctx->owned_lock);
    for (struct symm_device_block **at = &ctx->device_blocks; *at; at = &(*at)->next)
        if ((*at)->ptr == (CUdeviceptr)(uintptr_t)ptr) {
            block = *at;
            *at = block->next;
            break;
        }
    pthread_mutex_unlock(&ctx->owned_lock);
    if (block)
        s.drv->cuMemFree(block->ptr);
    free(block);
    end(&s, SYMM_OK, __func__);
}

symm_status symm_copy(void *dst, const void *src, size_t nbytes, symm_stream stream)
{
    struct scope s = {.drv = NULL};
    symm_status st;

    if (nbytes > 0) {
        TRY(need(dst, "dst"));
        TRY(need(src, "src"));
    }
    TRY(begin(&s, stream));
    if (nbytes > 0)
        TRY_CU(s.drv, cuMemcpyAsync, (CUdeviceptr)(uintptr_t)dst, (CUdeviceptr)(uintptr_t)src,
               nbytes, stream);
out:
    return end(&s, st, __func__);
}

symm_status symm_fill(void *dst, int byte, size_t nbytes, symm_stream stream)
{
    struct scope s = {.drv = NULL};
    symm_status st;

    if (nbytes > 0)
        TRY(need(dst, "dst"));
    TRY(begin(&s, stream));
    if (nbytes > 0)
        TRY_CU(s.drv, cuMemsetD8Async, (CUdeviceptr)(uintptr_t)dst, (unsigned char)byte, nbytes,
               stream);
out:
    return end(&s, st, __func__);
}

/* ----------------------------------------------------------------------------------- graphs */

/* ERROR_STATE unless the stream is being captured (by any program) exactly if `wanted`. */
static symm_status expect_capture(const struct scope *s, CUstream stream, bool wanted)
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
    struct scope s = {.drv = NULL};
    symm_status st;

    TRY(begin(&s, stream));
    TRY(expect_capture(&s, stream, false));
    /*
     * Thread-local mode: calls of other threads, such as the context's I/O thread, do not
     * invalidate the capture.
     */
    TRY_CU(s.drv, cuStreamBeginCapture, stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    symm__capture_began(stream);
out:
    return end(&s, st, __func__);
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
    struct scope s = {.drv = NULL};
    symm_status st;

    TRY(need(out, "out"));
    TRY(begin(&s, stream));
    symm__capture_ended(stream); /* the capture has ended, also on failure */
    TRY(expect_capture(&s, stream, true));
    TRY_CU(s.drv, cuStreamEndCapture, stream, &graph);
    TRY(instantiate_relaxed(s.drv, graph, &exec));
    *out = exec;
out:
    if (graph)
        s.drv->cuGraphDestroy(graph);
    return end(&s, st, __func__);
}

symm_status symm_graph_launch(symm_graph graph, symm_stream stream)
{
    struct scope s = {.drv = NULL};
    symm_status st;

    TRY(need(graph, "graph"));
    TRY(begin(&s, stream));
    TRY_CU(s.drv, cuGraphLaunch, graph, stream);
out:
    return end(&s, st, __func__);
}

void symm_graph_destroy(symm_graph graph)
{
    const struct symm_driver *drv = symm__driver_current();

    if (graph && drv)
        drv->cuGraphExecDestroy(graph);
}
