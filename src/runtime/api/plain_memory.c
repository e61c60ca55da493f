/* Plain memory of the device and the host, copies and fills: thin wrappers of the open driver. */
#include <symm/stream.h>

#include <stdlib.h>
#include "scope.h"

static void list(struct symm_context *ctx, struct symm_plain_block *block)
{
    pthread_mutex_lock(&ctx->owned_lock);
    block->next = ctx->plain_blocks;
    ctx->plain_blocks = block;
    pthread_mutex_unlock(&ctx->owned_lock);
}

/* NULL: the context has no such block. */
static struct symm_plain_block *unlist(struct symm_context *ctx, bool on_host, const void *ptr)
{
    struct symm_plain_block *block = NULL;

    pthread_mutex_lock(&ctx->owned_lock);
    for (struct symm_plain_block **at = &ctx->plain_blocks; *at; at = &(*at)->next)
        if ((*at)->ptr == ptr && (*at)->on_host == on_host) {
            block = *at;
            *at = block->next;
            break;
        }
    pthread_mutex_unlock(&ctx->owned_lock);
    return block;
}

/* Takes memory of the device or of the host, which the context owns. */
static symm_status take(struct symm_scope *s, struct symm_context *ctx, bool on_host, size_t nbytes,
                        void **out)
{
    struct symm_plain_block *block = NULL;
    CUdeviceptr device = 0;
    symm_status st;

    TRY(symm__need(out, "out"));
    if (nbytes == 0)
        return symm__fail(SYMM_ERROR_ARGUMENT, "nbytes is 0");
    TRY(symm__scope_begin_in(s, ctx));
    block = calloc(1, sizeof *block);
    if (!block)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    block->on_host = on_host;
    if (on_host) {
        TRY_CU(s->drv, cuMemHostAlloc, &block->ptr, nbytes,
               CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    } else {
        TRY_CU(s->drv, cuMemAlloc, &device, nbytes);
        block->ptr = (void *)(uintptr_t)device;
    }
    *out = block->ptr;
    list(ctx, block);
    block = NULL;
out:
    free(block);
    return st;
}

/* If the driver refuses, as in a capture, the context still owns the block. */
static void give_back(struct symm_context *ctx, bool on_host, const void *ptr)
{
    struct symm_plain_block *block;
    struct symm_scope s = {.drv = NULL};
    CUresult cu;

    if (!ctx || !ptr || symm__scope_begin_in(&s, ctx) != SYMM_OK)
        return;
    block = unlist(ctx, on_host, ptr);
    if (block) {
        cu = on_host ? s.drv->cuMemFreeHost(block->ptr)
                     : s.drv->cuMemFree((CUdeviceptr)(uintptr_t)block->ptr);
        if (cu == CUDA_SUCCESS)
            free(block);
        else
            list(ctx, block);
    }
    symm__scope_end(&s, SYMM_OK, __func__);
}

symm_status symm_device_alloc(symm_context *ctx, size_t nbytes, void **out)
{
    struct symm_scope s = {.drv = NULL};

    return symm__scope_end(&s, take(&s, ctx, false, nbytes, out), __func__);
}

void symm_device_free(symm_context *ctx, void *ptr)
{
    give_back(ctx, false, ptr);
}

symm_status symm_host_alloc(symm_context *ctx, size_t nbytes, void **out)
{
    struct symm_scope s = {.drv = NULL};

    return symm__scope_end(&s, take(&s, ctx, true, nbytes, out), __func__);
}

void symm_host_free(symm_context *ctx, void *ptr)
{
    give_back(ctx, true, ptr);
}

symm_status symm_copy(void *dst, const void *src, size_t nbytes, symm_stream stream)
{
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    if (nbytes > 0) {
        TRY(symm__need(dst, "dst"));
        TRY(symm__need(src, "src"));
    }
    TRY(symm__scope_begin(&s, stream));
    if (nbytes == 0)
        goto out;
    const CUresult cu = s.drv->cuMemcpyAsync((CUdeviceptr)(uintptr_t)dst,
                                             (CUdeviceptr)(uintptr_t)src, nbytes, stream);
    if (cu != CUDA_SUCCESS)
        st = symm__fail_in(symm__driver_fail(s.drv, cu, "cuMemcpyAsync"),
                           "dst %p, src %p, %zu bytes: ", dst, src, nbytes);
out:
    return symm__scope_end(&s, st, __func__);
}

symm_status symm_fill(void *dst, int byte, size_t nbytes, symm_stream stream)
{
    struct symm_scope s = {.drv = NULL};
    symm_status st;

    if (nbytes > 0)
        TRY(symm__need(dst, "dst"));
    TRY(symm__scope_begin(&s, stream));
    if (nbytes == 0)
        goto out;
    const CUresult cu =
        s.drv->cuMemsetD8Async((CUdeviceptr)(uintptr_t)dst, (unsigned char)byte, nbytes, stream);
    if (cu != CUDA_SUCCESS)
        st = symm__fail_in(symm__driver_fail(s.drv, cu, "cuMemsetD8Async"),
                           "dst %p, %zu bytes: ", dst, nbytes);
out:
    return symm__scope_end(&s, st, __func__);
}
