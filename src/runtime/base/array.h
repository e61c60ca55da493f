/* Growing arrays. The only code that computes their capacity. */
#ifndef SYMM_ARRAY_H
#define SYMM_ARRAY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/*
 * Reserves capacity for `needed` elements. Returns the array, perhaps moved, and updates *cap.
 * Returns NULL if host memory is out; the array is then unchanged.
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
