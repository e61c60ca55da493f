/* Launches users' kernels with all blocks resident together. */
#include "launch.h"

#include <string.h>
#include "runtime/group/call.h"

enum { ARGS_MAX = 4096 - 4 }; /* accepted by every driver */

/*
 * Raises the kernel's limit of dynamic shared memory if it needs more than 48 KiB. The limit only
 * grows, since another thread may be about to launch with more.
 */
static symm_status allow_shared(struct symm_kernel *kernel, uint32_t smem_nbytes)
{
    struct symm_context *ctx = kernel->ctx;
    CUresult cu = CUDA_SUCCESS;

    if (smem_nbytes <= SYMM_SMEM_FREE)
        return SYMM_OK;
    if (smem_nbytes > INT32_MAX)
        return symm__fail(SYMM_ERROR_ARGUMENT, "smem_nbytes is %u", smem_nbytes);
    pthread_mutex_lock(&ctx->owned_lock);
    if (smem_nbytes > kernel->smem_nbytes)
        cu = ctx->drv->cuFuncSetAttribute(
            kernel->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)smem_nbytes);
    if (cu == CUDA_SUCCESS && smem_nbytes > kernel->smem_nbytes)
        kernel->smem_nbytes = smem_nbytes;
    pthread_mutex_unlock(&ctx->owned_lock);
    if (cu == CUDA_ERROR_INVALID_VALUE)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "smem_nbytes is %u, more than a block of this kernel can have here",
                          smem_nbytes);
    return cu == CUDA_SUCCESS ? SYMM_OK : symm__driver_fail(ctx->drv, cu, "cuFuncSetAttribute");
}

/*
 * Computes how many blocks can be resident on this device; 0 if the kernel cannot run with this
 * shape.
 */
static symm_status resident_blocks(const struct symm_context *ctx, const struct symm_kernel *kernel,
                                   uint32_t threads, uint32_t smem_nbytes, uint32_t *out)
{
    int per_sm = 0, nsms = 0;
    symm_status st = SYMM_OK;

    TRY_CU(ctx->drv, cuOccupancyMaxActiveBlocksPerMultiprocessor, &per_sm, kernel->function,
           (int)threads, smem_nbytes);
    TRY_CU(ctx->drv, cuDeviceGetAttribute, &nsms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
           ctx->device);
    *out = (uint32_t)per_sm * (uint32_t)nsms;
out:
    return st;
}

static symm_status check_threads(const struct symm_group *group, const struct symm_kernel *kernel,
                                 uint32_t threads)
{
    if (!kernel)
        return symm__fail(SYMM_ERROR_ARGUMENT, "kernel is NULL");
    if (kernel->ctx != group->ctx)
        return symm__fail(SYMM_ERROR_ARGUMENT, "the kernel is of another context");
    if (threads == 0 || threads > (uint32_t)kernel->max_threads)
        return symm__fail(SYMM_ERROR_ARGUMENT, "threads is %u; this kernel takes 1 to %d", threads,
                          kernel->max_threads);
    return SYMM_OK;
}

symm_status symm_kernel_max_blocks(symm_group *group, symm_kernel *kernel, uint32_t threads,
                                   uint32_t smem_nbytes, uint32_t *out)
{
    struct symm_call call;
    uint32_t mine = 0, all[SYMM_MAX_RANKS], least = UINT32_MAX;
    symm_status st;

    TRY(symm__collective_begin(&call, group, true, "symm_kernel_max_blocks(threads %u, smem %u)",
                               threads, smem_nbytes));
    if (!out)
        return symm__collective_refuse(&call, "out is NULL");
    struct symm_vote vote = {
        .text = call.text, .mine = &mine, .nbytes = sizeof mine, .all = all, .fd = -1};
    vote.status = check_threads(group, kernel, threads);
    if (vote.status == SYMM_OK)
        vote.status = allow_shared(kernel, smem_nbytes);
    if (vote.status == SYMM_OK)
        vote.status = resident_blocks(group->ctx, kernel, threads, smem_nbytes, &mine);
    st = symm__host_comm_vote(group->comm, &vote, symm__deadline_in(group->ctx->timeout_ms));
    TRY(symm__collective_end(&call, st));
    for (int r = 0; r < group->nranks; r++)
        least = all[r] < least ? all[r] : least;
    *out = least;
out:
    return st;
}

static symm_status check_grid(const struct symm_group *group, const struct symm_kernel *kernel,
                              const symm_grid *grid)
{
    if (!grid)
        return symm__fail(SYMM_ERROR_ARGUMENT, "grid is NULL");
    if (grid->blocks == 0 || grid->blocks > INT32_MAX)
        return symm__fail(SYMM_ERROR_ARGUMENT, "grid.blocks is %u", grid->blocks);
    if (grid->cluster > 1 && grid->blocks % grid->cluster != 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "grid.blocks %u is no multiple of grid.cluster %u",
                          grid->blocks, grid->cluster);
    if (grid->flags & ~(uint32_t)SYMM_GRID_PDL)
        return symm__fail(SYMM_ERROR_ARGUMENT, "grid.flags %#x has unknown bits", grid->flags);
    for (size_t i = 0; i < sizeof grid->reserved / sizeof grid->reserved[0]; i++)
        if (grid->reserved[i])
            return symm__fail(SYMM_ERROR_ARGUMENT, "grid.reserved[%zu] is %u, not 0", i,
                              grid->reserved[i]);
    return check_threads(group, kernel, grid->threads);
}

