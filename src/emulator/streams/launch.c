/* cuLaunchKernelEx: checks a launch as the driver does, copies its argument and enqueues it. */
#include <stdlib.h>
#include <string.h>
#include "emulator/state/call.h"
#include "emulator/state/clock.h"
#include "emulator/state/devices.h"
#include "emulator/state/handle.h"
#include "emulator/state/machine.h"
#include "emulator/blocks/cluster.h"
#include "module.h"
#include "nodes.h"
#include "queue.h"

#define GRID_X_MAX 2147483647u
#define GRID_YZ_MAX 65535u
#define BLOCK_Z_MAX 64u
#define ARGS_ALIGNMENT 64u /* of tensor maps */

struct launch_work {
    struct emu_work work;
    struct CUmod_st *module;
    const struct symm_emulated_kernel *kernel;
    struct symm_emulated_dim grid_dim, block_dim, cluster_dim;
    size_t shared_nbytes;
    bool cooperative;
    int priority;
    _Alignas(ARGS_ALIGNMENT) char args[];
};

static struct emu_grid grid_of(const struct launch_work *w, const struct CUstream_st *stream)
{
    return (struct emu_grid){.kernel = w->kernel,
                             .static_shared = w->module->image->static_shared,
                             .args = w->args,
                             .grid_dim = w->grid_dim,
                             .block_dim = w->block_dim,
                             .cluster_dim = w->cluster_dim,
                             .shared_nbytes = w->shared_nbytes,
                             .cooperative = w->cooperative,
                             .priority = emu__stream_priorities ? stream->priority : w->priority};
}

/*
 * Runs the kernel, and each one behind it that may begin early: when all blocks of the kernel in
 * front of it allow it. At most two kernels run at a time. A kernel's blocks look at the one before
 * it as long as they run, hence the third place.
 */
static void run_with_early_ones(const struct launch_work *first, struct CUstream_st *stream)
{
    enum { PLACES = 3 };
    struct emu_sms *sms = stream->execution->sms;
    struct emu_grid grids[PLACES] = {grid_of(first, stream)}, *grid = grids;
    int at = 0;
    emu__grid_begin(sms, grid);
    while (!emu__grid_await(grid)) {
        const struct emu_work *next =
            emu__grid_released(grid) ? emu__stream_take_early(stream) : NULL;
        if (!next)
            continue;
        if (grid->before)
            emu__grid_end(grid->before);
        at = (at + 1) % PLACES;
        grids[at] = grid_of((const struct launch_work *)next, stream);
        grids[at].before = grid;
        grid = &grids[at];
        emu__grid_begin(sms, grid);
    }
    if (grid->before)
        emu__grid_end(grid->before);
    emu__grid_end(grid);
}

