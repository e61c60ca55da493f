#include "collective.h"

symm_status symm_broadcast(symm_group *group, const void *in, void *out, size_t count,
                           symm_dtype dtype, int root, const symm_options *options,
                           symm_stream stream)
{
    const struct symm_collective_call call = {.operation = SYMM_OPERATION_BROADCAST,
                                              .dtype = dtype,
                                              .op = SYMM_SUM,
                                              .count = count,
                                              .root = root};

    return symm__collective(group, call, &(struct symm_data){.in = in, .out = out}, options,
                            stream);
}

const char *symm_broadcast_unavailable(symm_group *group, symm_algo algo, symm_dtype dtype)
{
    return symm__collective_unavailable(group, SYMM_OPERATION_BROADCAST, algo, dtype, SYMM_SUM);
}
