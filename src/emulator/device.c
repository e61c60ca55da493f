/*
 * Initialisation, the devices and what can be asked about them, primary contexts, and each thread's
 * stack of current contexts.
 */
#include "emulator/state/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STACK_DEPTH 64

pthread_mutex_t emu__lock = PTHREAD_MUTEX_INITIALIZER;
_Thread_local struct emu_device *emu__running;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_device devices[EMU_MAX_DEVICES];
/* Held while a primary context comes or goes, which may wait for the device's work. */
static pthread_mutex_t lifetimes[EMU_MAX_DEVICES];

static _Thread_local struct {
    CUcontext at[STACK_DEPTH];
    int depth;
} stack;

static const struct result_name {
    CUresult value;
    const char *name;
} result_names[] = {
#define RESULT_NAME_(name, value) {value, #name},
    CU_RESULTS(RESULT_NAME_)
#undef RESULT_NAME_
};

static void devices_init(void)
{
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        devices[i].ordinal = i;
        devices[i].primary.device = &devices[i];
        pthread_mutex_init(&lifetimes[i], NULL);
    }
}

/* The settings must be read before the frame of cuInit, which traces and injects faults by them. */
static CUresult initialise(void)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&init_lock);
    if (emu__state() == EMU_STATE_NEW) {
        if (emu__machine_read() && emu__faults_set(getenv("SYMM_EMULATED_FAULT"))) {
            devices_init();
            emu__state_ready();
        } else {
            result = CUDA_ERROR_INVALID_VALUE;
        }
    }
    pthread_mutex_unlock(&init_lock);
    return result;
}

CUresult emu_cuInit(unsigned int flags)
{
    CUresult result = initialise();
    if (result != CUDA_SUCCESS)
        return result;
    EMU_BEGIN_(EMU_NEED_NOTHING, "flags=%u", flags);
    if (flags != 0)
        result = emu__rule(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
    else if (emu__machine.ndevices == 0)
        result = CUDA_ERROR_NO_DEVICE;
    return EMU_END(result);
}

CUresult emu_cuDriverGetVersion(int *version)
{
    EMU_BEGIN_(EMU_NEED_NOTHING, "void");
    EMU_NOT_NULL(version);
    *version = EMU_DRIVER_VERSION;
    return EMU_END(CUDA_SUCCESS);
}

static const char *name_of(CUresult error)
{
    for (size_t i = 0; i < sizeof result_names / sizeof *result_names; i++)
        if (result_names[i].value == error)
            return result_names[i].name;
    return NULL;
}

/* Neither of the two has a frame: they are for telling of failures, also of the injected ones. */
CUresult emu_cuGetErrorName(CUresult error, const char **name)
{
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    *name = name_of(error);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult emu_cuGetErrorString(CUresult error, const char **text)
{
    if (!text)
        return CUDA_ERROR_INVALID_VALUE;
    *text = name_of(error);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct emu_device *emu__device(int ordinal)
{
    return ordinal >= 0 && ordinal < emu__machine.ndevices ? &devices[ordinal] : NULL;
}

CUcontext emu__context_current(void)
{
    if (emu__running)
        return &emu__running->primary;
    return stack.depth ? stack.at[stack.depth - 1] : NULL;
}

struct emu_device *emu__device_current(void)
{
    CUcontext ctx = emu__context_current();
    return ctx ? ctx->device : NULL;
}

void emu__device_fail(struct emu_device *device, CUresult error)
{
    CUresult healthy = CUDA_SUCCESS;
    atomic_compare_exchange_strong(&device->sticky, &healthy, error);
}

/* ---- Questions about devices ---- */

static CUresult no_device(CUdevice dev)
{
    return emu__rule(CUDA_ERROR_INVALID_DEVICE, "there is no device %d, only %d devices", dev,
                     emu__machine.ndevices);
}

CUresult emu_cuDeviceGetCount(int *count)
{
    EMU_BEGIN("void");
    EMU_NOT_NULL(count);
    *count = emu__machine.ndevices;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceGet(CUdevice *dev, int ordinal)
{
    EMU_BEGIN("ordinal=%d", ordinal);
    EMU_NOT_NULL(dev);
    /* Programs probe for ordinals, so a wrong one is an answer and no broken rule. */
    if (!emu__device(ordinal))
        return EMU_END(CUDA_ERROR_INVALID_DEVICE);
    *dev = ordinal;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceGetName(char *name, int len, CUdevice dev)
{
    EMU_BEGIN("len=%d, dev=%d", len, dev);
    EMU_NOT_NULL(name);
    if (!emu__device(dev))
        return EMU_END(no_device(dev));
    if (len <= 0)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "len is %d", len));
    snprintf(name, (size_t)len, "SYMM emulated device");
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    EMU_BEGIN("dev=%d", dev);
    EMU_NOT_NULL(uuid);
    if (!emu__device(dev))
        return EMU_END(no_device(dev));
    memset(uuid, 0, sizeof *uuid);
    memcpy(uuid->bytes, SYMM_EMULATED_MAGIC, sizeof SYMM_EMULATED_MAGIC);
    uuid->bytes[15] = (char)dev;
    return EMU_END(CUDA_SUCCESS);
}

static void bus_id(int ordinal, char text[16])
{
    snprintf(text, 16, "0000:EE:%02X.0", (unsigned)ordinal & 0xff);
}

CUresult emu_cuDeviceGetPCIBusId(char *id, int len, CUdevice dev)
{
    EMU_BEGIN("len=%d, dev=%d", len, dev);
    EMU_NOT_NULL(id);
    char text[16];
    if (!emu__device(dev))
        return EMU_END(no_device(dev));
    bus_id(dev, text);
    if (len <= (int)strlen(text))
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "len %d is too small", len));
    strcpy(id, text);
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceGetByPCIBusId(CUdevice *dev, const char *id)
{
    EMU_BEGIN("id=%s", id ? id : "");
    EMU_NOT_NULL(dev);
    EMU_NOT_NULL(id);
    for (int i = 0; i < emu__machine.ndevices; i++) {
        char text[16];
        bus_id(i, text);
        /* The domain may be left out. */
        if (strcasecmp(id, text) == 0 || strcasecmp(id, text + strlen("0000:")) == 0) {
            *dev = i;
            return EMU_END(CUDA_SUCCESS);
        }
    }
    return EMU_END(CUDA_ERROR_INVALID_DEVICE);
}

CUresult emu_cuDeviceGetAttribute(int *value, int attribute, CUdevice dev)
{
    EMU_BEGIN("attribute=%d, dev=%d", attribute, dev);
    EMU_NOT_NULL(value);
    if (!emu__device(dev))
        return EMU_END(no_device(dev));
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = emu__machine.max_block_threads;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = emu__machine.sms;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        break;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        *value = 1;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        *value = 0;
        break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
        *value = emu__machine.pageable;
        break;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        *value = SYMM_MULTICAST && emu__machine.multicast;
        break;
    default:
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "attribute %d is unknown", attribute));
    }
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceTotalMem(size_t *nbytes, CUdevice dev)
{
    EMU_BEGIN("dev=%d", dev);
    EMU_NOT_NULL(nbytes);
    if (!emu__device(dev))
        return EMU_END(no_device(dev));
    *nbytes = emu__machine.memory_nbytes;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer)
{
    EMU_BEGIN("dev=%d, peer=%d", dev, peer);
    EMU_NOT_NULL(can);
    if (!emu__device(dev) || !emu__device(peer))
        return EMU_END(no_device(emu__device(dev) ? peer : dev));
    *can = dev != peer;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice from, CUdevice to)
{
    EMU_BEGIN("attribute=%d, from=%d, to=%d", attribute, from, to);
    EMU_NOT_NULL(value);
    if (!emu__device(from) || !emu__device(to))
        return EMU_END(no_device(emu__device(from) ? to : from));
    if (from == to)
        return EMU_END(
            emu__rule(CUDA_ERROR_INVALID_DEVICE, "device %d is no peer of itself", from));
    if (attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
        attribute > CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "attribute %d is unknown", attribute));
    *value = 1;
    return EMU_END(CUDA_SUCCESS);
}

