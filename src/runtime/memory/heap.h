/*
 * The heap: the arbiter of memory, one per domain, in its hub. It knows every segment of the window
 * (offset, size, ranks) and every block in them. It assigns offsets, and reuses a block once all
 * its ranks have freed it. Pure: no driver, no sockets.
 */
#ifndef SYMM_HEAP_H
#define SYMM_HEAP_H

#include "runtime/hub/arbiter.h"

/*
 * A rank that got a block in an answer reports it free exactly once: when it frees the block; when
 * the new segment for it failed and was undone; or, for the segment of a TRIM or a NEW_SEGMENT,
 * when it has released the segment. The offsets are used again once all ranks have reported.
 */
enum symm_heap_op {
    /* args: window bytes, granularity, least segment */
    SYMM_HEAP_CONFIGURE = 1,
    /* args: nbytes, SYMM_HEAP_* flags; answer: block, segment, segment bytes, 1 if it is new */
    SYMM_HEAP_ALLOC,
    /* args: segment; the vote's status is OK if all ranks have the new segment */
    SYMM_HEAP_COMMIT,
    /* answer: segment, 1 if there is one to release, else 0 */
    SYMM_HEAP_TRIM,
};

enum {
    /*
     * The block may lie in a segment of more ranks than the vote's (for a group's own pads and
     * staging).
     */
    SYMM_HEAP_ANY_SEGMENT = 1,
    /*
     * The block gets a new segment, which no other block uses and which ends with it: each rank
     * reports the block free when it has released the segment.
     */
    SYMM_HEAP_NEW_SEGMENT = 2,
};

enum { SYMM_HEAP_ALIGNMENT = 1024 };

struct symm_heap;

symm_status symm__heap_create(struct symm_heap **out);
void symm__heap_destroy(struct symm_heap *heap);
struct symm_arbiter symm__heap_arbiter(struct symm_heap *heap);

#endif
