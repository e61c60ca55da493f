/*
 * The arbiter's side of memory: one per job, in the hub. It knows every segment of the window
 * (offset, size, which ranks have it) and every block in them, hands out offsets, and reuses a
 * block once all ranks of it have freed it. Pure: no driver, no sockets.
 */
#ifndef SYMM_HEAP_H
#define SYMM_HEAP_H

#include "runtime/hub/arbiter.h"

/*
 * Whoever got an answer with a block reports it free exactly once: when the block is freed, when
 * the segment that was made for it could not be made and has been undone, and, for the segment that
 * TRIM names, once it has been released. A place in the window is used again when all ranks have
 * done so.
 */
enum symm_heap_op {
    /* args: window bytes, granularity, least segment */
    SYMM_HEAP_CONFIGURE = 1,
    /* args: nbytes, SYMM_HEAP_* flags; answer: block, segment, segment bytes, 1 if it is new */
    SYMM_HEAP_ALLOC,
    /* args: segment; the vote's status says whether all ranks have the new segment */
    SYMM_HEAP_COMMIT,
    /* answer: segment, 1 if there is one to release, else 0 */
    SYMM_HEAP_TRIM,
};

/*
 * The block may lie in a segment that more ranks have than the ones that ask (a group's own pads
 * and staging).
 */
enum { SYMM_HEAP_ANY_SEGMENT = 1 };

enum { SYMM_HEAP_ALIGNMENT = 1024 };

struct symm_heap;

symm_status symm__heap_create(struct symm_heap **out);
void symm__heap_destroy(struct symm_heap *heap);
struct symm_arbiter symm__heap_arbiter(struct symm_heap *heap);

#endif