/* ---- Primary contexts ---- */

bool emu__context_live(CUcontext ctx)
{
    pthread_mutex_lock(&emu__lock);
    bool live = ctx->retained > 0;
    pthread_mutex_unlock(&emu__lock);
    return live;
}

static bool is_context(CUcontext ctx)
{
    for (int i = 0; i < emu__machine.ndevices; i++)
        if (ctx == &devices[i].primary)
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
        return EMU_END(no_device(dev));
    pthread_mutex_lock(&lifetimes[dev]);
    set_retained(device, device->primary.retained + 1);
    pthread_mutex_unlock(&lifetimes[dev]);
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
        return EMU_END(no_device(dev));
    pthread_mutex_lock(&lifetimes[dev]);
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
    pthread_mutex_unlock(&lifetimes[dev]);
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
        if (stack.depth)
            stack.depth--;
        return EMU_END(result);
    }
    result = check_context(ctx);
    if (result == CUDA_SUCCESS) {
        if (stack.depth == 0)
            stack.depth = 1;
        stack.at[stack.depth - 1] = ctx;
    }
    return EMU_END(result);
}

CUresult emu_cuCtxPushCurrent(CUcontext ctx)
{
    EMU_BEGIN("ctx=%p", (void *)ctx);
    CUresult result = check_context(ctx);
    if (result == CUDA_SUCCESS && stack.depth == STACK_DEPTH)
        result = emu__rule(CUDA_ERROR_OUT_OF_MEMORY, "%d contexts are pushed on this thread",
                           STACK_DEPTH);
    if (result == CUDA_SUCCESS)
        stack.at[stack.depth++] = ctx;
    return EMU_END(result);
}

CUresult emu_cuCtxPopCurrent(CUcontext *ctx)
{
    EMU_BEGIN("void");
    if (stack.depth == 0)
        return EMU_END(
            emu__rule(CUDA_ERROR_INVALID_CONTEXT, "no context is current on this thread"));
    CUcontext top = stack.at[--stack.depth];
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
