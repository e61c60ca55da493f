/* What the files of memory and of multicast share: the memory of one context on this rank. */
#ifndef SYMM_MEMORY_STATE_H
#define SYMM_MEMORY_STATE_H

#include <pthread.h>
#include "block_table.h"
#include "memory.h"
#include "segment.h"
#include "window.h"

struct symm_reason; /* a text that was given out and must stay */

/* Memory that is not symm's and that the device can access, as the driver said when asked. */
enum { SYMM_KNOWN_RANGES = 16 };
struct symm_known_range {
    CUdeviceptr start;
    size_t nbytes;
};

struct symm_memory {
    struct symm_memory_config config;
    struct symm_windows windows;
    /*
     * Guards everything below. Never held in a driver call or a collective vote: two groups may be
     * in different calls on two threads, in another order on another rank.
     */
    pthread_rwlock_t lock;
    struct symm_block_table blocks;
    struct symm_segment *segments;
    struct symm_known_range known[SYMM_KNOWN_RANGES]; /* the last ones that were asked about */
    unsigned next_known;
    struct symm_multicast *objects; /* newest first */
    struct symm_reason *reasons;
    uint64_t nobjects;  /* ever made by this rank */
    symm_status failed; /* the first clean-up call that failed, for symm__memory_close */
    char failed_text[256];
};

/*
 * A clean-up has failed, with this thread's failure text: logs it and keeps it for
 * symm__memory_close.
 */
void symm__memory_note(struct symm_memory *m, symm_status st, const char *doing);

/*
 * Whether the device can access [ptr, ptr + nbytes), which is not symm's: its first and its last
 * byte. Otherwise false, with a text. Asks the driver, and remembers the allocation.
 */
bool symm__memory_ask(struct symm_memory *m, const void *ptr, size_t nbytes);
/* Whether such memory is inside one of the remembered allocations. Under the lock. */
bool symm__memory_is_known(const struct symm_memory *m, CUdeviceptr at, size_t nbytes);

/*
 * Makes a segment on all ranks of the comm, or on none. *kept: it failed, but whether the others
 * have it is not known, since the comm ended while they were agreeing; then the memory stays,
 * unused, until symm__memory_close.
 */
symm_status symm__memory_make_segment(struct symm_memory *m, struct symm_host_comm *comm,
                                      const char *what, uint64_t off, uint64_t nbytes, bool *kept);
/* Releases a segment that nobody uses. Its place is free for others only if that succeeded. */
bool symm__memory_destroy_segment(struct symm_memory *m, struct symm_segment *s);
/* Drops one reference of a segment; the last one releases its memory. Not under the lock. */
void symm__memory_put_segment(struct symm_memory *m, struct symm_segment *s);

/* What a rank says about its part of a multicast vote. Zero: nothing to do and no failure. */
struct symm_multicast_report {
    uint64_t object; /* which one */
    int32_t result;  /* 0, a CUresult, or -1: another failure */
    char text[180];
};

/*
 * Binding a new segment to the multicast object of exactly its ranks, if there is one. begin: this
 * rank's bind, before the ranks agree on the segment; its report goes with that vote. end: after
 * all reports have come, perhaps with further votes; decides, alike on all ranks, whether the
 * segment is covered. drop: instead of end, when the vote failed. begin fails, with the comm
 * aborted, when the driver does not come back; end fails with the comm.
 */
struct symm_multicast_bind {
    struct symm_multicast *mc;
    struct symm_segment *segment;
    struct symm_multicast_report mine;
};

symm_status symm__multicast_bind_begin(struct symm_memory *m, struct symm_host_comm *comm,
                                       struct symm_segment *s, struct symm_multicast_bind *bind);
symm_status symm__multicast_bind_end(struct symm_memory *m, struct symm_host_comm *comm,
                                     const char *what, struct symm_multicast_bind *bind,
                                     struct symm_multicast_report *all);
void symm__multicast_bind_drop(struct symm_memory *m, struct symm_multicast_bind *bind);

/* Unbinds a hidden segment from every object. */
void symm__multicast_unbind_segment(struct symm_memory *m, struct symm_segment *s);
/* Releases what is left. No other thread uses the memory any more. */
void symm__multicast_close(struct symm_memory *m);
/* Whose multicast window addr lies in. Under the lock. */
bool symm__multicast_owns(const struct symm_memory *m, CUdeviceptr addr);

#endif
