/*
 * The address windows: one reservation per rank. An object of symmetric memory has the same offset
 * in each.
 */
#ifndef SYMM_WINDOW_H
#define SYMM_WINDOW_H

#include <symm/types.h>
#include "runtime/driver/driver.h"

struct symm_windows {
    int nranks;
    uint64_t nbytes;
    CUdeviceptr base[SYMM_MAX_RANKS]; /* 0: not reserved */
};

/*
 * Reserves address space only. alignment: the driver's recommended granularity. On failure nothing
 * is reserved.
 */
symm_status symm__windows_open(const struct symm_driver *drv, int nranks, uint64_t nbytes,
                               uint64_t alignment, struct symm_windows *out);
/* Everything in the windows must be unmapped. Continues after failures; returns the first. */
symm_status symm__windows_close(const struct symm_driver *drv, struct symm_windows *w);
/* The rank in whose window addr lies, with the offset; -1: none. */
int symm__windows_find(const struct symm_windows *w, CUdeviceptr addr, uint64_t *off);

#endif
