#include "place_blocks.h"

#include "runtime/base/numbers.h"

enum { THREADS = 512, BLOCKS = 2 /* on an SM */ };

symm_status symm__place_blocks(struct symm_call *e, const struct symm_limits *limits,
                               const symm_place_blocks_args *args)
{
    const uint64_t slices = symm__ceil_div(args->nbytes, SYMM_PLACE_SLICE) * args->nblocks,
                   blocks = symm__min(slices, BLOCKS * (uint64_t)limits->nsms),
                   threads = symm__min(THREADS, (uint64_t)limits->max_threads);

    if (slices == 0)
        return SYMM_OK;
    return symm__call_launch_local(e, SYMM_KERNEL_place_blocks, (uint32_t)blocks, (uint32_t)threads,
                                   args);
}
