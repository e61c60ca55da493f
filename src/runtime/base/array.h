/* Growing arrays: the one place that computes their capacity. */
#ifndef SYMM_ARRAY_H
#define SYMM_ARRAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * Returns the array with room for `needed` elements, perhaps moved, and updates *cap. NULL: out of
 * host memory, and the array is as it was.
 */
static inline void *symm__array_reserve(void *array, size_t *cap, size_t needed, size_t elem_nbytes)
{
    if (needed <= *cap && array)
        return array;
    size_t grown = *cap < 8 ? 16 : *cap + *cap / 2;
    if (grown < needed)
        grown = needed;
    if (grown > SIZE_MAX / elem_nbytes)
        return NULL;
    void *moved = realloc(array, grown * elem_nbytes);
    if (moved)
        *cap = grown;
    return moved;
}

#endif
