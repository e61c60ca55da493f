/*
 * Creation and devices of multicast objects. All processes map the object's control block. A wait
 * for the other processes' devices polls it and has no timeout, as in the real driver.
 */
#include "multicast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "emulator/state/call.h"
#include "emulator/state/clock.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"
#include "mem_handle.h"

#define RECOMMENDED_GRANULARITY ((size_t)512 << 20)
#define MAX_SLOTS 128
#define POLL_US 200

static int nslots;

void emu__control_lock(struct emu_control *control)
{
    /* A process that died with the lock left at most one duplicate record. */
    if (pthread_mutex_lock(&control->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&control->lock);
}

void emu__control_unlock(struct emu_control *control)
{
    pthread_mutex_unlock(&control->lock);
}

static void lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &attr);
    pthread_mutexattr_destroy(&attr);
}

CUresult emu__multicast_attach(struct emu_object *object)
{
    if (object->multicast)
        return CUDA_SUCCESS;
    if (nslots == MAX_SLOTS || !(object->multicast = calloc(1, sizeof *object->multicast)))
        return CUDA_ERROR_OUT_OF_MEMORY;
    nslots++;
    return CUDA_SUCCESS;
}

void emu__multicast_detach(struct emu_object *object)
{
    if (!object->multicast)
        return;
    emu__replicas_drop(object->multicast);
    free(object->multicast);
    object->multicast = NULL;
    nslots--;
}

/* Makes an object without devices. refs is 1; it can be found and has a slot. */
static CUresult create(const struct emu_header *header, uint32_t ndevices, struct emu_object **out)
{
    CUresult result = emu__object_create(header, sizeof(struct emu_control), out);
    if (result != CUDA_SUCCESS)
        return result;
    emu__control(*out)->ndevices = ndevices;
    lock_init(&emu__control(*out)->lock);
    emu__object_add(*out);
    result = emu__multicast_attach(*out);
    if (result != CUDA_SUCCESS)
        emu__object_put(*out);
    return result;
}

CUresult emu__multicast_import(struct emu_object **object)
{
    struct emu_control *control = emu__control(*object);
    emu__control_lock(control);
    bool released = control->creator_released;
    emu__control_unlock(control);
    if (!released)
        return emu__multicast_attach(*object);
    struct emu_object *fresh = NULL;
    CUresult result = create(&control->header, control->ndevices, &fresh);
    if (result == CUDA_SUCCESS) {
        emu__control(fresh)->imported_late = true;
        emu__object_put(*object);
        *object = fresh;
    }
    return result;
}

void emu__multicast_creator_released(struct emu_object *object)
{
    struct emu_control *control = emu__control(object);
    emu__control_lock(control);
    control->creator_released = true;
    emu__control_unlock(control);
}

struct emu_object *emu__multicast_find(CUmemGenericAllocationHandle value)
{
    struct emu_mem_handle *handle = emu__mem_handle_find(value, "handle");
    if (handle && handle->object->kind != EMU_OBJECT_MULTICAST) {
        emu__rule(CUDA_ERROR_INVALID_VALUE, "handle %#llx is no multicast object", value);
        return NULL;
    }
    return handle ? handle->object : NULL;
}

void emu__multicast_wait(struct emu_object *object)
{
    struct emu_control *control = emu__control(object);
    int64_t patience = emu__now_ns() + EMU_PATIENCE_MS * (int64_t)1000000;
    if (control->imported_late)
        emu__rule(CUDA_SUCCESS, "the object's creator had released it before this process imported "
                                "it: this is a new object without the others' devices");
    while (atomic_load(&control->nadded) < control->ndevices) {
        if (patience && emu__now_ns() > patience) {
            patience = 0;
            emu__rule(CUDA_SUCCESS, "waits until all devices are added: %u of %u so far",
                      atomic_load(&control->nadded), control->ndevices);
        }
        pthread_mutex_unlock(&emu__lock);
        usleep(POLL_US);
        pthread_mutex_lock(&emu__lock);
    }
}

