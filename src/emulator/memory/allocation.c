/*
 * cuMemAlloc, pinned host memory, and questions about an address. Each allocation has a guard page
 * on both sides; device memory ends at the second one.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"
#include "emulator/state/hooks.h"
#include "emulator/state/machine.h"
#include "range.h"

#define ALIGNMENT 256u

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Makes a range with memory, which is not in the table yet. */
static struct emu_range *allocate(enum emu_address_kind kind, int device, size_t nbytes)
{
    size_t inside = round_up(nbytes, EMU_PAGE);
    struct emu_range *range = calloc(1, sizeof *range);
    if (!range)
        return NULL;
    char *base = mmap(NULL, inside + 2 * EMU_PAGE, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        free(range);
        return NULL;
    }
    if (mprotect(base + EMU_PAGE, inside, PROT_READ | PROT_WRITE) != 0) {
        munmap(base, inside + 2 * EMU_PAGE);
        free(range);
        return NULL;
    }
    emu__fill_garbage(base + EMU_PAGE, inside);
    size_t before = EMU_PAGE;
    if (kind == EMU_ADDRESS_DEVICE)
        before += inside - round_up(nbytes, ALIGNMENT);
    range->kind = kind;
    range->start = (uintptr_t)base + before;
    range->nbytes = nbytes;
    range->device = device;
    range->base = base;
    range->base_nbytes = inside + 2 * EMU_PAGE;
    return range;
}

/* Puts a new allocation into the table, or takes it back. */
static CUresult publish(struct emu_range *range, enum emu_count count)
{
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&emu__lock);
    bool ok = emu__range_add(range);
    pthread_mutex_unlock(&emu__lock);
    if (!ok) {
        munmap(range->base, range->base_nbytes);
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    emu__count(count, 1);
    return CUDA_SUCCESS;
}

/* Returns the device to wait for before the allocation at start goes. NULL after the report. */
static struct emu_device *check_freed(uintptr_t start, enum emu_address_kind kind)
{
    pthread_mutex_lock(&emu__lock);
    struct emu_range *range = emu__range_find(start);
    bool ok = range && range->kind == kind && range->start == start;
    struct emu_device *device = ok ? emu__device(range->device) : NULL;
    pthread_mutex_unlock(&emu__lock);
    if (!device)
        emu__rule(CUDA_ERROR_INVALID_VALUE, "%#zx is not the start of a live allocation",
                  (size_t)start);
    return device;
}

/* Waits for the device, frees, and returns the sticky error. */
static CUresult deallocate(uintptr_t start, enum emu_address_kind kind, enum emu_count count)
{
    struct emu_device *device = check_freed(start, kind);
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    emu__hooks.streams_drain(device);
    pthread_mutex_lock(&emu__lock);
    struct emu_range *range = emu__range_find(start);
    if (range) {
        if (kind == EMU_ADDRESS_DEVICE)
            emu__memory_give(range->device, round_up(range->nbytes, ALIGNMENT));
        munmap(range->base, range->base_nbytes);
        emu__range_remove(range);
        emu__count(count, -1);
    }
    pthread_mutex_unlock(&emu__lock);
    return atomic_load(&device->sticky);
}

CUresult emu_cuMemAlloc(CUdeviceptr *ptr, size_t nbytes)
{
    EMU_BEGIN_HEALTHY("size=%zu", nbytes);
    EMU_NOT_NULL(ptr);
    CUresult result = emu__hooks.capture_forbids();
    int device = emu__device_current()->ordinal;
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    if (nbytes == 0)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "size is 0"));
    if (nbytes > emu__machine.memory_nbytes)
        return EMU_END(CUDA_ERROR_OUT_OF_MEMORY);
    size_t taken = round_up(nbytes, ALIGNMENT);
    pthread_mutex_lock(&emu__lock);
    bool fits = emu__memory_take(device, taken);
    pthread_mutex_unlock(&emu__lock);
    if (!fits)
        return EMU_END(CUDA_ERROR_OUT_OF_MEMORY);
    struct emu_range *range = allocate(EMU_ADDRESS_DEVICE, device, nbytes);
    result = publish(range, EMU_ALLOCATIONS);
    if (result == CUDA_SUCCESS) {
        *ptr = range->start;
    } else {
        pthread_mutex_lock(&emu__lock);
        emu__memory_give(device, taken);
        pthread_mutex_unlock(&emu__lock);
    }
    return EMU_END(result);
}

