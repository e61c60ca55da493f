/*
 * First fit over two sorted arrays, the used extents and the gaps. Coalescing keeps the gaps few,
 * so a search is short. Freeing finds its neighbours by binary search.
 */
#include "offset_allocator.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/array.h"

struct extent {
    uint64_t off, nbytes;
};

/* Sorted by offset; extents do not overlap. */
struct extents {
    struct extent *at;
    size_t count, cap;
};

struct symm_offset_allocator {
    struct extents used, gaps;
    uint64_t nbytes_used;
};

/* Index of the first extent that begins at or after off. */
static size_t lower_bound(const struct extents *e, uint64_t off)
{
    size_t lo = 0, hi = e->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (e->at[mid].off < off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool reserve(struct extents *e, size_t count)
{
    struct extent *at = symm__array_reserve(e->at, &e->cap, count, sizeof *at);
    if (at)
        e->at = at;
    return at != NULL;
}

static void insert(struct extents *e, size_t i, struct extent x)
{
    memmove(e->at + i + 1, e->at + i, (e->count - i) * sizeof *e->at);
    e->at[i] = x;
    e->count++;
}

static void erase(struct extents *e, size_t i)
{
    e->count--;
    memmove(e->at + i, e->at + i + 1, (e->count - i) * sizeof *e->at);
}

symm_status symm__offsets_create(uint64_t nbytes, struct symm_offset_allocator **out)
{
    struct symm_offset_allocator *a = calloc(1, sizeof *a);
    if (!a || !reserve(&a->gaps, 1)) {
        symm__offsets_destroy(a);
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory for an offset allocator");
    }
    if (nbytes)
        insert(&a->gaps, 0, (struct extent){.off = 0, .nbytes = nbytes});
    *out = a;
    return SYMM_OK;
}

void symm__offsets_destroy(struct symm_offset_allocator *a)
{
    if (!a)
        return;
    free(a->used.at);
    free(a->gaps.at);
    free(a);
}

/* Takes [off, off + nbytes) out of the gap with index i. */
static void cut(struct extents *gaps, size_t i, uint64_t off, uint64_t nbytes)
{
    struct extent gap = gaps->at[i];
    uint64_t before = off - gap.off, after = gap.nbytes - before - nbytes;

    if (before && after) {
        gaps->at[i].nbytes = before;
        insert(gaps, i + 1, (struct extent){.off = off + nbytes, .nbytes = after});
    } else if (before) {
        gaps->at[i].nbytes = before;
    } else if (after) {
        gaps->at[i] = (struct extent){.off = off + nbytes, .nbytes = after};
    } else {
        erase(gaps, i);
    }
}

bool symm__offsets_alloc(struct symm_offset_allocator *a, uint64_t nbytes, uint64_t alignment,
                         uint64_t *off)
{
    /*
     * There is at most one gap more than used extents. Capacity for these gaps is reserved here, so
     * freeing needs no memory and cannot fail.
     */
    if (!nbytes || !reserve(&a->used, a->used.count + 1) || !reserve(&a->gaps, a->used.count + 2))
        return false;
    for (size_t i = 0; i < a->gaps.count; i++) {
        struct extent gap = a->gaps.at[i];
        uint64_t skip = (alignment - gap.off % alignment) % alignment;
        if (gap.nbytes < skip || gap.nbytes - skip < nbytes)
            continue;
        struct extent got = {.off = gap.off + skip, .nbytes = nbytes};
        cut(&a->gaps, i, got.off, nbytes);
        insert(&a->used, lower_bound(&a->used, got.off), got);
        a->nbytes_used += nbytes;
        *off = got.off;
        return true;
    }
    return false;
}

bool symm__offsets_free(struct symm_offset_allocator *a, uint64_t off)
{
    size_t i = lower_bound(&a->used, off);
    if (i == a->used.count || a->used.at[i].off != off)
        return false;
    struct extent x = a->used.at[i];
    erase(&a->used, i);
    a->nbytes_used -= x.nbytes;

    struct extents *gaps = &a->gaps;
    i = lower_bound(gaps, off);
    if (i < gaps->count && gaps->at[i].off == x.off + x.nbytes) {
        x.nbytes += gaps->at[i].nbytes;
        erase(gaps, i);
    }
    if (i > 0 && gaps->at[i - 1].off + gaps->at[i - 1].nbytes == x.off)
        gaps->at[i - 1].nbytes += x.nbytes;
    else
        insert(gaps, i, x);
    return true;
}

bool symm__offsets_empty(const struct symm_offset_allocator *a)
{
    return a->used.count == 0;
}

uint64_t symm__offsets_used(const struct symm_offset_allocator *a)
{
    return a->nbytes_used;
}

uint64_t symm__offsets_largest_gap(const struct symm_offset_allocator *a)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < a->gaps.count; i++)
        if (a->gaps.at[i].nbytes > largest)
            largest = a->gaps.at[i].nbytes;
    return largest;
}
