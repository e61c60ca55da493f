/*
 * The devices, their primary contexts, and the device that is current on a thread. The driver's
 * functions for both are in ../device.c and ../context.c.
 */
#ifndef SYMM_EMULATOR_DEVICES_H
#define SYMM_EMULATOR_DEVICES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "abi/cuda_driver.h"

struct CUctx_st {
    struct emu_device *device;
    int retained; /* under emu__lock; 0: destroyed */
};

struct emu_device {
    int ordinal;
    struct CUctx_st primary;
    _Atomic(CUresult) sticky; /* every later call with this context returns it; cleared with it */
    uint64_t used_nbytes;     /* under emu__lock */
    /* Held while the primary context comes or goes, which may wait for the device's work. */
    pthread_mutex_t lifetime;
    struct emu_execution *execution; /* its streams; created and freed by the room streams */
};

/*
 * The one lock of the tables (devices, handles, mappings, allocations). Never held during a wait or
 * while kernel code runs. The locks of the rooms blocks and streams are taken before it, never
 * after it.
 */
extern pthread_mutex_t emu__lock;

void emu__devices_init(void);
/* NULL: there is no such device. */
struct emu_device *emu__device(int ordinal);
/* Makes the first error stick. */
void emu__device_fail(struct emu_device *device, CUresult error);

/* The device that this thread executes work for. NULL on the program's threads. */
extern _Thread_local struct emu_device *emu__running;

/* The contexts that the program made current on this thread. */
struct emu_context_stack {
    CUcontext at[64];
    int depth;
};

extern _Thread_local struct emu_context_stack emu__contexts;

/* The primary context of emu__running, else the top of the thread's stack, else NULL. */
CUcontext emu__context_current(void);
bool emu__context_live(CUcontext ctx);
/* The device of emu__context_current(), else NULL. */
struct emu_device *emu__device_current(void);

/* The rank in reports: the current device's ordinal, else SYMM_RANK, else -1. */
int emu__rank(void);
/* Formats it: "3", or `none` for -1. */
const char *emu__rank_text(int rank, const char *none, char text[16]);

#endif
