/*
 * Modules and functions. An image is a list of kernels compiled for the emulated driver. Loading it
 * sets the table of functions with which its kernels call the driver.
 */
#include "module.h"

#include <stdlib.h>
#include <string.h>
#include "emulator/blocks/grid.h"
#include "emulator/hopper/hopper.h"
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"
#include "emulator/state/handle.h"
#include "emulator/state/machine.h"
#include "capture.h"
#include "execution.h"

/* The limit without CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES. */
#define SHARED_NBYTES_UNASKED (48u << 10)

static bool is_image(const struct symm_emulated_module *image)
{
    return image && memcmp(image->magic, SYMM_EMULATED_MAGIC, sizeof image->magic) == 0;
}

/* Whether functions are loaded with their module, by the driver's environment variable. */
static bool loads_eagerly(void)
{
    const char *mode = getenv("CUDA_MODULE_LOADING");
    return mode && strcmp(mode, "EAGER") == 0;
}

static void remove_functions(struct CUmod_st *module, size_t n)
{
    for (size_t i = 0; i < n; i++)
        emu__handle_remove(EMU_HANDLE_FUNCTION, &module->functions[i]);
}

static bool add_functions(struct CUmod_st *module)
{
    bool loaded = loads_eagerly();
    for (size_t i = 0; i < module->nfunctions; i++) {
        struct CUfunc_st *function = &module->functions[i];
        function->module = module;
        function->kernel = module->image->first[i];
        atomic_init(&function->shared_nbytes, SHARED_NBYTES_UNASKED);
        atomic_init(&function->loaded, loaded);
        if (!emu__handle_add(EMU_HANDLE_FUNCTION, function)) {
            remove_functions(module, i);
            return false;
        }
    }
    return true;
}

static struct CUmod_st *module_create(const struct symm_emulated_module *image)
{
    size_t n = (size_t)(image->last - image->first);
    struct CUmod_st *module = calloc(1, sizeof *module + n * sizeof module->functions[0]);
    if (!module)
        return NULL;
    module->references = 1;
    module->device = emu__device_current();
    module->image = image;
    module->nfunctions = n;
    if (!add_functions(module)) {
        free(module);
        return NULL;
    }
    if (!emu__handle_add(EMU_HANDLE_MODULE, module)) {
        remove_functions(module, n);
        free(module);
        return NULL;
    }
    return module;
}

void emu__module_release(struct CUmod_st *module)
{
    if (atomic_fetch_sub(&module->references, 1) == 1)
        free(module);
}

CUresult emu_cuModuleLoadData(CUmodule *module, const void *image)
{
    EMU_BEGIN_HEALTHY("image=%p", image);
    EMU_NOT_NULL(module);
    EMU_TRY(emu__capture_forbids());
    const struct symm_emulated_module *table = image;
    if (!is_image(table))
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_IMAGE, "not an image for the emulated driver"));
    if (table->abi != SYMM_EMULATED_ABI)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_IMAGE, "the image has version %u, not %u",
                                 table->abi, SYMM_EMULATED_ABI));
    struct CUmod_st *created = module_create(table);
    if (!created)
        return EMU_END(CUDA_ERROR_OUT_OF_MEMORY);
    emu__block_catch_faults();
    /* Ranks that are threads load one image, while kernels of the other ranks read this. */
    const struct symm_emulated_ops *ops = &emu__block_ops[emu__machine.early][emu__machine.weak];
    if (__atomic_load_n(table->ops, __ATOMIC_ACQUIRE) != ops)
        __atomic_store_n(table->ops, ops, __ATOMIC_RELEASE);
    if (table->hopper && __atomic_load_n(table->hopper, __ATOMIC_ACQUIRE) != &emu__hopper_ops)
        __atomic_store_n(table->hopper, &emu__hopper_ops, __ATOMIC_RELEASE);
    emu__count(EMU_MODULES, 1);
    *module = created;
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuModuleUnload(CUmodule module)
{
    EMU_BEGIN("module=%p", (void *)module);
    EMU_TRY(emu__capture_forbids());
    EMU_TRY(emu__handle_check(EMU_HANDLE_MODULE, module));
    struct emu_execution *execution = emu__execution(module->device);
    if (execution && emu__execution_uses(execution, module))
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE,
                                 "unloads a module while one of its kernels runs or is enqueued"));
    struct emu_device *device = module->device;
    emu__handle_remove(EMU_HANDLE_MODULE, module);
    remove_functions(module, module->nfunctions);
    atomic_store(&module->unloaded, true);
    emu__module_release(module);
    emu__count(EMU_MODULES, -1);
    return EMU_END(atomic_load(&device->sticky));
}

