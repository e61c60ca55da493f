/* The entries of stream capture. */
#include "emulator/state/call.h"
#include "capture.h"
#include "graph.h"
#include "queue.h"

CUresult emu_cuStreamBeginCapture(CUstream stream, int mode)
{
    EMU_BEGIN_HEALTHY("stream=%p mode=%d", (void *)stream, mode);
    struct CUstream_st *s;
    CUresult result =
        mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED
            ? emu__stream_get(stream, true, &s)
            : emu__rule(CUDA_ERROR_INVALID_VALUE, "mode %d is unknown", mode);
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    if (s == s->execution->legacy)
        return EMU_END(
            emu__rule(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy stream cannot capture"));
    return EMU_END(emu__capture_begin(s, mode));
}

CUresult emu_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    EMU_BEGIN("stream=%p", (void *)stream);
    EMU_NOT_NULL(graph);
    struct CUstream_st *s;
    EMU_TRY(emu__stream_get(stream, false, &s));
    struct emu_nodes *nodes;
    CUresult result = emu__capture_end(s, &nodes);
    *graph = nodes ? emu__graph_create(nodes) : NULL;
    if (nodes && !*graph)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    return EMU_END(result);
}

CUresult emu_cuStreamIsCapturing(CUstream stream, int *status)
{
    EMU_BEGIN("stream=%p", (void *)stream);
    EMU_NOT_NULL(status);
    struct CUstream_st *s;
    CUresult result = emu__stream_get(stream, false, &s);
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (s == s->execution->legacy)
        return EMU_END(emu__capture_implicit(s->execution, false));
    *status = emu__capture_status(s, NULL);
    return EMU_END(result);
}

CUresult emu_cuStreamGetCaptureInfo(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                    const void **nodes, const void **edges, size_t *nnodes)
{
    EMU_BEGIN("stream=%p", (void *)stream);
    EMU_NOT_NULL(status);
    if (graph || nodes || edges || nnodes)
        return EMU_END(emu__rule(CUDA_ERROR_NOT_SUPPORTED, "a capture shows its status and id"));
    struct CUstream_st *s;
    EMU_TRY(emu__stream_get(stream, false, &s));
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    if (s == s->execution->legacy)
        return EMU_END(emu__capture_implicit(s->execution, false));
    *status = emu__capture_status(s, id);
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuThreadExchangeStreamCaptureMode(int *mode)
{
    EMU_BEGIN("mode=%d", mode ? *mode : -1);
    EMU_NOT_NULL(mode);
    if (*mode < CU_STREAM_CAPTURE_MODE_GLOBAL || *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "mode %d is unknown", *mode));
    *mode = emu__capture_set_mode(*mode);
    return EMU_END(CUDA_SUCCESS);
}
