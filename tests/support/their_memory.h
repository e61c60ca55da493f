/* Device memory of a program that does not know symm, made by the driver alone. */
#ifndef TEST_THEIR_MEMORY_H
#define TEST_THEIR_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <symm/symm.h>

struct their_memory {
    symm_context *ctx; /* whose driver and device it is */
    char *at;
    size_t nbytes;
    bool reserved, mapped;
};

/*
 * Memory of cuMemCreate(), mapped for the context's device. shared: other processes may map it. On
 * failure `at` is NULL, and nothing is left.
 */
bool their_memory_make(symm_context *ctx, size_t nbytes, bool shared, struct their_memory *out);
/* Their own mapping and handle go; symm may still have it. */
void their_memory_free(struct their_memory *theirs);

#endif
