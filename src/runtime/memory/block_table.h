/*
 * What is allocated in this rank's symmetric memory, by offset in the window. Freed blocks stay in
 * the table until something else is allocated there: it is they who make "this was freed" a
 * possible answer. Not locked: the owner's job.
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
    const void *owner;
    struct symm_rank_set members;
    enum symm_block_kind kind;
    const void *keeper; /* who alone may free it; NULL: whoever has the group */
    uint64_t freed;     /* here, as symm__exchange_freed counts; 0: live */
};

struct symm_block_table {
    struct symm_block *at; /* sorted by offset; no two overlap */
    size_t count, cap, reserved;
};

/* Makes room for one insert, which then cannot fail. Ends with the insert or with unreserve. */
symm_status symm__blocks_reserve(struct symm_block_table *t);
void symm__blocks_unreserve(struct symm_block_table *t);
/* Takes the place of freed blocks that it overlaps. */
void symm__blocks_insert(struct symm_block_table *t, const struct symm_block *block);
/* The last block that begins at or before off; NULL: none does. */
struct symm_block *symm__blocks_find(const struct symm_block_table *t, uint64_t off);
void symm__blocks_clear(struct symm_block_table *t);

#endif
