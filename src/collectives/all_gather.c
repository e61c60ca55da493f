#include "collective.h"

symm_status symm_all_gather(symm_group *group, const void *in, void *out, size_t count,
                            symm_dtype dtype, const symm_options *options, symm_stream stream)
{
    const struct symm_collective_call call = {
        .operation = SYMM_OPERATION_ALL_GATHER, .dtype = dtype, .op = SYMM_SUM, .count = count};

    return symm__collective(group, call, &(struct symm_data){.in = in, .out = out}, options,
                            stream);
}

const char *symm_all_gather_unavailable(symm_group *group, symm_algo algo, symm_dtype dtype)
{
    return symm__collective_unavailable(group, SYMM_OPERATION_ALL_GATHER, algo, dtype, SYMM_SUM);
}
