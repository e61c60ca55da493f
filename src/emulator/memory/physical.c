/* Creating physical memory; its amount and granularity. */
#include <pthread.h>
#include <symm/detail/emulated.h>
#include "emulator/state/call.h"
#include "emulator/state/devices.h"
#include "emulator/state/machine.h"
#include "mem_handle.h"

#define RECOMMENDED_GRANULARITY ((size_t)2 << 20)

CUresult emu__check_handle_types(unsigned long long types)
{
    if (types & CU_MEM_HANDLE_TYPE_FABRIC)
        return emu__rule(CUDA_ERROR_NOT_PERMITTED, "the emulated machine has no fabric handles");
    if (types & ~(unsigned long long)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "unknown handle types %#llx", types);
    return CUDA_SUCCESS;
}

CUresult emu__granularity(int option, size_t recommended, size_t *out)
{
    const size_t min = emu__machine.granularity;
    if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
        option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "option %d is unknown", option);
    *out = option == CU_MEM_ALLOC_GRANULARITY_MINIMUM || min > recommended ? min : recommended;
    return CUDA_SUCCESS;
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
    if (prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "allocation type %d is not PINNED", prop->type);
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "location type %d is not DEVICE",
                         prop->location.type);
    if (!emu__device(prop->location.id))
        return emu__no_device(prop->location.id);
    if (prop->win32HandleMetaData)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "win32HandleMetaData is set");
    if (prop->allocFlags.gpuDirectRDMACapable)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "the emulated machine has no GPUDirect RDMA");
    return emu__check_handle_types((unsigned)prop->requestedHandleTypes);
}

CUresult emu_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                           int option)
{
    EMU_BEGIN("option=%d", option);
    EMU_NOT_NULL(granularity);
    EMU_NOT_NULL(prop);
    EMU_TRY(check_prop(prop));
    return EMU_END(emu__granularity(option, RECOMMENDED_GRANULARITY, granularity));
}

/* Makes the object; the caller has taken the memory from the device. */
static CUresult create(size_t nbytes, const CUmemAllocationProp *prop, struct emu_object **out)
{
    struct emu_header header = {
        .magic = SYMM_EMULATED_MAGIC,
        .abi = SYMM_EMULATED_ABI,
        .kind = EMU_OBJECT_MEMORY,
        .device = prop->location.id,
        .handle_types = (uint32_t)prop->requestedHandleTypes,
        .nbytes = nbytes,
    };
    CUresult result = emu__object_create(&header, EMU_DATA + nbytes, out);
    if (result == CUDA_SUCCESS)
        emu__fill_garbage(emu__data(*out), nbytes);
    return result;
}

CUresult emu_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t nbytes,
                         const CUmemAllocationProp *prop, unsigned long long flags)
{
    EMU_BEGIN("size=%zu, device=%d, handle_types=%#x, flags=%#llx", nbytes,
              prop ? prop->location.id : -1, prop ? (unsigned)prop->requestedHandleTypes : 0,
              flags);
    EMU_NOT_NULL(handle);
    EMU_NOT_NULL(prop);
    EMU_TRY(check_prop(prop));
    if (flags != 0)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "flags must be 0"));
    if (nbytes == 0 || nbytes % emu__machine.granularity)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE,
                                 "size %zu is no multiple of the granularity %zu", nbytes,
                                 emu__machine.granularity));
    pthread_mutex_lock(&emu__lock);
    bool fits = emu__memory_take(prop->location.id, nbytes);
    pthread_mutex_unlock(&emu__lock);
    if (!fits)
        return EMU_END(CUDA_ERROR_OUT_OF_MEMORY);

    struct emu_object *object = NULL;
    struct emu_mem_handle *own = NULL;
    CUresult result = create(nbytes, prop, &object);
    pthread_mutex_lock(&emu__lock);
    if (result == CUDA_SUCCESS) {
        emu__object_add(object);
        own = emu__mem_handle_new(object);
        result = own ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (own) {
        object->created_here = true;
        *handle = own->value;
    } else {
        emu__memory_give(prop->location.id, nbytes);
    }
    if (object)
        emu__object_put(object);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

CUresult emu_cuMemGetInfo(size_t *available, size_t *total)
{
    EMU_BEGIN_HEALTHY("void");
    EMU_NOT_NULL(available);
    EMU_NOT_NULL(total);
    struct emu_device *device = emu__device_current();
    pthread_mutex_lock(&emu__lock);
    *total = emu__machine.memory_nbytes;
    *available = *total - device->used_nbytes;
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(CUDA_SUCCESS);
}
