/* cuLaunchHostFunc: a function of the program, which the stream's thread calls in its turn. */
#include <stdlib.h>
#include "emulator/state/call.h"
#include "queue.h"

struct host_work {
    struct emu_work work;
    CUhostFn function;
    void *data;
};

static void host_run(struct emu_work *work, struct CUstream_st *stream)
{
    const struct host_work *w = (struct host_work *)work;
    (void)stream;
    emu__in_host_function = true;
    w->function(w->data);
    emu__in_host_function = false;
}

static void host_destroy(struct emu_work *work)
{
    free(work);
}

CUresult emu_cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data)
{
    EMU_BEGIN_HEALTHY("stream=%p function=%d data=%p", (void *)stream, function != NULL, data);
    EMU_NOT_NULL(function);
    struct CUstream_st *s;
    EMU_TRY(emu__stream_get(stream, true, &s));
    struct host_work *w = calloc(1, sizeof *w);
    if (!w)
        return EMU_END(CUDA_ERROR_OUT_OF_MEMORY);
    *w = (struct host_work){
        {.references = 1, .run = host_run, .destroy = host_destroy}, function, data};
    return EMU_END(emu__stream_enqueue(s, &w->work));
}
