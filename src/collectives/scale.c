#include "scale.h"

#include <string.h>
#include <symm/detail/convert.h>

symm_status symm__scale_check(const struct symm_collective_call *call,
                              const struct symm_algorithm *named)
{
    if (!symm__operation_reduces(call->operation))
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "options->scale: only reductions scale");
    if (call->row)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "options->scale: a norm has none");
    if (call->dtype == SYMM_INT32 || call->dtype == SYMM_INT64)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "options->scale: %s is no floating type",
                          symm_dtype_name(call->dtype));
    if (named && !named->scales)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "options->scale: %s cannot scale, lamport can",
                          symm_algo_name(call->algo));
    return SYMM_OK;
}

static double value_of(const void *at, symm_dtype dtype)
{
    uint16_t half;
    float single;
    double wide;

    switch (dtype) {
    case SYMM_FLOAT16:
        memcpy(&half, at, sizeof half);
        return (double)symm_detail_from_f16(half);
    case SYMM_BFLOAT16:
        memcpy(&half, at, sizeof half);
        return (double)symm_detail_from_bf16(half);
    case SYMM_FLOAT32:
        memcpy(&single, at, sizeof single);
        return (double)single;
    default:
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
}

symm_status symm__scale_read(const struct symm_group *group, const symm_options *options,
                             symm_dtype dtype, symm_scale *out)
{
    const size_t size = symm_dtype_size(dtype);
    const void *at = options->scale;

    *out = (symm_scale){.on = 1};
    if (!(options->flags & SYMM_SCALE_ON_DEVICE)) {
        out->value = value_of(at, dtype);
        return SYMM_OK;
    }
    if ((uintptr_t)at % size)
        return symm__fail(SYMM_ERROR_ARGUMENT, "options->scale %p is not aligned to its %zu bytes",
                          at, size);
    if (!symm__memory_usable(group->ctx->memory, at, size))
        return symm__fail_in(SYMM_ERROR_ARGUMENT, "options->scale: ");
    out->at = at;
    return SYMM_OK;
}
