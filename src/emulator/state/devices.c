#include "devices.h"

#include <stdio.h>
#include <stdlib.h>
#include "machine.h"

pthread_mutex_t emu__lock = PTHREAD_MUTEX_INITIALIZER;
_Thread_local struct emu_device *emu__running;
_Thread_local struct emu_context_stack emu__contexts;

static struct emu_device devices[EMU_MAX_DEVICES];

void emu__devices_init(void)
{
    for (int i = 0; i < EMU_MAX_DEVICES; i++) {
        devices[i].ordinal = i;
        devices[i].primary.device = &devices[i];
        pthread_mutex_init(&devices[i].lifetime, NULL);
    }
}

struct emu_device *emu__device(int ordinal)
{
    return ordinal >= 0 && ordinal < emu__machine.ndevices ? &devices[ordinal] : NULL;
}

void emu__device_fail(struct emu_device *device, CUresult error)
{
    CUresult healthy = CUDA_SUCCESS;
    atomic_compare_exchange_strong(&device->sticky, &healthy, error);
}

CUcontext emu__context_current(void)
{
    if (emu__running)
        return &emu__running->primary;
    return emu__contexts.depth ? emu__contexts.at[emu__contexts.depth - 1] : NULL;
}

bool emu__context_live(CUcontext ctx)
{
    pthread_mutex_lock(&emu__lock);
    bool live = ctx->retained > 0;
    pthread_mutex_unlock(&emu__lock);
    return live;
}

struct emu_device *emu__device_current(void)
{
    CUcontext ctx = emu__context_current();
    return ctx ? ctx->device : NULL;
}

int emu__rank(void)
{
    struct emu_device *device = emu__device_current();
    if (device)
        return device->ordinal;
    const char *text = getenv("SYMM_RANK");
    char *end = NULL;
    long rank = text ? strtol(text, &end, 10) : -1;
    return text && end != text && !*end && rank >= 0 && rank < EMU_MAX_DEVICES ? (int)rank : -1;
}

const char *emu__rank_text(int rank, const char *none, char text[16])
{
    if (rank < 0)
        return none;
    snprintf(text, 16, "%d", rank);
    return text;
}
