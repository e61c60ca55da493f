/*
 * The table of allocations in this rank's symmetric memory, by offset in the window. Freed blocks
 * stay in it until new blocks overlap them, so that errors can report "freed memory". The owner
 * locks.
 */
#ifndef SYMM_BLOCK_TABLE_H
#define SYMM_BLOCK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/rank_set.h"
#include "memory.h"

struct symm_block {
    uint64_t off, nbytes, requested; /* nbytes: requested, rounded up to the heap's alignment */
    uint64_t segment; /* of registered memory: the offset of the segment that ends with the block */
    const void *owner;
    struct symm_rank_set members;
    enum symm_block_kind kind;
    const void *keeper; /* the only one that may free it; NULL: any call on the group */
    uint64_t freed;     /* number of symm__exchange_freed() on this rank; 0: live */
};

struct symm_block_table {
    struct symm_block *at; /* sorted by offset; no two overlap */
    size_t count, cap, reserved;
};

/*
 * Reserves a slot for one insert, which then cannot fail. The insert or unreserve ends the
 * reservation.
 */
symm_status symm__blocks_reserve(struct symm_block_table *t);
void symm__blocks_unreserve(struct symm_block_table *t);
/* Inserts a block and removes freed blocks that it overlaps. */
void symm__blocks_insert(struct symm_block_table *t, const struct symm_block *block);
/* The last block that begins at or before off; NULL: none. */
struct symm_block *symm__blocks_find(const struct symm_block_table *t, uint64_t off);
void symm__blocks_clear(struct symm_block_table *t);

#endif
