/* Chooses the device of a rank. */
#ifndef SYMM_DEVICE_H
#define SYMM_DEVICE_H

#include "runtime/comm/join.h"
#include "driver.h"

/*
 * Chooses the device: by the configuration's text (ordinal, UUID or bus id), else by SYMM_DEVICE,
 * else the current device of this thread, else the one of the local rank. Errors: ERROR_ARGUMENT
 * (the text names no device), ERROR_DRIVER (no device, or a call failed)
 */
symm_status symm__device_choose(const struct symm_driver *drv, const char *configured,
                                const struct symm_join *join, CUdevice *out);

/* " (...)": how to get more devices, behind their number in a text; empty with real devices. */
const char *symm__device_more(const struct symm_driver *drv);

/* Finds the device with this UUID among those that this process sees. Errors: ERROR_DRIVER */
symm_status symm__device_by_uuid(const struct symm_driver *drv, const CUuuid *uuid, bool *found,
                                 CUdevice *out);

#endif
