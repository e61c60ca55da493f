/*
 * The address windows: one reservation per rank, so that a place in symmetric memory is an offset
 * in each of them.
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
 * Address space only; alignment is the driver's recommended granularity. Fails with nothing
 * reserved.
 */
symm_status symm__windows_open(const struct symm_driver *drv, int nranks, uint64_t nbytes,
                               uint64_t alignment, struct symm_windows *out);
/* Everything in them must have been unmapped. Keeps going; returns the first failure. */
symm_status symm__windows_close(const struct symm_driver *drv, struct symm_windows *w);
/* In whose window addr lies, and where; -1: in none. */
int symm__windows_find(const struct symm_windows *w, CUdeviceptr addr, uint64_t *off);

#endif
