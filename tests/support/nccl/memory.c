/* Memory, registrations and reductions that a program makes. */
#include <stdlib.h>
#include <string.h>
#include "group.h"
#include "values.h"

/* ---- Memory ---- */

static CUresult map(CUdeviceptr at, size_t nbytes, CUmemGenericAllocationHandle handle, int device)
{
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = cu.cuMemMap(at, nbytes, 0, handle, 0);
    if (result == CUDA_SUCCESS)
        result = cu.cuMemSetAccess(at, nbytes, &access, 1);
    return result;
}

/* By cuMemCreate, so that others can retain and export its handle. */
static CUresult allocate(void **ptr, size_t nbytes)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr at = 0;
    size_t unit;
    CUresult result = cu.cuCtxGetDevice(&prop.location.id);
    if (result == CUDA_SUCCESS)
        result =
            cu.cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (result != CUDA_SUCCESS)
        return result;
    nbytes = (nbytes + unit - 1) / unit * unit;
    result = cu.cuMemCreate(&handle, nbytes, &prop, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = cu.cuMemAddressReserve(&at, nbytes, 0, 0, 0);
    if (result == CUDA_SUCCESS)
        result = map(at, nbytes, handle, prop.location.id);
    cu.cuMemRelease(handle);
    *ptr = (void *)(uintptr_t)at;
    return result;
}

ENTRY(ncclResult_t, ncclMemAlloc)(void **ptr, size_t nbytes)
{
    if (!ptr || nbytes == 0)
        return failed(ncclInvalidArgument, "no memory asked for");
    if (!driver_open() || allocate(ptr, nbytes) != CUDA_SUCCESS)
        return failed(ncclUnhandledCudaError, "%zu bytes are not allocated", nbytes);
    return ncclSuccess;
}

ENTRY(ncclResult_t, ncclMemFree)(void *ptr)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)ptr, start = 0;
    size_t nbytes = 0;
    if (!ptr)
        return ncclSuccess;
    if (!driver_open() || cu.cuMemGetAddressRange(&start, &nbytes, at) != CUDA_SUCCESS ||
        start != at)
        return failed(ncclInvalidArgument, "%p is no memory of ncclMemAlloc", ptr);
    if (cu.cuMemUnmap(at, nbytes) != CUDA_SUCCESS ||
        cu.cuMemAddressFree(at, nbytes) != CUDA_SUCCESS)
        return failed(ncclUnhandledCudaError, "%p is not freed", ptr);
    return ncclSuccess;
}

/* ---- Registrations ---- */

static struct registration *registered(ncclComm_t comm, bool window, const void *ptr, size_t nbytes)
{
    struct registration *made = malloc(sizeof *made);
    if (!made)
        abort();
    *made = (struct registration){comm->registrations, window, (uintptr_t)ptr, nbytes};
    return comm->registrations = made;
}

bool comm_has_registered(ncclComm_t comm, const void *ptr, size_t nbytes)
{
    const uintptr_t at = (uintptr_t)ptr;
    for (const struct registration *r = comm->registrations; r; r = r->next)
        if (!r->window && r->at <= at && at + nbytes <= r->at + r->nbytes)
            return true;
    return false;
}

/* On any thread. */
static bool is_memory(ncclComm_t comm, CUdeviceptr at)
{
    CUdeviceptr start;
    size_t nbytes;
    cu.cuCtxPushCurrent(comm->context);
    bool found = cu.cuMemGetAddressRange(&start, &nbytes, at) == CUDA_SUCCESS;
    cu.cuCtxPopCurrent(NULL);
    return found;
}

static ncclResult_t deregister(ncclComm_t comm, const void *handle, bool window)
{
    struct registration **at = &comm->registrations;
    while (*at && (*at != handle || (*at)->window != window))
        at = &(*at)->next;
    struct registration *found = *at;
    if (!found)
        return failed(ncclInvalidArgument, "%p is no handle of this communicator", handle);
    if (!window && !is_memory(comm, found->at))
        comm_misused(comm, "memory was freed before it was deregistered");
    *at = found->next;
    free(found);
    return ncclSuccess;
}

