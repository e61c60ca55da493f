#include "launch.h"

extern const symm_image stage_kernels; /* symm_add_kernels(04_pipeline stage.cu) */

static symm_kernel *kernel;

symm_status stage_load(symm_context *ctx, uint32_t threads, uint32_t *blocks)
{
    symm_status st = symm_kernel_load(ctx, &stage_kernels, "stage", &kernel);

    if (st != SYMM_OK)
        return st;
    return symm_kernel_max_blocks(symm_context_world(ctx), kernel, threads, 0, blocks);
}

symm_status stage_launch(symm_group *group, uint32_t blocks, uint32_t threads,
                         const stage_args *args, symm_stream stream)
{
    const symm_grid grid = {.blocks = blocks, .threads = threads};

    return symm_launch(group, kernel, &grid, args, sizeof *args, stream);
}
