/* Calls the driver without symm in between. */
#include "bare_launch.h"

#include <stdlib.h>
#include <string.h>
#include <symm/detail/image.h>
#include "abi/cuda_driver.h"
#include "bare_launch_args.h"
#include "common/driver.h"

extern const symm_image bare_launch_kernels;

enum { THREADS = 128 };

struct bare_launch {
    CUresult (*load)(CUmodule *module, const void *image);
    CUresult (*find)(CUfunction *function, CUmodule module, const char *name);
    CUresult (*launch)(const CUlaunchConfig *config, CUfunction function, void **params,
                       void **extra);
    CUresult (*unload)(CUmodule module);
    CUmodule module;
    CUfunction function;
};

/* ISO C converts a void * to a function only by a copy. */
#define LOOK_UP(ctx, field, name)                                                                  \
    look_up(symm_context_driver_symbol((ctx), (name)), &(field), sizeof(field))

static bool look_up(void *symbol, void *field, size_t nbytes)
{
    memcpy(field, &symbol, nbytes);
    return symbol != NULL;
}

struct bare_launch *bare_launch_open(symm_context *ctx)
{
    const void *image = driver_is_emulated(ctx) ? (const void *)bare_launch_kernels.emulated
                                                : bare_launch_kernels.fatbin;
    struct bare_launch *bare = calloc(1, sizeof *bare);

    if (bare && image && LOOK_UP(ctx, bare->load, "cuModuleLoadData") &&
        LOOK_UP(ctx, bare->find, "cuModuleGetFunction") &&
        LOOK_UP(ctx, bare->launch, "cuLaunchKernelEx") &&
        LOOK_UP(ctx, bare->unload, "cuModuleUnload") && bare->load(&bare->module, image) == 0 &&
        bare->find(&bare->function, bare->module, "bare_launch") == 0)
        return bare;
    bare_launch_close(bare);
    return NULL;
}

symm_status bare_launch_enqueue(const struct bare_launch *bare, symm_stream stream)
{
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value.programmaticStreamSerializationAllowed = 1};
    const CUlaunchConfig config = {1, 1, 1, THREADS, 1, 1, 0, stream, &early, 1};
    bare_launch_args args = {.view = {.abi = 0}};
    void *params[] = {&args};

    return bare->launch(&config, bare->function, params, NULL) == CUDA_SUCCESS ? SYMM_OK
                                                                               : SYMM_ERROR_DRIVER;
}

void bare_launch_close(struct bare_launch *bare)
{
    if (bare && bare->module)
        bare->unload(bare->module);
    free(bare);
}
