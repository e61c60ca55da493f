/*
 * Mapping objects into reservations, and access rights. Several ranks may be threads of one
 * process, so the page protection is the union of the devices' rights; the range keeps the rights
 * of each. A multicast mapping has no page protection: plain accesses to it must fault.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"
#include "emulator/state/hooks.h"
#include "emulator/state/machine.h"
#include "mem_handle.h"
#include "multicast.h"
#include "range.h"

static CUresult check_target(uintptr_t start, size_t nbytes)
{
    size_t granularity = emu__machine.granularity;
    if (nbytes == 0 || nbytes % granularity || start % granularity)
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "address %#zx and size %zu must be multiples of the granularity %zu",
                         (size_t)start, nbytes, granularity);
    if (!emu__reservation_find(start, nbytes))
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "[%#zx, +%zu) does not lie inside one reservation", (size_t)start, nbytes);
    struct emu_range *range = emu__range_at(emu__range_after(start));
    if (range && range->start < start + nbytes)
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "[%#zx, +%zu) overlaps the mapping at %#zx of %zu bytes", (size_t)start,
                         nbytes, (size_t)range->start, range->nbytes);
    return CUDA_SUCCESS;
}

static CUresult map(uintptr_t start, size_t nbytes, struct emu_object *object)
{
    struct emu_range *range = calloc(1, sizeof *range);
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bool memory = object->kind == EMU_OBJECT_MEMORY;
    *range = (struct emu_range){
        .kind = memory ? EMU_ADDRESS_MAPPED : EMU_ADDRESS_MULTICAST,
        .start = start,
        .nbytes = nbytes,
        .device = memory ? object->device : 0,
        .object = object,
    };
    if (memory && mmap((void *)start, nbytes, PROT_NONE, MAP_SHARED | MAP_FIXED, object->fd,
                       EMU_DATA) == MAP_FAILED) {
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!emu__range_add(range)) {
        free(range);
        mmap((void *)start, nbytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    emu__object_use(object);
    emu__count(EMU_MAPPINGS, 1);
    return CUDA_SUCCESS;
}

static CUresult find_and_map(uintptr_t start, size_t nbytes, CUmemGenericAllocationHandle value)
{
    struct emu_mem_handle *handle = emu__mem_handle_find(value, "handle");
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct emu_object *object = handle->object;
    if (object->kind == EMU_OBJECT_MEMORY && nbytes != object->nbytes)
        return emu__rule(CUDA_ERROR_NOT_SUPPORTED, "size %zu is not the memory's %zu", nbytes,
                         object->nbytes);
    if (nbytes > object->nbytes)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "size %zu is more than the object's %zu", nbytes,
                         object->nbytes);
    CUresult result = check_target(start, nbytes);
    if (result == CUDA_SUCCESS && object->kind == EMU_OBJECT_MULTICAST) {
        object->refs++;
        emu__multicast_wait(object);
        /* The lock was released during the wait. */
        result = check_target(start, nbytes);
        if (result == CUDA_SUCCESS)
            result = map(start, nbytes, object);
        emu__object_put(object);
    } else if (result == CUDA_SUCCESS) {
        result = map(start, nbytes, object);
    }
    return result;
}

CUresult emu_cuMemMap(CUdeviceptr ptr, size_t nbytes, size_t offset,
                      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    EMU_BEGIN("ptr=%#llx, size=%zu, offset=%zu, handle=%#llx, flags=%#llx", ptr, nbytes, offset,
              handle, flags);
    if (offset != 0 || flags != 0)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "offset and flags must be 0"));
    pthread_mutex_lock(&emu__lock);
    CUresult result = find_and_map((uintptr_t)ptr, nbytes, handle);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

/* Checks that whole mappings without a gap make up [start, start + nbytes). */
static CUresult check_tiled(uintptr_t start, size_t nbytes)
{
    uintptr_t at = start, end = start + nbytes;
    if (nbytes == 0 || end < start)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "size is %zu", nbytes);
    for (size_t i = emu__range_after(start); at < end; i++) {
        struct emu_range *range = emu__range_at(i);
        if (!range || !range->object || range->start > at)
            return emu__rule(CUDA_ERROR_INVALID_VALUE, "nothing is mapped at %#zx", (size_t)at);
        if (range->start != at || range->nbytes > end - at)
            return emu__rule(CUDA_ERROR_INVALID_VALUE,
                             "[%#zx, +%zu) covers the mapping at %#zx of %zu bytes only in part",
                             (size_t)start, nbytes, (size_t)range->start, range->nbytes);
        at += range->nbytes;
    }
    return CUDA_SUCCESS;
}

/*
 * Waits for the devices that may use the range, since unmapping is synchronous. Only mapped memory
 * can be in use, so a wrong range needs no wait.
 */
static void drain_users(uintptr_t start, size_t nbytes)
{
    bool uses[EMU_MAX_DEVICES] = {false};
    pthread_mutex_lock(&emu__lock);
    for (size_t i = emu__range_after(start); i < emu__range_count(); i++) {
        struct emu_range *range = emu__range_at(i);
        if (range->start - start >= nbytes)
            break;
        for (int d = 0; d < emu__machine.ndevices; d++)
            uses[d] |= range->access[d] != 0;
    }
    pthread_mutex_unlock(&emu__lock);
    for (int d = 0; d < emu__machine.ndevices; d++)
        if (uses[d])
            emu__hooks.streams_drain(emu__device(d));
}

