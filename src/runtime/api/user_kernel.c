/* Loads and unloads users' kernels. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/detail/emulated.h>
#include <symm/detail/image.h>
#include "runtime/group/call.h"
#include "launch.h"

enum { NAMED_KERNELS = 5 }; /* in a text */

/*
 * Reads size and view offset of the kernel's argument from the emulated half of the image. GPU code
 * normally has the same size, but only the emulated driver relies on it.
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
        if (module->kernel_nbytes >= offsetof(struct symm_emulated_kernel, registers))
            kernel->view_at = (*k)->view_at;
    }
}

/* Appends the names of the image's kernels, if it tells them, to a text about a wrong name. */
static symm_status name_kernels(const struct symm_image *image)
{
    const struct symm_emulated_module *module = image->emulated;
    char text[SYMM_TEXT_MAX];
    size_t used = (size_t)snprintf(text, sizeof text, "%.512s", symm__failure_text());
    int n = 0;

    for (const struct symm_emulated_kernel *const *k = module ? module->first : NULL;
         k && k < module->last && n <= NAMED_KERNELS; k++) {
        if (!*k)
            continue;
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%.64s",
                             n == 0 ? ": it has " : ", ", n < NAMED_KERNELS ? (*k)->name : "...");
        n++;
    }
    return symm__fail(SYMM_ERROR_ARGUMENT, "%s", text);
}

/* Keeps a copy of the name in the context; the same one for the same name. NULL: no memory. */
static const char *keep_name(struct symm_context *ctx, const char *name)
{
    struct symm_kernel_name *kept;

    pthread_mutex_lock(&ctx->owned_lock);
    for (kept = ctx->kernel_names; kept && strcmp(kept->text, name) != 0; kept = kept->next)
        ;
    if (!kept && (kept = malloc(sizeof *kept + strlen(name) + 1))) {
        strcpy(kept->text, name);
        kept->next = ctx->kernel_names;
        ctx->kernel_names = kept;
    }
    pthread_mutex_unlock(&ctx->owned_lock);
    return kept ? kept->text : NULL;
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
        return symm__fail(SYMM_ERROR_STATE, "symm_kernel_load: " SYMM_GONE("context"));
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
    TRY(symm__module_load(ctx->drv, image, &kernel->module));
    st = symm__function_load(ctx->drv, kernel->module, name, &kernel->function,
                             &kernel->max_threads);
    TRY(st == SYMM_ERROR_ARGUMENT ? name_kernels(image) : st);
    kernel->name = keep_name(ctx, name);
    if (!kernel->name) {
        st = symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
        goto out;
    }
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
                         : symm__fail_on(ctx->join.world_rank, ctx->join.world_rank, st,
                                         "symm_kernel_load: \"%s\": ", name);
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