void emu__multicast_report(const struct emu_object *object)
{
    struct emu_control *control = emu__control(object);
    emu__control_lock(control);
    for (uint32_t i = 0; i < control->nbinds; i++)
        if (control->binds[i].pid == getpid())
            emu__left("bind of device %d at %#llx of %llu bytes", (int)control->binds[i].device,
                      (unsigned long long)control->binds[i].mc_off,
                      (unsigned long long)control->binds[i].nbytes);
    emu__control_unlock(control);
}

#if SYMM_MULTICAST

static CUresult check_prop(const CUmulticastObjectProp *prop)
{
    if (!emu__machine.multicast)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (prop->numDevices < 2 || prop->numDevices > (unsigned)emu__machine.ndevices)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "numDevices is %u, the emulated machine has %d",
                         prop->numDevices, emu__machine.ndevices);
    if (prop->flags != 0)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
    return emu__check_handle_types(prop->handleTypes);
}

CUresult emu_cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                       int option)
{
    EMU_BEGIN("option=%d", option);
    EMU_NOT_NULL(granularity);
    EMU_NOT_NULL(prop);
    EMU_TRY(check_prop(prop));
    return EMU_END(emu__granularity(option, RECOMMENDED_GRANULARITY, granularity));
}

static CUresult create_handle(const CUmulticastObjectProp *prop,
                              CUmemGenericAllocationHandle *value)
{
    struct emu_header header = {
        .magic = SYMM_EMULATED_MAGIC,
        .abi = SYMM_EMULATED_ABI,
        .kind = EMU_OBJECT_MULTICAST,
        .handle_types = (uint32_t)prop->handleTypes,
        .nbytes = prop->size,
    };
    struct emu_object *object = NULL;
    CUresult result = create(&header, prop->numDevices, &object);
    if (result != CUDA_SUCCESS)
        return result;
    struct emu_mem_handle *handle = emu__mem_handle_new(object);
    if (handle) {
        handle->creator = true;
        *value = handle->value;
    } else {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    emu__object_put(object);
    return result;
}

CUresult emu_cuMulticastCreate(CUmemGenericAllocationHandle *handle,
                               const CUmulticastObjectProp *prop)
{
    EMU_BEGIN("devices=%u, size=%zu, handle_types=%#llx, flags=%#llx", prop ? prop->numDevices : 0,
              prop ? prop->size : 0, prop ? prop->handleTypes : 0, prop ? prop->flags : 0);
    EMU_NOT_NULL(handle);
    EMU_NOT_NULL(prop);
    CUresult result = check_prop(prop);
    if (result == CUDA_SUCCESS && (prop->size == 0 || prop->size % emu__machine.granularity))
        result =
            emu__rule(CUDA_ERROR_INVALID_VALUE, "size %zu is no multiple of the granularity %zu",
                      prop->size, emu__machine.granularity);
    if (result == CUDA_SUCCESS) {
        pthread_mutex_lock(&emu__lock);
        result = create_handle(prop, handle);
        pthread_mutex_unlock(&emu__lock);
    }
    return EMU_END(result);
}

static CUresult add_device(struct emu_control *control, CUdevice dev)
{
    if (control->added[dev])
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "device %d is added already", dev);
    if (control->nadded == control->ndevices)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "the object has all its %u devices already",
                         control->ndevices);
    control->added[dev] = true;
    atomic_fetch_add(&control->nadded, 1);
    return CUDA_SUCCESS;
}

CUresult emu_cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice dev)
{
    EMU_BEGIN("handle=%#llx, dev=%d", handle, dev);
    if (!emu__device(dev))
        return EMU_END(emu__no_device(dev));
    pthread_mutex_lock(&emu__lock);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    struct emu_object *object = emu__multicast_find(handle);
    if (object) {
        emu__control_lock(emu__control(object));
        result = add_device(emu__control(object), dev);
        emu__control_unlock(emu__control(object));
    }
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

#endif
