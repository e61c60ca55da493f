/*
 * Loading kernels. Everything is loaded eagerly: the first launch of a kernel that is not may wait
 * for the device to drain, and the device may be waiting for that very launch.
 */
#include "runtime/api/launch.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <symm/detail/emulated.h>
#include <symm/detail/image.h>
#include "call.h"

extern const struct symm_image symm__image; /* the library's own kernels: symm_add_kernels() */

struct symm_kernels {
    CUmodule module;
    CUfunction functions[SYMM_KERNEL_COUNT];
};

static const char *const names[SYMM_KERNEL_COUNT] = {
#define SYMM_KERNEL_NAME_(name, args, threads, blocks, body) #name,
    SYMM_KERNELS(SYMM_KERNEL_NAME_, SYMM_KERNEL_NAME_)
#undef SYMM_KERNEL_NAME_
};

static symm_status load_module(const struct symm_driver *drv, const struct symm_image *image,
                               CUmodule *out)
{
    const void *code;
    symm_status st;
    CUresult cu;

    if (image->abi != SYMM_IMAGE_ABI)
        return symm__fail(SYMM_ERROR_VERSION, "the image has interface %u, this library %u",
                          image->abi, SYMM_IMAGE_ABI);
    code = symm__driver_image(drv, image);
    if (!code)
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "the image was built without code for the %s driver", drv->name);
    cu = drv->cuModuleLoadData(out, code);
    if (cu == CUDA_SUCCESS)
        return SYMM_OK;
    st = symm__driver_fail(drv, cu, "cuModuleLoadData");
    if (cu != CUDA_ERROR_NO_BINARY_FOR_GPU)
        return st;
    return symm__fail(SYMM_ERROR_UNSUPPORTED, "%s: the image has no code for this device",
                      symm__failure_text());
}

static symm_status load_function(const struct symm_driver *drv, CUmodule module, const char *name,
                                 CUfunction *out, int *max_threads)
{
    CUresult cu = drv->cuModuleGetFunction(out, module, name);
    symm_status st = SYMM_OK;

    if (cu == CUDA_ERROR_NOT_FOUND)
        return symm__fail(SYMM_ERROR_ARGUMENT, "the image has no kernel \"%s\"", name);
    if (cu != CUDA_SUCCESS)
        return symm__driver_fail(drv, cu, "cuModuleGetFunction");
    if (drv->cuFuncLoad)
        TRY_CU(drv, cuFuncLoad, *out);
    /* On drivers without cuFuncLoad this loads it, too. */
    TRY_CU(drv, cuFuncGetAttribute, max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, *out);
out:
    return st;
}

symm_status symm__kernels_load(struct symm_context *ctx, struct symm_kernels **out)
{
    struct symm_kernels *kernels = calloc(1, sizeof *kernels);
    int max_threads;
    symm_status st;

    if (!kernels)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    TRY(load_module(ctx->drv, &symm__image, &kernels->module));
    for (int id = 0; id < SYMM_KERNEL_COUNT; id++)
        TRY(load_function(ctx->drv, kernels->module, names[id], &kernels->functions[id],
                          &max_threads));
    *out = kernels;
    kernels = NULL;
out:
    if (kernels && kernels->module)
        ctx->drv->cuModuleUnload(kernels->module);
    free(kernels);
    return st == SYMM_OK ? SYMM_OK : symm__fail_in(st, "loading the library's kernels: ");
}

symm_status symm__kernels_unload(struct symm_context *ctx, struct symm_kernels *kernels)
{
    symm_status st = SYMM_OK;

    if (!kernels)
        return SYMM_OK;
    if (kernels->module)
        symm__driver_note(ctx->drv, ctx->drv->cuModuleUnload(kernels->module), "cuModuleUnload",
                          &st);
    free(kernels);
    return st;
}

CUfunction symm__kernels_function(const struct symm_kernels *kernels, enum symm_kernel_id id)
{
    return kernels->functions[id];
}

const char *symm__kernels_name(enum symm_kernel_id id)
{
    return names[id];
}

/* ---------------------------------------------------------------------------------- users' */

/*
 * What the image's emulated half says of the kernel's argument. The size is that of GPU code, too,
 * unless the source says otherwise: only the emulated driver goes by it.
 */
static void describe(struct symm_kernel *kernel, const struct symm_image *image, const char *name)
{
    const struct symm_emulated_module *module = image->emulated;

    if (!module)
        return;
    for (const struct symm_emulated_kernel *const *k = module->first; k < module->last; k++) {
        if (!*k || strcmp((*k)->name, name) != 0)
            continue;
        if (symm__driver_image(kernel->ctx->drv, image) == (const void *)module)
            kernel->args_nbytes = (*k)->args_nbytes;
        if (module->kernel_nbytes >= offsetof(struct symm_emulated_kernel, reserved))
            kernel->view_at = (*k)->view_at;
    }
}

symm_status symm_kernel_load(symm_context *ctx, const symm_image *image, const char *name,
                             symm_kernel **out)
{
    struct symm_kernel *kernel = NULL;
    CUcontext popped;
    symm_status st;

    if (!ctx || !image || !name || !out)
        return symm__fail(SYMM_ERROR_ARGUMENT, "symm_kernel_load: %s is NULL",
                          !ctx     ? "the context"
                          : !image ? "image"
                          : !name  ? "name"
                                   : "out");
    if (symm__forked(ctx))
        return symm__fail(SYMM_ERROR_STATE, "symm_kernel_load: this is a forked child");
    CUresult cu = ctx->drv->cuCtxPushCurrent(ctx->primary);
    if (cu != CUDA_SUCCESS)
        return symm__fail_in(symm__driver_fail(ctx->drv, cu, "cuCtxPushCurrent"),
                             "symm_kernel_load: ");
    kernel = calloc(1, sizeof *kernel);
    if (!kernel) {
        st = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
        goto out;
    }
    kernel->ctx = ctx;
    kernel->smem_nbytes = SYMM_SMEM_FREE;
    describe(kernel, image, name);
    TRY(load_module(ctx->drv, image, &kernel->module));
    TRY(load_function(ctx->drv, kernel->module, name, &kernel->function, &kernel->max_threads));
    pthread_mutex_lock(&ctx->owned_lock);
    kernel->next = ctx->user_kernels;
    ctx->user_kernels = kernel;
    pthread_mutex_unlock(&ctx->owned_lock);
    *out = kernel;
    kernel = NULL;
out:
    if (kernel && kernel->module)
        ctx->drv->cuModuleUnload(kernel->module);
    free(kernel);
    ctx->drv->cuCtxPopCurrent(&popped);
    return st == SYMM_OK ? SYMM_OK
                         : symm__fail_on(ctx->join.rank, st, "symm_kernel_load: \"%s\": ", name);
}

void symm_kernel_unload(symm_kernel *kernel)
{
    struct symm_context *ctx;
    CUcontext popped;

    if (!kernel || symm__forked(kernel->ctx))
        return;
    ctx = kernel->ctx;
    pthread_mutex_lock(&ctx->owned_lock);
    for (struct symm_kernel **at = &ctx->user_kernels; *at; at = &(*at)->next)
        if (*at == kernel) {
            *at = kernel->next;
            break;
        }
    pthread_mutex_unlock(&ctx->owned_lock);
    if (ctx->drv->cuCtxPushCurrent(ctx->primary) == CUDA_SUCCESS) {
        ctx->drv->cuModuleUnload(kernel->module);
        ctx->drv->cuCtxPopCurrent(&popped);
    }
    free(kernel);
}
