/*
 * Loads kernels, eagerly. The first launch of a kernel that is not loaded may wait until the device
 * is idle. The device may be running a kernel that waits for this launch. The contexts of one
 * device share its loaded kernels.
 */
#include "kernel.h"

#include <pthread.h>
#include <stdlib.h>
#include <symm/detail/image.h>

#define DECLARE(name, set) extern const struct symm_kernel_list symm__##name##_kernels;
SYMM_IMAGES(DECLARE)

#define LIST(name, set) &symm__##name##_kernels,
static const struct symm_kernel_list *const lists[SYMM_IMAGE_COUNT] = {SYMM_IMAGES(LIST)};

#define SET(name, set) SYMM_IMAGES_##set,
static const enum symm_image_set sets[SYMM_IMAGE_COUNT] = {SYMM_IMAGES(SET)};

/* The kernels of a device, in its primary context. */
struct symm_kernels {
    struct symm_kernels *next;
    CUcontext primary;
    int ncontexts; /* that use them; under the lock of the list */
    pthread_mutex_t loading;
    CUmodule modules[SYMM_IMAGE_COUNT]; /* NULL: not loaded; under `loading` */
    CUfunction functions[SYMM_IMAGE_COUNT][SYMM_KERNELS_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct symm_kernels *devices;

symm_status symm__module_load(const struct symm_driver *drv, const struct symm_image *image,
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

symm_status symm__function_load(const struct symm_driver *drv, CUmodule module, const char *name,
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
    /* This also loads the kernel on drivers without cuFuncLoad. */
    TRY_CU(drv, cuFuncGetAttribute, max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, *out);
out:
    return st;
}

static symm_status load_list(const struct symm_driver *drv, const struct symm_kernel_list *list,
                             CUmodule *module, CUfunction *functions)
{
    CUmodule loaded = NULL;
    int max_threads;
    symm_status st;

    TRY(symm__module_load(drv, list->image, &loaded));
    for (int i = 0; i < list->count; i++)
        TRY(symm__function_load(drv, loaded, list->names[i], &functions[i], &max_threads));
    *module = loaded;
    loaded = NULL;
out:
    if (loaded)
        drv->cuModuleUnload(loaded);
    return st;
}

/* Adds a context to the kernels of its device, which may not be loaded yet. NULL: no memory. */
static struct symm_kernels *take(CUcontext primary)
{
    struct symm_kernels *kernels;

    pthread_mutex_lock(&lock);
    for (kernels = devices; kernels && kernels->primary != primary; kernels = kernels->next)
        ;
    if (!kernels && (kernels = calloc(1, sizeof *kernels))) {
        kernels->primary = primary;
        pthread_mutex_init(&kernels->loading, NULL);
        kernels->next = devices;
        devices = kernels;
    }
    if (kernels)
        kernels->ncontexts++;
    pthread_mutex_unlock(&lock);
    return kernels;
}

/* Removes a context; returns whether it was the last one, which has to free the kernels. */
static bool put_back(struct symm_kernels *kernels)
{
    bool last;

    pthread_mutex_lock(&lock);
    last = --kernels->ncontexts == 0;
    for (struct symm_kernels **at = &devices; *at && last; at = &(*at)->next)
        if (*at == kernels) {
            *at = kernels->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    return last;
}

static symm_status unload_images(const struct symm_driver *drv, struct symm_kernels *kernels)
{
    symm_status st = SYMM_OK;

    for (int m = 0; m < SYMM_IMAGE_COUNT; m++) {
        if (kernels->modules[m])
            symm__driver_note(drv, drv->cuModuleUnload(kernels->modules[m]), "cuModuleUnload", &st);
        kernels->modules[m] = NULL;
    }
    return st;
}

static void free_kernels(struct symm_kernels *kernels)
{
    pthread_mutex_destroy(&kernels->loading);
    free(kernels);
}

/* One context loads for all. If it fails, the next one tries again. */
symm_status symm__kernels_load(struct symm_context *ctx, struct symm_kernels *kernels,
                               enum symm_image_set set)
{
    symm_status st = SYMM_OK;

    pthread_mutex_lock(&kernels->loading);
    for (int m = 0; m < SYMM_IMAGE_COUNT && st == SYMM_OK; m++)
        if (sets[m] == set && !kernels->modules[m])
            st = load_list(ctx->drv, lists[m], &kernels->modules[m], kernels->functions[m]);
    pthread_mutex_unlock(&kernels->loading);
    return st == SYMM_OK ? SYMM_OK : symm__fail_in(st, "loading the library's kernels: ");
}

symm_status symm__kernels_open(struct symm_context *ctx, struct symm_kernels **out)
{
    struct symm_kernels *kernels = take(ctx->primary);
    symm_status st;

    if (!kernels)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    TRY(symm__kernels_load(ctx, kernels, SYMM_IMAGES_CALLS));
    if (!symm__driver_multicast_off(ctx->drv))
        TRY(symm__kernels_load(ctx, kernels, SYMM_IMAGES_MULTICAST));
    *out = kernels;
    kernels = NULL;
out:
    symm__kernels_close(ctx, kernels);
    return st;
}

symm_status symm__kernels_close(struct symm_context *ctx, struct symm_kernels *kernels)
{
    symm_status st = SYMM_OK;

    if (kernels && put_back(kernels)) {
        st = unload_images(ctx->drv, kernels);
        free_kernels(kernels);
    }
    return st;
}

CUfunction symm__kernels_function(const struct symm_kernels *kernels, symm_kernel_id id)
{
    return kernels->functions[id / SYMM_KERNELS_MAX][id % SYMM_KERNELS_MAX];
}

const char *symm__kernels_name(symm_kernel_id id)
{
    return lists[id / SYMM_KERNELS_MAX]->names[id % SYMM_KERNELS_MAX];
}
