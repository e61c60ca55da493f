/* Tensors: shape, strides, size, and symmetric memory for them. */
#include "tensor.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <symm/names.h>
#include "runtime/group/call.h"

static symm_status too_large(int i, int64_t extent)
{
    return symm__fail(SYMM_ERROR_ARGUMENT,
                      "tensor.shape[%d] is %" PRId64 ": the tensor is too large", i, extent);
}

symm_status symm__tensor_measure(const symm_tensor *t, char **start, size_t *nbytes)
{
    int64_t size = (int64_t)symm_dtype_size(t->dtype), below = 0, above = 0, reach, extent = size;
    bool empty = false;

    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0)
            return symm__fail(SYMM_ERROR_ARGUMENT, "tensor.shape[%d] is %" PRId64, i, t->shape[i]);
        empty = empty || t->shape[i] == 0;
    }
    for (int i = 0; i < t->ndim && !empty; i++) {
        int64_t *side = t->strides[i] < 0 ? &below : &above;
        if (__builtin_mul_overflow(t->shape[i] - 1, t->strides[i], &reach) ||
            __builtin_mul_overflow(reach, size, &reach) ||
            __builtin_add_overflow(*side, reach, side) ||
            __builtin_sub_overflow(above, below, &extent) ||
            __builtin_add_overflow(extent, size, &extent))
            return too_large(i, t->shape[i]);
    }
    *start = (char *)((uintptr_t)t->data + (uintptr_t)below); /* data may be NULL */
    *nbytes = empty ? 0 : (size_t)extent;
    return SYMM_OK;
}

/* Sets shape and strides of a contiguous tensor; computes its size. */
static symm_status lay_out(symm_tensor *tensor, const int64_t *shape, size_t *nbytes)
{
    *nbytes = symm_dtype_size(tensor->dtype);
    if (*nbytes == 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "dtype is %d", (int)tensor->dtype);
    if (tensor->ndim < 1 || tensor->ndim > SYMM_MAX_DIMS)
        return symm__fail(SYMM_ERROR_ARGUMENT, "ndim is %d; it may be 1 to %d", tensor->ndim,
                          SYMM_MAX_DIMS);
    if (!shape)
        return symm__fail(SYMM_ERROR_ARGUMENT, "shape is NULL");
    for (int i = tensor->ndim - 1; i >= 0; i--) {
        if (shape[i] < 1)
            return symm__fail(SYMM_ERROR_ARGUMENT, "shape[%d] is %lld", i, (long long)shape[i]);
        tensor->shape[i] = shape[i];
        tensor->strides[i] =
            i == tensor->ndim - 1 ? 1 : tensor->strides[i + 1] * tensor->shape[i + 1];
        if (__builtin_mul_overflow(*nbytes, (size_t)shape[i], nbytes) || *nbytes > INT64_MAX)
            return symm__fail(SYMM_ERROR_ARGUMENT, "shape[%d] is %lld: the tensor is too large", i,
                              (long long)shape[i]);
    }
    return SYMM_OK;
}

symm_status symm_tensor_alloc(symm_group *group, symm_dtype dtype, int ndim, const int64_t *shape,
                              symm_tensor *out)
{
    symm_tensor tensor = {.dtype = dtype, .ndim = ndim};
    struct symm_call call;
    size_t nbytes = 0;
    symm_status st = lay_out(&tensor, shape, &nbytes);

    if (st != SYMM_OK || !out) {
        char why[SYMM_TEXT_MAX];
        strcpy(why, out ? symm__failure_text() : "out is NULL");
        TRY(symm__collective_begin(&call, group, true, "symm_tensor_alloc(%d dimensions)", ndim));
        return symm__collective_refuse(&call, "%s", why);
    }
    st = symm_alloc(group, nbytes, &tensor.data);
    if (st != SYMM_OK)
        return symm__fail_in(st, "symm_tensor_alloc: ");
    *out = tensor;
out:
    return st;
}

symm_status symm_tensor_of(void *data, symm_dtype dtype, int ndim, const int64_t *shape,
                           const int64_t *strides, symm_tensor *out)
{
    symm_tensor tensor = {.data = data, .dtype = dtype, .ndim = ndim};
    char *start;
    size_t nbytes;
    symm_status st;

    if (!out) {
        st = symm__fail(SYMM_ERROR_ARGUMENT, "out is NULL");
        goto out;
    }
    TRY(lay_out(&tensor, shape, &nbytes));
    if (strides) {
        memcpy(tensor.strides, strides, (size_t)ndim * sizeof *strides);
        TRY(symm__tensor_measure(&tensor, &start, &nbytes));
    }
    *out = tensor;
out:
    return st == SYMM_OK ? SYMM_OK : symm__fail_in(st, "symm_tensor_of: ");
}