/* The last user of an object may not go while it is bound. */
static CUresult check_bound(uintptr_t start, size_t nbytes)
{
    size_t first = emu__range_after(start), last = emu__range_after(start + nbytes);
    for (size_t i = first; i < last; i++) {
        struct emu_object *object = emu__range_at(i)->object;
        int n = 0;
        for (size_t j = first; j < last; j++)
            n += emu__range_at(j)->object == object;
        CUresult result = emu__object_may_unuse(object, n);
        if (result != CUDA_SUCCESS)
            return result;
    }
    return CUDA_SUCCESS;
}

static CUresult unmap(uintptr_t start, size_t nbytes)
{
    CUresult result = check_tiled(start, nbytes);
    if (result == CUDA_SUCCESS)
        result = check_bound(start, nbytes);
    if (result != CUDA_SUCCESS)
        return result;
    if (mmap((void *)start, nbytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return CUDA_ERROR_OPERATING_SYSTEM;
    for (uintptr_t end = start + nbytes; start < end;) {
        struct emu_range *range = emu__range_find(start);
        start += range->nbytes;
        emu__object_unuse(range->object);
        emu__range_remove(range);
        emu__count(EMU_MAPPINGS, -1);
    }
    return CUDA_SUCCESS;
}

CUresult emu_cuMemUnmap(CUdeviceptr ptr, size_t nbytes)
{
    EMU_BEGIN("ptr=%#llx, size=%zu", ptr, nbytes);
    drain_users((uintptr_t)ptr, nbytes);
    pthread_mutex_lock(&emu__lock);
    CUresult result = unmap((uintptr_t)ptr, nbytes);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

/* ---- Access ---- */

static CUresult check_location(const CUmemLocation *location)
{
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "location type %d is not DEVICE",
                         location->type);
    if (!emu__device(location->id))
        return emu__no_device(location->id);
    return CUDA_SUCCESS;
}

static CUresult check_access(const CUmemAccessDesc *desc, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        CUresult result = check_location(&desc[i].location);
        if (result != CUDA_SUCCESS)
            return result;
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return emu__rule(CUDA_ERROR_INVALID_VALUE, "access flags %d are unknown",
                             desc[i].flags);
    }
    return CUDA_SUCCESS;
}

static bool protect(const struct emu_range *range)
{
    int access = 0;
    for (int d = 0; d < emu__machine.ndevices; d++)
        access |= range->access[d];
    int protection = (access & EMU_READ ? PROT_READ : 0) | (access & EMU_WRITE ? PROT_WRITE : 0);
    return range->kind == EMU_ADDRESS_MULTICAST ||
           mprotect((void *)range->start, range->nbytes, protection) == 0;
}

/* The switch reaches the memory of all devices. */
static CUresult check_peers(const struct emu_range *range, const CUmemAccessDesc *desc,
                            size_t count)
{
    const struct emu_object *object = range->object;

    for (size_t i = 0; i < count; i++)
        if (range->kind != EMU_ADDRESS_MULTICAST && desc[i].flags &&
            !emu__reaches(desc[i].location.id, object->device))
            return emu__rule(CUDA_ERROR_INVALID_DEVICE, "device %d is no peer of device %d",
                             desc[i].location.id, object->device);
    return CUDA_SUCCESS;
}

static CUresult set_access(uintptr_t start, size_t nbytes, const CUmemAccessDesc *desc,
                           size_t count)
{
    CUresult result = check_tiled(start, nbytes);
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t i = emu__range_after(start);; i++) {
        struct emu_range *range = emu__range_at(i);
        if (!range || range->start >= start + nbytes)
            break;
        const CUresult peers = check_peers(range, desc, count);
        if (peers != CUDA_SUCCESS)
            return peers;
        /* The driver's flags have the values of enum emu_access. */
        for (size_t j = 0; j < count; j++)
            range->access[desc[j].location.id] = (unsigned char)desc[j].flags;
        if (!protect(range))
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_fetch_add(&emu__layout, 1);
    return result;
}

CUresult emu_cuMemSetAccess(CUdeviceptr ptr, size_t nbytes, const CUmemAccessDesc *desc,
                            size_t count)
{
    EMU_BEGIN("ptr=%#llx, size=%zu, device=%d, flags=%d, count=%zu", ptr, nbytes,
              desc && count ? desc->location.id : -1, desc && count ? desc->flags : 0, count);
    EMU_NOT_NULL(desc);
    CUresult result =
        count == 0 ? emu__rule(CUDA_ERROR_INVALID_VALUE, "count is 0") : check_access(desc, count);
    if (result == CUDA_SUCCESS) {
        pthread_mutex_lock(&emu__lock);
        result = set_access((uintptr_t)ptr, nbytes, desc, count);
        pthread_mutex_unlock(&emu__lock);
    }
    return EMU_END(result);
}

CUresult emu_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                            CUdeviceptr ptr)
{
    EMU_BEGIN("device=%d, ptr=%#llx", location ? location->id : -1, ptr);
    EMU_NOT_NULL(flags);
    EMU_NOT_NULL(location);
    CUresult result = check_location(location);
    if (result != CUDA_SUCCESS)
        return EMU_END(result);
    pthread_mutex_lock(&emu__lock);
    struct emu_range *range = emu__range_find((uintptr_t)ptr);
    if (range && range->object)
        *flags = range->access[location->id];
    else
        result = emu__rule(CUDA_ERROR_INVALID_VALUE, "nothing is mapped at %#llx", ptr);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}
