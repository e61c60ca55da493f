/* The state of one context's memory on this rank, shared by the files of memory and multicast. */
#ifndef SYMM_MEMORY_STATE_H
#define SYMM_MEMORY_STATE_H

#include <pthread.h>
#include "block_table.h"
#include "memory.h"
#include "segment.h"
#include "window.h"

struct symm_reason; /* a text that callers hold and that must stay */

/* Foreign memory that the device can access, by the driver's answer. */
enum { SYMM_KNOWN_RANGES = 16 };
struct symm_known_range {
    CUdeviceptr start;
    size_t nbytes;
};

struct symm_memory {
    struct symm_memory_config config;
    struct symm_windows windows;
    /*
     * Guards everything below. Never held during a driver call or a vote: two threads may vote on
     * two groups, in another order than on another rank.
     */
    pthread_rwlock_t lock;
    struct symm_block_table blocks;
    struct symm_segment *segments;
    /* the last allocations that were asked about */
    struct symm_known_range known[SYMM_KNOWN_RANGES];
    unsigned next_known;
    uint64_t foreign_unit; /* foreign memory counts up to a multiple of this address; 0: exactly */
    struct symm_multicast *objects; /* newest first */
    struct symm_reason *reasons;
    uint64_t nobjects;  /* number created by this rank so far */
    symm_status failed; /* first failure of a clean-up call, for symm__memory_close() */
    char failed_text[256];
};

/* A slot of the table of blocks, for one insert that then cannot fail. */
symm_status symm__memory_reserve_slot(struct symm_memory *m);
void symm__memory_unreserve_slot(struct symm_memory *m);
void symm__memory_insert(struct symm_memory *m, const struct symm_block *block);

/* Logs a failed clean-up with this thread's failure text and keeps it for symm__memory_close(). */
void symm__memory_note(struct symm_memory *m, symm_status st, const char *action);

/*
 * Whether the device can access foreign memory [ptr, ptr + nbytes); checks the first and the last
 * byte. If not, records a text. Asks the driver and remembers the allocation.
 */
bool symm__memory_ask(struct symm_memory *m, const void *ptr, size_t nbytes);
/* Whether foreign memory lies inside a remembered allocation. Under the lock. */
bool symm__memory_is_known(const struct symm_memory *m, CUdeviceptr at, size_t nbytes);

/*
 * Creates a segment on all ranks of the comm, or on none. own: this rank's memory, which the
 * segment takes over, also on failure; 0: creates it. *kept: it failed because the comm ended
 * during the last vote, so the other ranks may have the segment. The memory then stays unused until
 * symm__memory_close().
 */
symm_status symm__memory_make_segment(struct symm_memory *m, struct symm_host_comm *comm,
                                      const char *what, uint64_t off, uint64_t nbytes,
                                      CUmemGenericAllocationHandle own, bool *kept);
/*
 * Releases an unused segment. Returns whether this succeeded; only then its offsets may be used
 * again.
 */
bool symm__memory_destroy_segment(struct symm_memory *m, struct symm_segment *s);
/*
 * Begins to release the segment at off, which has no blocks, and tells the arbiter when it is
 * released.
 */
void symm__memory_retire_segment(struct symm_memory *m, uint64_t off);
/* Drops a reference of a segment; the last one releases its memory. Not under the lock. */
void symm__memory_put_segment(struct symm_memory *m, struct symm_segment *s);

/* A rank's report in a multicast vote. All zero: nothing to do and no failure. */
struct symm_multicast_report {
    uint64_t object; /* id of the object */
    int32_t result;  /* 0, a CUresult, or -1 for other failures */
    char text[180];
};

/*
 * Binds a new segment to the multicast object of exactly its ranks, if there is one. begin: binds
 * on this rank, before the ranks vote on the segment; its report goes with that vote. end: reads
 * all reports, perhaps with further votes, and decides, the same on all ranks, whether the segment
 * has multicast. drop: instead of end, after a failed vote. If the driver call does not return,
 * begin aborts the comm and fails. end fails if the comm has ended.
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
/* Releases all objects. No other thread may use the memory. */
void symm__multicast_close(struct symm_memory *m);
/* Whether addr lies in a multicast window. Under the lock. */
bool symm__multicast_owns(const struct symm_memory *m, CUdeviceptr addr);

#endif
