/* Arithmetic on elements: floating types in double precision, integers modulo their size. */
#ifndef STANDIN_VALUES_H
#define STANDIN_VALUES_H

#include <stdbool.h>
#include "abi/nccl.h"

union value {
    double real;
    int64_t whole;
    uint64_t natural;
};

size_t values_size(ncclDataType_t type);
/* False for the types of one byte that are no integers: they are moved only. */
bool values_reduced(ncclDataType_t type);
void values_load(ncclDataType_t type, const void *in, union value *out, size_t n);
void values_store(ncclDataType_t type, const union value *in, void *out, size_t n);
void values_reduce(ncclDataType_t type, ncclRedOp_t op, union value *sum, const union value *x,
                   size_t n);
/* Divides the sums of `nranks` elements. */
void values_average(ncclDataType_t type, union value *sum, size_t n, int nranks);
void values_scale(ncclDataType_t type, union value *values, size_t n, union value factor);

#endif
