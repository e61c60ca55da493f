/* Size and name of an element type. */
#ifndef SYMM_DTYPE_H
#define SYMM_DTYPE_H

#include <symm/types.h>

/* The bytes of one element; its name in texts. 0 and NULL for an unknown dtype. */
size_t symm__dtype_size(symm_dtype dtype);
const char *symm__dtype_name(symm_dtype dtype);

#endif
