/* What is known of an element type. */
#ifndef SYMM_DTYPE_H
#define SYMM_DTYPE_H

#include <symm/types.h>

/* The bytes of an element, and its name in texts; 0 and NULL for a number that names no type. */
size_t symm__dtype_size(symm_dtype dtype);
const char *symm__dtype_name(symm_dtype dtype);

#endif
