/* Which device a rank uses, and what symm must know of it. */
#ifndef SYMM_DEVICE_H
#define SYMM_DEVICE_H

#include "runtime/comm/join.h"
#include "driver.h"

/*
 * Chooses the device: by the configuration's text, else SYMM_DEVICE (ordinal, UUID or bus id), else
 * the one that is current in this thread, else the local rank's. Errors: ERROR_ARGUMENT (the text
 * names no device), ERROR_DRIVER (there is none, or a call failed)
 */
symm_status symm__device_choose(const struct symm_driver *drv, const char *configured,
                                const struct symm_join *join, CUdevice *out);

/* The device with this UUID, if this process sees it. Errors: ERROR_DRIVER */
symm_status symm__device_by_uuid(const struct symm_driver *drv, const CUuuid *uuid, bool *found,
                                 CUdevice *out);

#endif