static void launch_run(struct emu_work *work, struct CUstream_st *stream)
{
    const struct launch_work *w = (struct launch_work *)work;
    struct emu_execution *execution = stream->execution;
    if (atomic_load(&w->module->unloaded)) {
        emu__rule_at(execution->device->ordinal, w->kernel->name, CUDA_ERROR_ILLEGAL_ADDRESS,
                     "a graph runs a kernel whose module was unloaded");
        emu__device_fail(execution->device, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
    }
    if (emu__machine.early && emu__stream_runs(stream, work)) {
        run_with_early_ones(w, stream);
        return;
    }
    struct emu_grid grid = grid_of(w, stream);
    emu__grid_run(execution->sms, &grid);
}

static bool launch_uses(const struct emu_work *work, const struct CUmod_st *module)
{
    return ((const struct launch_work *)work)->module == module;
}

static void launch_destroy(struct emu_work *work)
{
    struct launch_work *w = (struct launch_work *)work;
    emu__module_release(w->module);
    free(w);
}

/* What the attributes of a launch say. */
struct launch_attributes {
    bool cooperative, early;
    struct symm_emulated_dim cluster;
};

static struct emu_work *launch_create(const CUlaunchConfig *config, CUfunction function,
                                      const struct launch_attributes *attributes, int priority,
                                      void **params)
{
    size_t nbytes = function->kernel->args_nbytes,
           room = (sizeof(struct launch_work) + nbytes + ARGS_ALIGNMENT - 1) / ARGS_ALIGNMENT *
                  ARGS_ALIGNMENT;
    struct launch_work *w = aligned_alloc(ARGS_ALIGNMENT, room);
    if (!w)
        return NULL;
    memset(w, 0, room);
    w->work = (struct emu_work){.references = 1,
                                .run = launch_run,
                                .destroy = launch_destroy,
                                .uses = launch_uses,
                                .early = attributes->early};
    w->module = function->module;
    atomic_fetch_add(&w->module->references, 1);
    w->kernel = function->kernel;
    w->grid_dim = (struct symm_emulated_dim){config->gridDimX, config->gridDimY, config->gridDimZ};
    w->block_dim =
        (struct symm_emulated_dim){config->blockDimX, config->blockDimY, config->blockDimZ};
    w->shared_nbytes = config->sharedMemBytes;
    w->cluster_dim = attributes->cluster;
    w->cooperative = attributes->cooperative;
    w->priority = priority;
    if (nbytes > 0)
        memcpy(w->args, params[0], nbytes);
    return &w->work;
}

/* How many blocks of the launch the device holds. */
static unsigned resident_blocks(const CUlaunchConfig *config, CUfunction function)
{
    unsigned nthreads = config->blockDimX * config->blockDimY * config->blockDimZ;
    return (unsigned)(emu__machine.sms *
                      emu__blocks_per_sm(function->kernel, nthreads, config->sharedMemBytes));
}

static CUresult check_shape(const CUlaunchConfig *config, CUfunction function)
{
    unsigned gx = config->gridDimX, gy = config->gridDimY, gz = config->gridDimZ;
    unsigned bx = config->blockDimX, by = config->blockDimY, bz = config->blockDimZ;
    unsigned limit = (unsigned)emu__function_max_threads(function);
    if (!gx || !gy || !gz || gx > GRID_X_MAX || gy > GRID_YZ_MAX || gz > GRID_YZ_MAX)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "a grid of %ux%ux%u blocks", gx, gy, gz);
    if (!bx || !by || !bz || bz > BLOCK_Z_MAX || (uint64_t)bx * by > limit ||
        (uint64_t)bx * by * bz > limit)
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "blocks of %ux%ux%u threads; %s may have at most %u", bx, by, bz,
                         function->kernel->name, limit);
    if (config->sharedMemBytes > EMU_SHARED_NBYTES)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "%u bytes of shared memory, more than %u",
                         config->sharedMemBytes, EMU_SHARED_NBYTES);
    if (config->sharedMemBytes > atomic_load(&function->shared_nbytes))
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "%u bytes of shared memory; %s may have %u: set "
                         "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES first",
                         config->sharedMemBytes, function->kernel->name,
                         atomic_load(&function->shared_nbytes));
    if (resident_blocks(config, function) == 0)
        return emu__rule(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                         "blocks of %ux%ux%u threads; an SM has too few registers for one of %s",
                         bx, by, bz, function->kernel->name);
    return CUDA_SUCCESS;
}

/* Of a cluster, all blocks run at the same time. */
static CUresult check_cluster_fits(const CUlaunchConfig *config, CUfunction function,
                                   unsigned nblocks)
{
    unsigned fit = resident_blocks(config, function);
    if (nblocks <= fit)
        return CUDA_SUCCESS;
    return emu__rule(CUDA_ERROR_INVALID_CLUSTER_SIZE, "a cluster of %u blocks, of which %u fit",
                     nblocks, fit);
}

static CUresult check_cluster(const CUlaunchConfig *config, CUfunction function,
                              const CUlaunchAttribute *attribute)
{
    unsigned x = attribute->value.clusterDim.x, y = attribute->value.clusterDim.y,
             z = attribute->value.clusterDim.z;
    if (!x || !y || !z || (uint64_t)x * y > EMU_CLUSTER_MAX ||
        (uint64_t)x * y * z > EMU_CLUSTER_MAX)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "a cluster of %ux%ux%u blocks", x, y, z);
    if (config->gridDimX % x || config->gridDimY % y || config->gridDimZ % z)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "the grid is no multiple of the cluster");
    return check_cluster_fits(config, function, x * y * z);
}

