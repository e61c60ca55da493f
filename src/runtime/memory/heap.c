/*
 * The arbiter of memory. A block stays known until every rank that got it has reported it free. The
 * same rule ends segments. A segment that failed, is being trimmed or is for one block is not
 * `usable`. When the last rank reports its block, all ranks have released the segment, and its
 * offsets can be used again.
 */
#include "heap.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/array.h"
#include "runtime/base/numbers.h"
#include "offset_allocator.h"

struct segment {
    uint64_t off, nbytes;
    struct symm_rank_set members;
    bool usable; /* all members have it, other blocks may come, and it is not being released */
    bool for_one_block;
    struct symm_offset_allocator *offsets;
};

struct block {
    uint64_t off; /* in the window */
    struct segment *segment;
    struct symm_rank_set holders; /* ranks that have not freed it */
    bool partly_freed;
};

struct symm_heap {
    uint64_t window_nbytes, granularity, least_segment;
    struct symm_offset_allocator *window; /* NULL until CONFIGURE */
    struct segment **segments;
    size_t nsegments, segments_cap;
    struct block *blocks; /* sorted by offset */
    size_t nblocks, blocks_cap;
    size_t npartly_freed; /* blocks freed by some of their ranks */
};

symm_status symm__heap_create(struct symm_heap **out)
{
    struct symm_heap *heap = calloc(1, sizeof *heap);
    if (!heap)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory for the heap");
    *out = heap;
    return SYMM_OK;
}

static void segment_destroy(struct segment *s)
{
    symm__offsets_destroy(s->offsets);
    free(s);
}

void symm__heap_destroy(struct symm_heap *heap)
{
    if (!heap)
        return;
    for (size_t i = 0; i < heap->nsegments; i++)
        segment_destroy(heap->segments[i]);
    symm__offsets_destroy(heap->window);
    free(heap->segments);
    free(heap->blocks);
    free(heap);
}

