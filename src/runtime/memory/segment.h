/*
 * A segment: a piece of device memory of each of its ranks, all at the same offset of their
 * windows. This is one rank's side of it, driver calls only; memory_segment.c agrees on it with the
 * others.
 */
#ifndef SYMM_SEGMENT_H
#define SYMM_SEGMENT_H

#include <symm/types.h>
#include "runtime/base/rank_set.h"
#include "runtime/driver/driver.h"
#include "window.h"

struct symm_segment {
    struct symm_segment *next;
    uint64_t off, nbytes;
    struct symm_rank_set members;
    CUmemGenericAllocationHandle own; /* 0: none. Kept, because multicast objects bind it later */
    struct symm_rank_set mapped;      /* in whose windows something is mapped */
    int refs;     /* the list's, and one for every multicast object that binds it */
    bool hidden;  /* being made or being released: not for others */
    bool trimmed; /* the arbiter waits to hear that it has been released */
};

/* The properties of the memory of segments; granularities must be asked for with exactly these. */
symm_status symm__segment_properties(const struct symm_driver *drv, CUdevice device,
                                     CUmemAllocationProp *out);

/* Creates this rank's memory and maps it in its own window. */
symm_status symm__segment_create(const struct symm_driver *drv, CUdevice device,
                                 const struct symm_windows *w, int rank, struct symm_segment *s);
/* A close-on-exec descriptor for the other ranks; the caller closes it. */
symm_status symm__segment_export(const struct symm_driver *drv, const struct symm_segment *s,
                                 int *fd);
/* Maps another rank's memory in that rank's window. fd stays the caller's. */
symm_status symm__segment_import(const struct symm_driver *drv, CUdevice device,
                                 const struct symm_windows *w, int rank, int fd,
                                 struct symm_segment *s);
/* Unmaps what is mapped, the peers' first, and releases. Keeps going; returns the first failure. */
symm_status symm__segment_release(const struct symm_driver *drv, const struct symm_windows *w,
                                  int rank, struct symm_segment *s);

#endif
