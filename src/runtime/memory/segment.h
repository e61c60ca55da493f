/*
 * A segment: device memory of each of its ranks, at the same offset of their windows. This is one
 * rank's side, with driver calls only. memory_segment.c votes with the other ranks.
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
    CUmemGenericAllocationHandle own; /* 0: none. Kept, since multicast objects bind it later */
    struct symm_rank_set mapped;      /* ranks in whose windows memory is mapped */
    int refs;        /* one of the list, one of each multicast object that binds it */
    bool registered; /* memory that symm did not create */
    bool hidden;     /* being created or released: not for other votes */
    bool trimmed;    /* the arbiter waits for the report of its release */
};

/* The properties of a segment's memory. Queries of granularity must use exactly these. */
symm_status symm__segment_properties(const struct symm_driver *drv, CUdevice device,
                                     CUmemAllocationProp *out);

/* Creates this rank's memory, unless it exists as `own`, and maps it in its own window. */
symm_status symm__segment_create(const struct symm_driver *drv, CUdevice device,
                                 const struct symm_windows *w, int rank, struct symm_segment *s);
/* A close-on-exec descriptor for the other ranks; the caller closes it. */
symm_status symm__segment_export(const struct symm_driver *drv, const struct symm_segment *s,
                                 int *fd);
/* Maps another rank's memory in that rank's window. fd stays the caller's. */
symm_status symm__segment_import(const struct symm_driver *drv, CUdevice device,
                                 const struct symm_windows *w, int rank, int fd,
                                 struct symm_segment *s);
/* Unmaps the memory, peers' first, and releases it. Continues after failures; returns the first. */
symm_status symm__segment_release(const struct symm_driver *drv, const struct symm_windows *w,
                                  int rank, struct symm_segment *s);

#endif
