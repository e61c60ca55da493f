/* Binding memory to multicast objects. */
#include <string.h>
#include <unistd.h>
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"
#include "mem_handle.h"
#include "multicast.h"

#if SYMM_MULTICAST

static CUresult check_extent(const struct emu_object *object, const char *what, size_t off,
                             size_t nbytes)
{
    size_t granularity = emu__machine.granularity;
    if (nbytes == 0 || off % granularity || nbytes % granularity)
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "%s offset %zu and size %zu must be multiples of the granularity %zu",
                         what, off, nbytes, granularity);
    if (off > object->nbytes || nbytes > object->nbytes - off)
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "%s offset %zu and size %zu reach beyond the object's %zu bytes", what,
                         off, nbytes, object->nbytes);
    return CUDA_SUCCESS;
}

static CUresult check_bind(struct emu_object *object, struct emu_object *memory)
{
    struct emu_control *control = emu__control(object);
    if (object->handle_types && !memory->handle_types)
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "the object can be shared, so the memory must be created with a handle "
                         "type too");
    emu__control_lock(control);
    bool added = control->added[memory->device];
    emu__control_unlock(control);
    return added ? CUDA_SUCCESS
                 : emu__rule(CUDA_ERROR_INVALID_DEVICE,
                             "the memory is on device %d, which is not added to the object",
                             memory->device);
}

static CUresult add_bind(struct emu_control *control, const struct emu_bind *bind)
{
    for (uint32_t i = 0; i < control->nbinds; i++) {
        const struct emu_bind *other = &control->binds[i];
        if (other->device == bind->device && other->mc_off < bind->mc_off + bind->nbytes &&
            bind->mc_off < other->mc_off + other->nbytes)
            return emu__rule(CUDA_ERROR_INVALID_VALUE,
                             "overlaps the bind of device %d at %#llx of %llu bytes",
                             (int)bind->device, (unsigned long long)other->mc_off,
                             (unsigned long long)other->nbytes);
    }
    if (control->nbinds == EMU_MAX_BINDS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    control->binds[control->nbinds++] = *bind;
    atomic_fetch_add(&control->generation, 1);
    return CUDA_SUCCESS;
}

/* The caller has references to both objects, which may lose their users during the wait. */
static CUresult wait_and_bind(struct emu_object *object, size_t mc_off, struct emu_object *memory,
                              size_t mem_off, size_t nbytes)
{
    struct emu_control *control = emu__control(object);
    emu__multicast_wait(object);
    if (memory->users == 0 || object->users == 0)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "a handle was released during the call");
    struct emu_bind bind = {
        .device = memory->device,
        .pid = getpid(),
        .fd = memory->fd,
        .inode = memory->inode,
        .mc_off = mc_off,
        .mem_off = mem_off,
        .nbytes = nbytes,
    };
    emu__control_lock(control);
    CUresult result = add_bind(control, &bind);
    emu__control_unlock(control);
    if (result != CUDA_SUCCESS)
        return result;
    memory->binds++;
    object->binds++;
    emu__count(EMU_BINDS, 1);
    return CUDA_SUCCESS;
}

static CUresult find_and_bind(CUmemGenericAllocationHandle handle, size_t mc_off,
                              CUmemGenericAllocationHandle mem, size_t mem_off, size_t nbytes)
{
    struct emu_object *object = emu__multicast_find(handle);
    struct emu_mem_handle *mem_handle = object ? emu__mem_handle_find(mem, "memory handle") : NULL;
    if (!mem_handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct emu_object *memory = mem_handle->object;
    if (memory->kind != EMU_OBJECT_MEMORY)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "handle %#llx is no memory", mem);
    CUresult result = check_extent(object, "multicast", mc_off, nbytes);
    if (result == CUDA_SUCCESS)
        result = check_extent(memory, "memory", mem_off, nbytes);
    if (result == CUDA_SUCCESS)
        result = check_bind(object, memory);
    if (result != CUDA_SUCCESS)
        return result;
    object->refs++;
    memory->refs++;
    result = wait_and_bind(object, mc_off, memory, mem_off, nbytes);
    emu__object_put(memory);
    emu__object_put(object);
    return result;
}

CUresult emu_cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t mc_off,
                                CUmemGenericAllocationHandle mem, size_t mem_off, size_t nbytes,
                                unsigned long long flags)
{
    EMU_BEGIN("handle=%#llx, mc_off=%zu, mem=%#llx, mem_off=%zu, size=%zu, flags=%#llx", handle,
              mc_off, mem, mem_off, nbytes, flags);
    if (flags != 0)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "flags must be 0"));
    pthread_mutex_lock(&emu__lock);
    CUresult result = find_and_bind(handle, mc_off, mem, mem_off, nbytes);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

/* Removes this process's bind of the device at mc_off. Its inode is 0 if there is none. */
static struct emu_bind remove_bind(struct emu_control *control, CUdevice dev, size_t mc_off,
                                   size_t nbytes)
{
    struct emu_bind bind = {0};
    for (uint32_t i = 0; i < control->nbinds; i++) {
        if (control->binds[i].device != dev || control->binds[i].pid != getpid() ||
            control->binds[i].mc_off != mc_off || control->binds[i].nbytes != nbytes)
            continue;
        bind = control->binds[i];
        control->binds[i] = control->binds[--control->nbinds];
        atomic_fetch_add(&control->generation, 1);
        break;
    }
    return bind;
}

static CUresult unbind(CUmemGenericAllocationHandle handle, CUdevice dev, size_t mc_off,
                       size_t nbytes)
{
    struct emu_object *object = emu__multicast_find(handle);
    if (!object)
        return CUDA_ERROR_INVALID_VALUE;
    emu__control_lock(emu__control(object));
    struct emu_bind bind = remove_bind(emu__control(object), dev, mc_off, nbytes);
    emu__control_unlock(emu__control(object));
    if (bind.inode == 0)
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "device %d has no bind of this process with exactly offset %zu and size "
                         "%zu",
                         dev, mc_off, nbytes);
    emu__object_by_inode(bind.inode)->binds--;
    object->binds--;
    emu__count(EMU_BINDS, -1);
    return CUDA_SUCCESS;
}

CUresult emu_cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice dev, size_t mc_off,
                               size_t nbytes)
{
    EMU_BEGIN("handle=%#llx, dev=%d, mc_off=%zu, size=%zu", handle, dev, mc_off, nbytes);
    if (!emu__device(dev))
        return EMU_END(emu__no_device(dev));
    pthread_mutex_lock(&emu__lock);
    CUresult result = unbind(handle, dev, mc_off, nbytes);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

#endif