CUresult emu_cuMemFree(CUdeviceptr ptr)
{
    EMU_BEGIN_CONTEXT("ptr=%#llx", ptr);
    CUresult result = emu__hooks.capture_forbids();
    if (result == CUDA_SUCCESS)
        result = deallocate((uintptr_t)ptr, EMU_ADDRESS_DEVICE, EMU_ALLOCATIONS);
    return EMU_END(result);
}

CUresult emu_cuMemHostAlloc(void **ptr, size_t nbytes, unsigned int flags)
{
    EMU_BEGIN_HEALTHY("size=%zu, flags=%#x", nbytes, flags);
    EMU_NOT_NULL(ptr);
    EMU_TRY(emu__hooks.capture_forbids());
    if (nbytes == 0 || nbytes > SIZE_MAX / 2)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "size is %zu", nbytes));
    if (flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP))
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "unknown flags %#x", flags));
    struct emu_range *range = allocate(EMU_ADDRESS_HOST, emu__device_current()->ordinal, nbytes);
    CUresult result = publish(range, EMU_HOST_ALLOCATIONS);
    if (result == CUDA_SUCCESS)
        *ptr = (void *)range->start;
    return EMU_END(result);
}

CUresult emu_cuMemFreeHost(void *ptr)
{
    EMU_BEGIN_CONTEXT("ptr=%p", ptr);
    CUresult result = emu__hooks.capture_forbids();
    if (result == CUDA_SUCCESS)
        result = deallocate((uintptr_t)ptr, EMU_ADDRESS_HOST, EMU_HOST_ALLOCATIONS);
    return EMU_END(result);
}

CUresult emu_cuMemHostGetDevicePointer(CUdeviceptr *ptr, void *host, unsigned int flags)
{
    EMU_BEGIN_CONTEXT("host=%p, flags=%#x", host, flags);
    EMU_NOT_NULL(ptr);
    CUresult result = CUDA_SUCCESS;
    if (flags != 0)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "flags must be 0"));
    pthread_mutex_lock(&emu__lock);
    struct emu_range *range = emu__range_find((uintptr_t)host);
    if (range && range->kind == EMU_ADDRESS_HOST)
        *ptr = (CUdeviceptr)(uintptr_t)host;
    else
        result = emu__rule(CUDA_ERROR_INVALID_VALUE, "%p is no pinned host memory", host);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

/* An attribute of the memory; NULL, which is no memory of the driver, has zeros. */
static CUresult attribute_of(const struct emu_range *range, int attribute, void *data)
{
    static const struct emu_range none;
    const struct emu_range *r = range ? range : &none;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = !range                        ? 0
                            : r->kind == EMU_ADDRESS_HOST ? CU_MEMORYTYPE_HOST
                                                          : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = r->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *(CUdeviceptr *)data = r->start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *(size_t *)data = r->nbytes;
        return CUDA_SUCCESS;
    }
    return emu__rule(CUDA_ERROR_INVALID_VALUE, "attribute %d is unknown", attribute);
}

CUresult emu_cuPointerGetAttribute(void *data, int attribute, CUdeviceptr ptr)
{
    EMU_BEGIN("attribute=%d, ptr=%#llx", attribute, ptr);
    EMU_NOT_NULL(data);
    pthread_mutex_lock(&emu__lock);
    struct emu_range *range = emu__range_find((uintptr_t)ptr);
    /* No range is not a broken rule: programs ask to learn whether memory is the driver's. */
    CUresult result = range ? attribute_of(range, attribute, data) : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

CUresult emu_cuPointerGetAttributes(unsigned int n, int *attributes, void **data, CUdeviceptr ptr)
{
    EMU_BEGIN("n=%u, ptr=%#llx", n, ptr);
    EMU_NOT_NULL(attributes);
    EMU_NOT_NULL(data);
    if (n == 0)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "n is 0"));
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&emu__lock);
    const struct emu_range *range = emu__range_find((uintptr_t)ptr);
    for (unsigned i = 0; i < n && result == CUDA_SUCCESS; i++)
        result = data[i] ? attribute_of(range, attributes[i], data[i])
                         : emu__rule(CUDA_ERROR_INVALID_VALUE, "data[%u] is NULL", i);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

CUresult emu_cuMemGetAddressRange(CUdeviceptr *start, size_t *nbytes, CUdeviceptr ptr)
{
    EMU_BEGIN_CONTEXT("ptr=%#llx", ptr);
    pthread_mutex_lock(&emu__lock);
    const struct emu_range *range = emu__range_find((uintptr_t)ptr);
    bool found = range && range->kind != EMU_ADDRESS_HOST;
    if (found && start)
        *start = range->start;
    if (found && nbytes)
        *nbytes = range->nbytes;
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}
