#include "local_reduce.h"

#include "runtime/base/numbers.h"

enum {
    THREADS = 512,
    BLOCKS = 2, /* on an SM */
    PACK_NBYTES = 16
};

static symm_kernel_id kernel_of(symm_dtype dtype)
{
    static const symm_kernel_id kernels[] = {
        [SYMM_FLOAT32] = SYMM_KERNEL_local_reduce_float32,
        [SYMM_FLOAT16] = SYMM_KERNEL_local_reduce_float16,
        [SYMM_BFLOAT16] = SYMM_KERNEL_local_reduce_bfloat16,
        [SYMM_FLOAT64] = SYMM_KERNEL_local_reduce_float64,
        [SYMM_INT32] = SYMM_KERNEL_local_reduce_int32,
        [SYMM_INT64] = SYMM_KERNEL_local_reduce_int64,
    };
    return kernels[dtype];
}

symm_status symm__local_reduce(struct symm_call *e, const struct symm_limits *limits,
                               symm_dtype dtype, const symm_local_reduce_args *args)
{
    const uint64_t nbytes = args->count * symm_dtype_size(dtype),
                   threads = symm__min(THREADS, (uint64_t)limits->max_threads),
                   blocks = symm__min(symm__ceil_div(nbytes, PACK_NBYTES * threads),
                                      BLOCKS * (uint64_t)limits->nsms);

    if (nbytes == 0)
        return SYMM_OK;
    return symm__call_launch_local(e, kernel_of(dtype), (uint32_t)blocks, (uint32_t)threads, args);
}
