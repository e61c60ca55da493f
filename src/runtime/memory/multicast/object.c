/* One rank's side of a multicast object. Empty in builds without multicast. */
#include "object.h"

#if SYMM_MULTICAST

#include <stdlib.h>

#include "runtime/base/fd.h"
#include "runtime/driver/watchdog.h"

/* As TRY_CU; also stores the result for the report. */
#define TRY_MC(mc, fn, ...)                                                                        \
    do {                                                                                           \
        const struct symm_driver *drv_ = (mc)->memory->config.drv;                                 \
        *result = drv_->fn(__VA_ARGS__);                                                           \
        if (*result != CUDA_SUCCESS) {                                                             \
            st = symm__driver_fail(drv_, *result, #fn);                                            \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

symm_status symm__multicast_object_create(struct symm_multicast *mc, int nranks, int *fd,
                                          CUresult *result)
{
    symm_status st = SYMM_OK;
    CUmulticastObjectProp prop = {
        .numDevices = (unsigned int)nranks,
        .size = mc->memory->config.window_nbytes,
        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    };
    int exported = -1;

    TRY_MC(mc, cuMulticastCreate, &mc->handle, &prop);
    TRY_MC(mc, cuMemExportToShareableHandle, &exported, mc->handle,
           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    TRY(symm__fd_cloexec(exported));
    *fd = exported;
    exported = -1;
out:
    symm__fd_close(&exported);
    return st;
}

symm_status symm__multicast_object_import(struct symm_multicast *mc, int fd, CUresult *result)
{
    symm_status st = SYMM_OK;

    if (fd < 0)
        return symm__fail(SYMM_ERROR_SYSTEM, "no descriptor came");
    TRY_MC(mc, cuMemImportFromShareableHandle, &mc->handle, (void *)(uintptr_t)fd,
           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
out:
    return st;
}

symm_status symm__multicast_object_add_device(struct symm_multicast *mc, CUresult *result)
{
    const struct symm_memory_config *c = &mc->memory->config;
    symm_status st = SYMM_OK;

    TRY_MC(mc, cuMulticastAddDevice, mc->handle, c->device);
out:
    return st;
}

/* Everything that the helper thread uses: copies, since it may outlive the caller. */
struct job {
    const struct symm_driver *drv;
    CUcontext ctx;
    CUdevice device;
    CUmemGenericAllocationHandle handle, own;
    CUdeviceptr base;
    uint64_t off, nbytes;
    bool mapped;
    CUresult result;
    const char *call; /* the failed call */
};

static void run_bind(void *arg)
{
    struct job *j = arg;

    j->call = "cuMulticastBindMem";
    j->result = j->drv->cuMulticastBindMem(j->handle, j->off, j->own, 0, j->nbytes, 0);
}

static void run_map(void *arg)
{
    struct job *j = arg;
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = j->device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };

    j->call = "cuCtxSetCurrent";
    j->result = j->drv->cuCtxSetCurrent(j->ctx);
    if (j->result != CUDA_SUCCESS)
        return;
    j->call = "cuMemMap";
    j->result = j->drv->cuMemMap(j->base, j->nbytes, 0, j->handle, 0);
    if (j->result != CUDA_SUCCESS)
        return;
    j->mapped = true;
    j->call = "cuMemSetAccess";
    j->result = j->drv->cuMemSetAccess(j->base, j->nbytes, &access, 1);
}

/* Runs a copy of *what as job. Copies it back to *what unless it was abandoned. */
static symm_status watched(struct symm_multicast *mc, void (*run)(void *), const char *blocking,
                           struct job *what, symm_deadline deadline, CUresult *result)
{
    bool late = false;
    struct job *j = malloc(sizeof *j);

    if (!j)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    *j = *what;
    symm_status st = symm__watch(run, free, j, deadline, &late);
    if (late) {
        mc->abandoned = true;
        return symm__fail(SYMM_ERROR_TIMEOUT, "%s has not returned from the driver", blocking);
    }
    *what = *j;
    free(j);
    if (st == SYMM_OK && what->result != CUDA_SUCCESS) {
        *result = what->result;
        st = symm__driver_fail(what->drv, what->result, what->call);
    }
    return st;
}

symm_status symm__multicast_object_bind(struct symm_multicast *mc,
                                        struct symm_segment *const *segments, size_t n,
                                        size_t *nbound, symm_deadline deadline, CUresult *result)
{
    symm_status st = SYMM_OK;

    for (; *nbound < n && st == SYMM_OK; *nbound += st == SYMM_OK) {
        const struct symm_segment *s = segments[*nbound];
        struct job j = {.drv = mc->memory->config.drv,
                        .handle = mc->handle,
                        .own = s->own,
                        .off = s->off,
                        .nbytes = s->nbytes};
        st = watched(mc, run_bind, "cuMulticastBindMem", &j, deadline, result);
    }
    return st;
}

symm_status symm__multicast_object_map(struct symm_multicast *mc, symm_deadline deadline,
                                       CUresult *result)
{
    const struct symm_memory_config *c = &mc->memory->config;
    symm_status st = SYMM_OK;
    struct job j = {
        .drv = c->drv, .device = c->device, .handle = mc->handle, .nbytes = c->window_nbytes};

    if (!mc->base)
        TRY_MC(mc, cuMemAddressReserve, &mc->base, c->window_nbytes, c->alignment, 0, 0);
    j.base = mc->base;
    TRY_MC(mc, cuCtxGetCurrent, &j.ctx);
    st = watched(mc, run_map, "cuMemMap of the multicast object", &j, deadline, result);
    mc->mapped = j.mapped;
out:
    return st;
}

symm_status symm__multicast_object_unbind(struct symm_multicast *mc, const struct symm_segment *s)
{
    const struct symm_memory_config *c = &mc->memory->config;
    symm_status first = SYMM_OK;

    if (!mc->abandoned)
        RELEASE_CU(c->drv, first, cuMulticastUnbind, mc->handle, c->device, s->off, s->nbytes);
    return first;
}

symm_status symm__multicast_object_release(struct symm_multicast *mc)
{
    const struct symm_memory_config *c = &mc->memory->config;
    symm_status first = SYMM_OK;

    if (mc->abandoned)
        return SYMM_OK;
    for (size_t i = 0; i < mc->nbindings; i++) {
        if (!mc->bindings[i].bound)
            continue;
        symm_status st = symm__multicast_object_unbind(mc, mc->bindings[i].segment);
        if (first == SYMM_OK)
            first = st;
    }
    if (mc->mapped)
        RELEASE_CU(c->drv, first, cuMemUnmap, mc->base, c->window_nbytes);
    if (mc->handle)
        RELEASE_CU(c->drv, first, cuMemRelease, mc->handle);
    if (mc->base)
        RELEASE_CU(c->drv, first, cuMemAddressFree, mc->base, c->window_nbytes);
    return first;
}

#else

typedef int symm_multicast_object_is_not_in_this_build; /* ISO C wants a declaration */

#endif
