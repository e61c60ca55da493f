/* Allocates offsets of a range: first fit, with coalescing. Pure arithmetic without locks. */
#ifndef SYMM_OFFSET_ALLOCATOR_H
#define SYMM_OFFSET_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/base/status.h"

struct symm_offset_allocator;

symm_status symm__offsets_create(uint64_t nbytes, struct symm_offset_allocator **out);
void symm__offsets_destroy(struct symm_offset_allocator *a);
/* alignment: a power of two. Returns false if no gap is large enough or host memory is out. */
bool symm__offsets_alloc(struct symm_offset_allocator *a, uint64_t nbytes, uint64_t alignment,
                         uint64_t *off);
/* Returns false if no allocation begins at off. */
bool symm__offsets_free(struct symm_offset_allocator *a, uint64_t off);
bool symm__offsets_empty(const struct symm_offset_allocator *a);
uint64_t symm__offsets_used(const struct symm_offset_allocator *a);
uint64_t symm__offsets_largest_gap(const struct symm_offset_allocator *a);

#endif
