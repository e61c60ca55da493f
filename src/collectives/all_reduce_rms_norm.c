#include <math.h>
#include "collective.h"

static symm_status check_norm(const symm_rms_norm *norm, uint64_t *count)
{
    if (!norm)
        return symm__fail(SYMM_ERROR_ARGUMENT, "norm is NULL");
    if (norm->hidden == 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "norm->hidden is 0");
    if (norm->hidden > UINT32_MAX)
        return symm__fail(SYMM_ERROR_ARGUMENT, "norm->hidden is %zu; the most is %u", norm->hidden,
                          UINT32_MAX);
    if (__builtin_mul_overflow(norm->rows, norm->hidden, count))
        return symm__fail(SYMM_ERROR_ARGUMENT, "norm->rows %zu of norm->hidden %zu overflow",
                          norm->rows, norm->hidden);
    if (!(norm->eps >= 0 && norm->eps < INFINITY))
        return symm__fail(SYMM_ERROR_ARGUMENT, "norm->eps is %g, not a finite number from 0 on",
                          (double)norm->eps);
    for (size_t i = 0; i < sizeof norm->reserved / sizeof norm->reserved[0]; i++)
        if (norm->reserved[i])
            return symm__fail(SYMM_ERROR_ARGUMENT, "norm->reserved[%zu] is %u, not 0", i,
                              norm->reserved[i]);
    return SYMM_OK;
}

symm_status symm_all_reduce_rms_norm(symm_group *group, const symm_rms_norm *norm, symm_dtype dtype,
                                     const symm_options *options, symm_stream stream)
{
    const char *const name = symm__operation_call(SYMM_OPERATION_ALL_REDUCE_RMS_NORM);
    struct symm_collective_call call = {
        .operation = SYMM_OPERATION_ALL_REDUCE_RMS_NORM, .dtype = dtype, .op = SYMM_SUM};
    symm_status st;

    TRY(symm__enter(group, name));
    st = check_norm(norm, &call.count);
    if (st != SYMM_OK)
        return symm__fail_on(SYMM_ON(group), st, "%s: ", name);
    call.row = norm->hidden;
    st = symm__collective(group, call,
                          &(struct symm_data){.in = norm->in, .out = norm->out, .norm = norm},
                          options, stream);
out:
    return st;
}

const char *symm_all_reduce_rms_norm_unavailable(symm_group *group, symm_algo algo,
                                                 symm_dtype dtype)
{
    return symm__collective_unavailable(group, SYMM_OPERATION_ALL_REDUCE_RMS_NORM, algo, dtype,
                                        SYMM_SUM);
}
