/* Creates, exports, imports, maps and releases one rank's side of a segment. */
#include "segment.h"

#include "runtime/base/fd.h"

symm_status symm__segment_properties(const struct symm_driver *drv, CUdevice device,
                                     CUmemAllocationProp *out)
{
    symm_status st = SYMM_OK;
    int rdma = 0;

    TRY_CU(drv, cuDeviceGetAttribute, &rdma,
           CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device);
    *out = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
        .allocFlags = {.gpuDirectRDMACapable = rdma != 0},
    };
out:
    return st;
}

/* Maps mem in rank's window with access for this rank's device. */
static symm_status map(const struct symm_driver *drv, CUdevice device, const struct symm_windows *w,
                       int rank, CUmemGenericAllocationHandle mem, struct symm_segment *s)
{
    symm_status st = SYMM_OK;
    CUdeviceptr at = w->base[rank] + s->off;
    CUmemAccessDesc access = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
        .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };

    TRY_CU(drv, cuMemMap, at, s->nbytes, 0, mem, 0);
    symm__rank_set_add(&s->mapped, rank);
    TRY_CU(drv, cuMemSetAccess, at, s->nbytes, &access, 1);
out:
    return st;
}

symm_status symm__segment_create(const struct symm_driver *drv, CUdevice device,
                                 const struct symm_windows *w, int rank, struct symm_segment *s)
{
    symm_status st = SYMM_OK;
    CUmemAllocationProp prop;

    if (!s->own) {
        TRY(symm__segment_properties(drv, device, &prop));
        TRY_CU(drv, cuMemCreate, &s->own, s->nbytes, &prop, 0);
    }
    TRY(map(drv, device, w, rank, s->own, s));
out:
    if (st != SYMM_OK)
        symm__fail_in(st, "a segment of %llu bytes: ", (unsigned long long)s->nbytes);
    return st;
}

symm_status symm__segment_export(const struct symm_driver *drv, const struct symm_segment *s,
                                 int *fd)
{
    symm_status st = SYMM_OK;
    int exported = -1;

    TRY_CU(drv, cuMemExportToShareableHandle, &exported, s->own,
           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    TRY(symm__fd_cloexec(exported));
    *fd = exported;
    exported = -1;
out:
    symm__fd_close(&exported);
    return st;
}

symm_status symm__segment_import(const struct symm_driver *drv, CUdevice device,
                                 const struct symm_windows *w, int rank, int fd,
                                 struct symm_segment *s)
{
    symm_status st = SYMM_OK;
    CUmemGenericAllocationHandle mem = 0;

    if (fd < 0)
        return symm__fail(SYMM_ERROR_SYSTEM, "no descriptor came");
    TRY_CU(drv, cuMemImportFromShareableHandle, &mem, (void *)(uintptr_t)fd,
           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    TRY(map(drv, device, w, rank, mem, s));
out:
    /* The mapping keeps its own reference. */
    if (mem)
        RELEASE_CU(drv, st, cuMemRelease, mem);
    return st;
}

symm_status symm__segment_release(const struct symm_driver *drv, const struct symm_windows *w,
                                  int rank, struct symm_segment *s)
{
    symm_status first = SYMM_OK;

    for (int i = 1; i <= w->nranks; i++) {
        int r = (rank + i) % w->nranks; /* this rank's memory last */
        if (symm__rank_set_has(s->mapped, r))
            RELEASE_CU(drv, first, cuMemUnmap, w->base[r] + s->off, s->nbytes);
    }
    s->mapped = (struct symm_rank_set){{0}};
    if (s->own)
        RELEASE_CU(drv, first, cuMemRelease, s->own);
    s->own = 0;
    return first;
}
