/*
 * launch.c with cudart. The stream is captured whatever launches: <<<>>> is in the graph as well.
 * The kernel must be loaded before the first wait for another rank: resident_blocks() does that
 * with cudaFuncGetAttributes(); 03_rms_norm/with_cudart.cu says why.
 */
#include "launch.h"
#include "stage.cu" /* <<<>>> must see the kernel */
#include "try_cuda.h"

symm_status stage_load(symm_context *ctx, uint32_t threads, uint32_t *blocks)
{
    return resident_blocks(symm_context_world(ctx), stage, threads, blocks);
}

symm_status stage_launch(symm_group *, uint32_t blocks, uint32_t threads, const stage_args *args,
                         symm_stream stream)
{
    symm_status st = SYMM_OK;

    stage<<<blocks, threads, 0, stream>>>(*args);
    TRY_CUDA(cudaGetLastError());
out:
    return st;
}
