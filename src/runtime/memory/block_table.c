/* A sorted array with binary search, since every stream-ordered call looks up its buffers. */
#include "block_table.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/array.h"

symm_status symm__blocks_reserve(struct symm_block_table *t)
{
    struct symm_block *at =
        symm__array_reserve(t->at, &t->cap, t->count + t->reserved + 1, sizeof *at);
    if (!at)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory for the table of allocations");
    t->at = at;
    t->reserved++;
    return SYMM_OK;
}

void symm__blocks_unreserve(struct symm_block_table *t)
{
    t->reserved--;
}

/* Index of the first block that ends after off. */
static size_t ending_after(const struct symm_block_table *t, uint64_t off)
{
    size_t lo = 0, hi = t->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->at[mid].off + t->at[mid].nbytes <= off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void symm__blocks_insert(struct symm_block_table *t, const struct symm_block *block)
{
    size_t first = ending_after(t, block->off), last = first;

    while (last < t->count && t->at[last].off < block->off + block->nbytes)
        last++;
    memmove(t->at + first + 1, t->at + last, (t->count - last) * sizeof *t->at);
    t->at[first] = *block;
    t->count += 1 - (last - first);
    t->reserved--;
}

struct symm_block *symm__blocks_find(const struct symm_block_table *t, uint64_t off)
{
    size_t lo = 0, hi = t->count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (t->at[mid].off <= off)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo ? &t->at[lo - 1] : NULL;
}

void symm__blocks_clear(struct symm_block_table *t)
{
    free(t->at);
    *t = (struct symm_block_table){.at = NULL};
}
