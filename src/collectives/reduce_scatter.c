#include "collective.h"

symm_status symm_reduce_scatter(symm_group *group, const void *in, void *out, size_t count,
                                symm_dtype dtype, symm_redop op, const symm_options *options,
                                symm_stream stream)
{
    const struct symm_collective_call call = {
        .operation = SYMM_OPERATION_REDUCE_SCATTER, .dtype = dtype, .op = op, .count = count};

    return symm__collective(group, call, &(struct symm_data){.in = in, .out = out}, options,
                            stream);
}

const char *symm_reduce_scatter_unavailable(symm_group *group, symm_algo algo, symm_dtype dtype,
                                            symm_redop op)
{
    return symm__collective_unavailable(group, SYMM_OPERATION_REDUCE_SCATTER, algo, dtype, op);
}