CUresult emu_cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    EMU_BEGIN_HEALTHY("module=%p name=%s", (void *)module, name ? name : "");
    EMU_NOT_NULL(function);
    EMU_NOT_NULL(name);
    EMU_TRY(emu__handle_check(EMU_HANDLE_MODULE, module));
    for (size_t i = 0; i < module->nfunctions; i++)
        if (strcmp(module->functions[i].kernel->name, name) == 0) {
            *function = &module->functions[i];
            return EMU_END(CUDA_SUCCESS);
        }
    return EMU_END(CUDA_ERROR_NOT_FOUND);
}

int emu__function_max_threads(const struct CUfunc_st *function)
{
    int own = (int)function->kernel->max_threads, machine = emu__machine.max_block_threads;
    return own > 0 && own < machine ? own : machine;
}

CUresult emu_cuFuncLoad(CUfunction function)
{
    EMU_BEGIN_HEALTHY("function=%p", (void *)function);
    CUresult result = emu__handle_check(EMU_HANDLE_FUNCTION, function);
    if (result == CUDA_SUCCESS)
        atomic_store(&function->loaded, true);
    return EMU_END(result);
}

CUresult emu_cuFuncGetAttribute(int *value, int attribute, CUfunction function)
{
    EMU_BEGIN_HEALTHY("attribute=%d function=%p", attribute, (void *)function);
    EMU_NOT_NULL(value);
    EMU_TRY(emu__handle_check(EMU_HANDLE_FUNCTION, function));
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = emu__function_max_threads(function);
        break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = 0;
        break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = (int)atomic_load(&function->shared_nbytes);
        break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        /* Without a limit: a plausible number. Blocks take what their kernel's bounds allow. */
        *value = function->kernel->registers ? (int)function->kernel->registers : 32;
        break;
    default:
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "attribute %d is unknown", attribute));
    }
    atomic_store(&function->loaded, true);
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuFuncSetAttribute(CUfunction function, int attribute, int value)
{
    EMU_BEGIN_HEALTHY("function=%p attribute=%d value=%d", (void *)function, attribute, value);
    EMU_TRY(emu__handle_check(EMU_HANDLE_FUNCTION, function));
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
        return EMU_END(
            emu__rule(CUDA_ERROR_INVALID_VALUE, "attribute %d cannot be set", attribute));
    if (value < 0 || value > (int)EMU_SHARED_NBYTES)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE,
                                 "%d bytes of shared memory; a block has at most %u", value,
                                 EMU_SHARED_NBYTES));
    atomic_store(&function->shared_nbytes, (uint32_t)value);
    atomic_store(&function->loaded, true);
    return EMU_END(CUDA_SUCCESS);
}

CUresult emu_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *nblocks, CUfunction function,
                                                         int threads, size_t smem_nbytes)
{
    EMU_BEGIN_HEALTHY("function=%p threads=%d smem=%zu", (void *)function, threads, smem_nbytes);
    EMU_NOT_NULL(nblocks);
    CUresult result = threads > 0
                          ? emu__handle_check(EMU_HANDLE_FUNCTION, function)
                          : emu__rule(CUDA_ERROR_INVALID_VALUE, "blocks of %d threads", threads);
    if (result == CUDA_SUCCESS)
        *nblocks = threads > emu__function_max_threads(function) ||
                           smem_nbytes > atomic_load(&function->shared_nbytes)
                       ? 0
                       : emu__blocks_per_sm(function->kernel, (unsigned)threads, smem_nbytes);
    return EMU_END(result);
}
