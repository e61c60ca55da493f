/* Primary contexts, and each thread's stack of current contexts. */
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"
#include "emulator/state/machine.h"
#include "emulator/streams/stream.h"

static bool is_context(CUcontext ctx)
{
    for (int i = 0; i < emu__machine.ndevices; i++)
        if (ctx == &emu__device(i)->primary)
            return true;
    return false;
}

static void set_retained(struct emu_device *device, int retained)
{
    pthread_mutex_lock(&emu__lock);
    device->primary.retained = retained;
    pthread_mutex_unlock(&emu__lock);
}

CUresult emu_cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice dev)
{
    EMU_BEGIN("dev=%d", dev);
    EMU_NOT_NULL(ctx);
    struct emu_device *device = emu__device(dev);
    if (!device)
        return EMU_END(emu__no_device(dev));
    pthread_mutex_lock(&device->lifetime);
    set_retained(device, device->primary.retained + 1);
    pthread_mutex_unlock(&device->lifetime);
    emu__count(EMU_CONTEXTS, 1);
    *ctx = &device->primary;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDevicePrimaryCtxRelease(CUdevice dev)
{
    EMU_BEGIN("dev=%d", dev);
    struct emu_device *device = emu__device(dev);
    CUresult result = CUDA_SUCCESS;
    if (!device)
        return EMU_END(emu__no_device(dev));
    pthread_mutex_lock(&device->lifetime);
    if (device->primary.retained == 0) {
        result =
            emu__rule(CUDA_ERROR_INVALID_CONTEXT,
                      "the primary context of device %d is released more often than retained", dev);
    } else {
        if (device->primary.retained == 1) {
            emu__streams_close(device);
            atomic_store(&device->sticky, CUDA_SUCCESS);
        }
        set_retained(device, device->primary.retained - 1);
        emu__count(EMU_CONTEXTS, -1);
    }
    pthread_mutex_unlock(&device->lifetime);
    return EMU_END(result);
}

static CUresult check_context(CUcontext ctx)
{
    if (!is_context(ctx))
        return emu__rule(CUDA_ERROR_INVALID_CONTEXT, "%p is no context", (void *)ctx);
    if (!emu__context_live(ctx))
        return emu__rule(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context of device %d is destroyed",
                         ctx->device->ordinal);
    return CUDA_SUCCESS;
}

CUresult emu_cuCtxGetCurrent(CUcontext *ctx)
{
    EMU_BEGIN("void");
    EMU_NOT_NULL(ctx);
    *ctx = emu__context_current();
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuCtxSetCurrent(CUcontext ctx)
{
    EMU_BEGIN("ctx=%p", (void *)ctx);
    CUresult result = CUDA_SUCCESS;
    if (!ctx) {
        if (emu__contexts.depth)
            emu__contexts.depth--;
        return EMU_END(result);
    }
    result = check_context(ctx);
    if (result == CUDA_SUCCESS) {
        if (emu__contexts.depth == 0)
            emu__contexts.depth = 1;
        emu__contexts.at[emu__contexts.depth - 1] = ctx;
    }
    return EMU_END(result);
}

CUresult emu_cuCtxPushCurrent(CUcontext ctx)
{
    EMU_BEGIN("ctx=%p", (void *)ctx);
    CUresult result = check_context(ctx);
    if (result == CUDA_SUCCESS &&
        emu__contexts.depth == (int)(sizeof emu__contexts.at / sizeof *emu__contexts.at))
        result = emu__rule(CUDA_ERROR_OUT_OF_MEMORY, "%d contexts are pushed on this thread",
                           emu__contexts.depth);
    if (result == CUDA_SUCCESS)
        emu__contexts.at[emu__contexts.depth++] = ctx;
    return EMU_END(result);
}

CUresult emu_cuCtxPopCurrent(CUcontext *ctx)
{
    EMU_BEGIN("void");
    if (emu__contexts.depth == 0)
        return EMU_END(
            emu__rule(CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread"));
    CUcontext top = emu__contexts.at[--emu__contexts.depth];
    if (ctx)
        *ctx = top;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuCtxGetDevice(CUdevice *dev)
{
    EMU_BEGIN_CONTEXT("void");
    EMU_NOT_NULL(dev);
    *dev = emu__context_current()->device->ordinal;
    return EMU_END(CUDA_SUCCESS);
}