/*
 * Finds the view in the arguments. If the image does not tell its offset, checks the beginning: it
 * is a view of this group if the poison pointer matches, which has the same offset in all versions
 * of the view.
 */
static bool find_view(const struct symm_group *group, const struct symm_kernel *kernel,
                      const void *args, size_t nbytes, symm_view *out)
{
    const size_t at = kernel->view_at ? kernel->view_at - 1 : 0;

    if (nbytes < sizeof *out || at > nbytes - sizeof *out)
        return false;
    memcpy(out, (const char *)args + at, sizeof *out);
    return kernel->view_at || out->poison == group->view.poison;
}

/* Checks the size if the kernel's is known, and the view if one is found. */
static symm_status check_args(const struct symm_group *group, const struct symm_kernel *kernel,
                              const void *args, size_t nbytes)
{
    symm_view view;

    if (!args)
        return symm__fail(SYMM_ERROR_ARGUMENT, "args is NULL");
    if (nbytes == 0 || (kernel->args_nbytes ? nbytes != kernel->args_nbytes : nbytes > ARGS_MAX))
        return symm__fail(SYMM_ERROR_ARGUMENT, "nbytes is %zu; this kernel takes %s%u", nbytes,
                          kernel->args_nbytes ? "" : "at most ",
                          kernel->args_nbytes ? kernel->args_nbytes : (uint32_t)ARGS_MAX);
    if (!find_view(group, kernel, args, nbytes, &view))
        return SYMM_OK;
    if (view.abi == 0 && view.nranks == 0)
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "the view in args is all zeros: fill it in with symm_group_view()");
    if (view.abi != SYMM_VIEW_ABI)
        return symm__fail(SYMM_ERROR_VERSION,
                          "the view in args has interface %u, this library %u: fill it in with "
                          "symm_group_view()",
                          view.abi, SYMM_VIEW_ABI);
    return SYMM_OK;
}

static symm_status launch(struct symm_call *call, struct symm_kernel *kernel, const symm_grid *grid,
                          const void *args)
{
    const struct symm_context *ctx = call->group->ctx;
    bool early = grid->flags & SYMM_GRID_PDL;
    CUlaunchAttribute attributes[2];
    CUlaunchConfig config = {
        .gridDimX = grid->blocks,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = grid->threads,
        .blockDimY = 1,
        .blockDimZ = 1,
        .sharedMemBytes = grid->smem_nbytes,
        .hStream = call->stream,
        .attrs = attributes,
    };
    void *params[] = {(void *)(uintptr_t)args}; /* only read; the driver's interface has no const */
    uint32_t most = 0;
    symm_status st;

    TRY(allow_shared(kernel, grid->smem_nbytes));
    /*
     * The blocks of a kernel that may start early become resident one by one, while the kernel in
     * front ends. So they are counted, and the launch is not cooperative.
     */
    if (early) {
        TRY(resident_blocks(ctx, kernel, grid->threads, grid->smem_nbytes, &most));
        if (grid->blocks > most)
            return symm__fail(SYMM_ERROR_ARGUMENT, "%u blocks cannot be resident together; %u can",
                              grid->blocks, most);
        attributes[config.numAttrs++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                .value.programmaticStreamSerializationAllowed = 1};
    } else {
        attributes[config.numAttrs++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    }
    if (grid->cluster > 1)
        attributes[config.numAttrs++] = (CUlaunchAttribute){
            .id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {grid->cluster, 1, 1}};
    CUresult cu = ctx->drv->cuLaunchKernelEx(&config, kernel->function, params, NULL);
    if (cu == CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE) {
        TRY(resident_blocks(ctx, kernel, grid->threads, grid->smem_nbytes, &most));
        st = symm__fail(SYMM_ERROR_ARGUMENT,
                        "%u blocks of %u threads cannot be resident together; %u can", grid->blocks,
                        grid->threads, most);
    } else if (cu != CUDA_SUCCESS)
        st = symm__driver_fail(ctx->drv, cu, "cuLaunchKernelEx");
out:
    return st;
}

symm_status symm_launch(symm_group *group, symm_kernel *kernel, const symm_grid *grid,
                        const void *args, size_t nbytes, symm_stream stream)
{
    struct symm_call call;
    symm_status st;

    TRY(symm__enter(group, "symm_launch"));
    st = check_grid(group, kernel, grid);
    if (st == SYMM_OK)
        st = check_args(group, kernel, args, nbytes);
    if (st != SYMM_OK)
        return symm__fail_on(SYMM_ON(group), st, "symm_launch: ");
    TRY(symm__call_begin(&call, group, stream, false, "symm_launch(%s, %u blocks, %u threads)",
                         kernel->name, grid->blocks, grid->threads));
    st = symm__call_end(&call, launch(&call, kernel, grid, args));
out:
    return st;
}