/* Index of the first block that begins at or after off. */
static size_t block_index(const struct symm_heap *heap, uint64_t off)
{
    size_t lo = 0, hi = heap->nblocks;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (heap->blocks[mid].off < off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool reserve_block(struct symm_heap *heap)
{
    struct block *blocks =
        symm__array_reserve(heap->blocks, &heap->blocks_cap, heap->nblocks + 1, sizeof *blocks);
    if (blocks)
        heap->blocks = blocks;
    return blocks != NULL;
}

/* Creates a block of nbytes in the segment for these ranks. A slot must be reserved. */
static bool block_make(struct symm_heap *heap, struct segment *s, uint64_t nbytes,
                       struct symm_rank_set holders, uint64_t *off)
{
    uint64_t inside;
    if (!symm__offsets_alloc(s->offsets, nbytes, SYMM_HEAP_ALIGNMENT, &inside))
        return false;
    *off = s->off + inside;
    size_t i = block_index(heap, *off);
    memmove(heap->blocks + i + 1, heap->blocks + i, (heap->nblocks - i) * sizeof *heap->blocks);
    heap->blocks[i] = (struct block){.off = *off, .segment = s, .holders = holders};
    heap->nblocks++;
    return true;
}

/*
 * Plans a segment for these ranks: its offset in the window. It is not used by other votes until it
 * is committed.
 */
static struct segment *segment_plan(struct symm_heap *heap, uint64_t nbytes,
                                    struct symm_rank_set members, bool for_one_block)
{
    const uint64_t least = for_one_block ? 0 : heap->least_segment;
    struct segment **segments = symm__array_reserve(heap->segments, &heap->segments_cap,
                                                    heap->nsegments + 1, sizeof *segments);
    if (!segments)
        return NULL;
    heap->segments = segments;
    struct segment *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->members = members;
    s->for_one_block = for_one_block;
    s->nbytes = symm__round_up(nbytes, heap->granularity);
    uint64_t preferred = s->nbytes < least ? least : s->nbytes;
    if (symm__offsets_alloc(heap->window, preferred, heap->granularity, &s->off))
        s->nbytes = preferred;
    else if (preferred == s->nbytes ||
             !symm__offsets_alloc(heap->window, s->nbytes, heap->granularity, &s->off))
        goto fail;
    if (symm__offsets_create(s->nbytes, &s->offsets) != SYMM_OK) {
        symm__offsets_free(heap->window, s->off);
        goto fail;
    }
    heap->segments[heap->nsegments++] = s;
    return s;
fail:
    free(s);
    return NULL;
}

static void segment_forget(struct symm_heap *heap, struct segment *s)
{
    for (size_t i = 0; i < heap->nsegments; i++)
        if (heap->segments[i] == s)
            heap->segments[i] = heap->segments[--heap->nsegments];
    symm__offsets_free(heap->window, s->off);
    segment_destroy(s);
}

static symm_status configure(struct symm_heap *heap, const uint64_t args[4])
{
    uint64_t window = args[0], granularity = args[1], least = args[2];

    if (heap->window)
        return symm__fail(SYMM_ERROR_STATE, "the heap has been configured before");
    if (!granularity || granularity % SYMM_HEAP_ALIGNMENT || !window || window % granularity ||
        least > window)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "a window of %llu bytes with segments of %llu and granularity %llu",
                          (unsigned long long)window, (unsigned long long)least,
                          (unsigned long long)granularity);
    heap->window_nbytes = window;
    heap->granularity = granularity;
    heap->least_segment = symm__round_up(least, granularity);
    return symm__offsets_create(window, &heap->window);
}

/* Creates the block in an existing segment. Tries segments of exactly these ranks first. */
static struct segment *use_existing_segment(struct symm_heap *heap, uint64_t nbytes,
                                            struct symm_rank_set members, bool any, uint64_t *off)
{
    for (int covering = 0; covering <= (any ? 1 : 0); covering++)
        for (size_t i = 0; i < heap->nsegments; i++) {
            struct segment *s = heap->segments[i];
            bool equal = symm__rank_set_equal(s->members, members);
            bool fits = covering ? !equal && symm__rank_set_within(members, s->members) : equal;
            if (s->usable && fits && block_make(heap, s, nbytes, members, off))
                return s;
        }
    return NULL;
}

static symm_status allocate(struct symm_heap *heap, struct symm_rank_set members,
                            const uint64_t args[4], uint64_t answer[4])
{
    uint64_t nbytes, off;
    bool is_new = false;

    if (!args[0])
        return symm__fail(SYMM_ERROR_ARGUMENT, "an allocation of 0 bytes");
    if (args[0] > heap->window_nbytes)
        return symm__fail(SYMM_ERROR_ARGUMENT, "%llu bytes do not fit the window of %llu bytes",
                          (unsigned long long)args[0], (unsigned long long)heap->window_nbytes);
    nbytes = symm__round_up(args[0], SYMM_HEAP_ALIGNMENT);
    if (!reserve_block(heap))
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory for the table of blocks");

    const bool for_one_block = args[1] & SYMM_HEAP_NEW_SEGMENT;
    struct segment *s = for_one_block ? NULL
                                      : use_existing_segment(heap, nbytes, members,
                                                             args[1] & SYMM_HEAP_ANY_SEGMENT, &off);
    if (!s) {
        is_new = true;
        s = segment_plan(heap, nbytes, members, for_one_block);
        if (!s)
            return symm__fail(
                SYMM_ERROR_MEMORY,
                "no room for %llu bytes in the window of %llu, of which %llu are taken",
                (unsigned long long)nbytes, (unsigned long long)heap->window_nbytes,
                (unsigned long long)symm__offsets_used(heap->window));
        if (!block_make(heap, s, nbytes, members, &off)) {
            segment_forget(heap, s);
            return symm__fail(SYMM_ERROR_MEMORY, "out of host memory for a segment");
        }
    }
    answer[0] = off;
    answer[1] = s->off;
    answer[2] = s->nbytes;
    answer[3] = is_new;
    return SYMM_OK;
}

static symm_status commit(struct symm_heap *heap, struct symm_rank_set members, uint64_t off)
{
    for (size_t i = 0; i < heap->nsegments; i++) {
        struct segment *s = heap->segments[i];
        if (s->off == off && !s->usable && symm__rank_set_equal(s->members, members)) {
            s->usable = !s->for_one_block;
            return SYMM_OK;
        }
    }
    return symm__fail(SYMM_ERROR_STATE, "no segment is being made at offset %llu",
                      (unsigned long long)off);
}

/*
 * Picks an empty segment of these ranks and makes it one block. Each rank frees that block when it
 * has released the segment.
 */
static symm_status trim(struct symm_heap *heap, struct symm_rank_set members, uint64_t answer[4])
{
    answer[2] = 0;
    for (size_t i = 0; i < heap->nsegments; i++) {
        struct segment *s = heap->segments[i];
        uint64_t off;
        if (!s->usable || !symm__rank_set_equal(s->members, members) ||
            !symm__offsets_empty(s->offsets))
            continue;
        if (!reserve_block(heap) || !block_make(heap, s, s->nbytes, members, &off))
            return symm__fail(SYMM_ERROR_MEMORY, "out of host memory for the table of blocks");
        s->usable = false;
        answer[0] = s->off;
        answer[1] = 1;
        return SYMM_OK;
    }
    answer[1] = 0;
    return SYMM_OK;
}

static symm_status decide(void *self, uint32_t op, struct symm_rank_set members, symm_status status,
                          const uint64_t args[4], uint64_t answer[4])
{
    struct symm_heap *heap = self;

    /*
     * A rank has failed, so nothing is decided. A planned segment ends with its block, which all
     * ranks free now.
     */
    if (status != SYMM_OK)
        return status;
    if (op == SYMM_HEAP_CONFIGURE)
        return configure(heap, args);
    if (!heap->window)
        return symm__fail(SYMM_ERROR_STATE, "the heap has not been configured");
    switch (op) {
    case SYMM_HEAP_ALLOC:
        return allocate(heap, members, args, answer);
    case SYMM_HEAP_COMMIT:
        return commit(heap, members, args[0]);
    case SYMM_HEAP_TRIM:
        return trim(heap, members, answer);
    default:
        return symm__fail(SYMM_ERROR_ARGUMENT, "unknown operation %u of the heap", op);
    }
}

static void freed(void *self, int rank, uint64_t off)
{
    struct symm_heap *heap = self;
    size_t i = block_index(heap, off);

    if (rank < 0 || rank >= SYMM_MAX_RANKS || i == heap->nblocks || heap->blocks[i].off != off)
        return;
    struct block *b = &heap->blocks[i];
    if (!symm__rank_set_has(b->holders, rank))
        return;
    if (!symm__rank_set_remove(&b->holders, rank)) {
        heap->npartly_freed += !b->partly_freed;
        b->partly_freed = true;
        return;
    }
    heap->npartly_freed -= b->partly_freed;

    struct segment *s = b->segment;
    symm__offsets_free(s->offsets, off - s->off);
    heap->nblocks--;
    memmove(heap->blocks + i, heap->blocks + i + 1, (heap->nblocks - i) * sizeof *heap->blocks);
    if (!s->usable)
        segment_forget(heap, s);
}

static bool settled(void *self)
{
    struct symm_heap *heap = self;
    return heap->npartly_freed == 0;
}

struct symm_arbiter symm__heap_arbiter(struct symm_heap *heap)
{
    return (struct symm_arbiter){
        .decide = decide, .freed = freed, .settled = settled, .self = heap};
}
