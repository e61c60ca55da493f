/*
 * The functions of the room streams that the room memory calls. init.c fills in the table.
 */
#ifndef SYMM_EMULATOR_HOOKS_H
#define SYMM_EMULATOR_HOOKS_H

#include "abi/cuda_driver.h"

struct emu_device;

struct emu_hooks {
    /* Waits until all work that was enqueued on the device so far is done. Without emu__lock. */
    void (*streams_drain)(struct emu_device *device);
    /*
     * Checks a call that is forbidden during a capture (cuMemAlloc, cuMemFree and the like), by
     * this thread's capture mode. Returns CUDA_SUCCESS, or CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
     * after it has reported the rule and invalidated the capture.
     */
    CUresult (*capture_forbids)(void);
};

extern const struct emu_hooks emu__hooks;

#endif