static CUresult check_attributes(const CUlaunchConfig *config, CUfunction function,
                                 struct launch_attributes *out)
{
    if (config->numAttrs > 0 && !config->attrs)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "config->attrs is NULL");
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *attribute = &config->attrs[i];
        CUresult result = CUDA_SUCCESS;
        switch (attribute->id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            out->cooperative = attribute->value.cooperative != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            result = check_cluster(config, function, attribute);
            out->cluster = (struct symm_emulated_dim){attribute->value.clusterDim.x,
                                                      attribute->value.clusterDim.y,
                                                      attribute->value.clusterDim.z};
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            out->early = attribute->value.programmaticStreamSerializationAllowed != 0;
            break;
        default:
            result = emu__rule(CUDA_ERROR_NOT_SUPPORTED, "launch attribute %d is unknown",
                               attribute->id);
        }
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

static CUresult check_cooperative(const CUlaunchConfig *config, CUfunction function)
{
    uint64_t nblocks = (uint64_t)config->gridDimX * config->gridDimY * config->gridDimZ;
    unsigned fit = resident_blocks(config, function);
    if (nblocks <= fit)
        return CUDA_SUCCESS;
    return emu__rule(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                     "a cooperative grid of %llu blocks, of which %u fit",
                     (unsigned long long)nblocks, fit);
}

/* Loads a function at its first launch, which waits until the device is idle. */
static void load(struct CUstream_st *stream, CUfunction function)
{
    if (atomic_load(&function->loaded))
        return;
    if (!emu__execution_wait_ms(stream->execution, EMU_PATIENCE_MS)) {
        emu__rule(CUDA_SUCCESS,
                  "the first launch of %s waits until the device is idle: load functions before "
                  "work that waits for them",
                  function->kernel->name);
        emu__execution_wait(stream->execution);
    }
    atomic_store(&function->loaded, true);
}

static CUresult launch(const CUlaunchConfig *config, CUfunction function, void **params)
{
    struct CUstream_st *stream;
    struct launch_attributes attributes = {.cluster = {1, 1, 1}};
    CUresult result = emu__stream_get(config->hStream, true, &stream);
    if (result == CUDA_SUCCESS)
        result = emu__handle_check(EMU_HANDLE_FUNCTION, function);
    if (result == CUDA_SUCCESS && function->module->device != stream->execution->device)
        result = emu__rule(CUDA_ERROR_INVALID_HANDLE, "the function belongs to device %d",
                           function->module->device->ordinal);
    if (result == CUDA_SUCCESS)
        result = check_shape(config, function);
    if (result == CUDA_SUCCESS)
        result = check_attributes(config, function, &attributes);
    if (result == CUDA_SUCCESS && attributes.cooperative)
        result = check_cooperative(config, function);
    if (result != CUDA_SUCCESS)
        return result;
    load(stream, function);
    struct emu_work *work = launch_create(config, function, &attributes, stream->priority, params);
    return work ? emu__stream_enqueue(stream, work) : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool may_begin_early(const CUlaunchConfig *config)
{
    for (unsigned i = 0; config && config->attrs && i < config->numAttrs; i++)
        if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
            return config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
    return false;
}

CUresult emu_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params,
                              void **extra)
{
    EMU_BEGIN_HEALTHY("function=%p grid=%u,%u,%u block=%u,%u,%u early=%d stream=%p",
                      (void *)function, config ? config->gridDimX : 0,
                      config ? config->gridDimY : 0, config ? config->gridDimZ : 0,
                      config ? config->blockDimX : 0, config ? config->blockDimY : 0,
                      config ? config->blockDimZ : 0, may_begin_early(config),
                      config ? (void *)config->hStream : NULL);
    if (extra)
        return EMU_END(
            emu__rule(CUDA_ERROR_NOT_SUPPORTED, "extra is set: arguments go through params"));
    EMU_NOT_NULL(config);
    EMU_NOT_NULL(params);
    EMU_NOT_NULL(params[0]);
    return EMU_END(launch(config, function, params));
}
