/*
 * launch.c with cudart. Its kernels must be loaded before the first one waits for another rank:
 * resident_blocks() does that with cudaFuncGetAttributes(); 03_rms_norm/with_cudart.cu says why.
 */
#include "launch.h"
#include "stencil.cu" /* <<<>>> must see the kernel */
#include "try_cuda.h"

symm_status stencil_load(symm_context *ctx, uint32_t threads, uint32_t *blocks)
{
    return resident_blocks(symm_context_world(ctx), stencil, threads, blocks);
}

symm_status stencil_launch(symm_group *, uint32_t blocks, uint32_t threads,
                           const stencil_args *args, symm_stream stream)
{
    symm_status st = SYMM_OK;

    stencil<<<blocks, threads, 0, stream>>>(*args);
    TRY_CUDA(cudaGetLastError());
out:
    return st;
}