ENTRY(ncclResult_t, ncclCommRegister)
(const ncclComm_t comm, void *ptr, size_t nbytes, void **handle)
{
    TRY(comm_enter(comm, COMM_READY, __func__, " %zu", nbytes));
    if (!ptr || nbytes == 0 || !handle)
        return failed(ncclInvalidArgument, "nothing to register, or no place for the handle");
    *handle = registered(comm, false, ptr, nbytes);
    return ncclSuccess;
}

ENTRY(ncclResult_t, ncclCommDeregister)(const ncclComm_t comm, void *handle)
{
    TRY(comm_enter(comm, COMM_ANY, __func__, "%s", ""));
    return deregister(comm, handle, false);
}

/* Compares the sizes and flags of all ranks. */
static ncclResult_t window_job(struct job *job)
{
    int all[job->comm->nranks][2];
    TRY(comm_exchange(job->comm, job->number, job->values, all, sizeof job->values));
    for (int i = 0; i < job->comm->nranks; i++)
        if (memcmp(all[i], job->values, sizeof job->values) != 0)
            return failed(ncclInvalidUsage, "rank %d registers another window", i);
    __atomic_store_n(job->window, job->made, __ATOMIC_RELEASE);
    return ncclSuccess;
}

ENTRY(ncclResult_t, ncclCommWindowRegister)
(ncclComm_t comm, void *ptr, size_t nbytes, ncclWindow_t *window, int flags)
{
    struct job job = {
        .run = window_job, .comm = comm, .window = window, .values = {(int)nbytes, flags}};
    TRY(comm_enter(comm, COMM_READY, __func__, " %zu %d", nbytes, flags));
    if (!ptr || nbytes == 0 || !window)
        return failed(ncclInvalidArgument, "nothing to register, or no place for the window");
    *window = NULL;
    group_begin();
    job.number = comm->nhost++;
    job.made = (ncclWindow_t)registered(comm, true, ptr, nbytes);
    group_add_job(&job);
    const ncclResult_t result = group_end(ncclSuccess);
    return result == ncclInProgress ? ncclSuccess : result;
}

ENTRY(ncclResult_t, ncclCommWindowDeregister)(ncclComm_t comm, ncclWindow_t window)
{
    TRY(comm_enter(comm, COMM_ANY, __func__, "%s", ""));
    return deregister(comm, window, true);
}

/* ---- Reductions ---- */

ENTRY(ncclResult_t, ncclRedOpCreatePreMulSum)
(ncclRedOp_t *op, void *scalar, ncclDataType_t type, ncclScalarResidence_t residence,
 ncclComm_t comm)
{
    TRY(comm_enter(comm, COMM_READY, __func__, " %d", (int)type));
    int i = 0;
    while (i < SCALES && comm->scales[i].used)
        i++;
    if (!op || !scalar || (unsigned)type >= ncclNumTypes || !values_reduced(type) || i == SCALES)
        return failed(ncclInvalidArgument, "a reduction of type %d, number %d", (int)type, i);
    comm->scales[i] = (struct scale){.used = true, .type = type};
    if (residence == ncclScalarDevice)
        comm->scales[i].device = scalar;
    else
        memcpy(comm->scales[i].value, scalar, values_size(type));
    *op = (ncclRedOp_t)(ncclNumOps + i);
    return ncclSuccess;
}

ENTRY(ncclResult_t, ncclRedOpDestroy)(ncclRedOp_t op, ncclComm_t comm)
{
    TRY(comm_enter(comm, COMM_ANY, __func__, "%s", ""));
    int i = (int)op - ncclNumOps;
    if (i < 0 || i >= SCALES || !comm->scales[i].used)
        return failed(ncclInvalidArgument, "no reduction %d", (int)op);
    comm->scales[i].used = false;
    return ncclSuccess;
}
