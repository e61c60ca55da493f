/* The extent of a tensor in memory. */
#ifndef SYMM_TENSOR_H
#define SYMM_TENSOR_H

#include <symm/symm.h>
#include "runtime/base/status.h"

/*
 * Computes the first byte of a tensor and the bytes from there to the end of its last element; 0
 * for an empty tensor. Errors: ERROR_ARGUMENT  a negative extent, or the tensor is too large
 */
symm_status symm__tensor_measure(const symm_tensor *t, char **start, size_t *nbytes);

#endif
