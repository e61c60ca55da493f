/*
 * Multicast objects: creation, devices, binds. The object is a memfd with a control block that all
 * its processes map; waiting for the others' devices is polling it, for ever, as the real driver
 * waits.
 */
#include "emulator/memory/multicast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RECOMMENDED_GRANULARITY ((size_t)512 << 20)
#define MAX_SLOTS 128
#define POLL_US 200

static int nslots;

void emu__control_lock(struct emu_control *control)
{
    /* A process that died in here left at worst one record twice. */
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

/* A new object without devices. refs is 1; it can be found and has a slot. */
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
    emu__rule(CUDA_SUCCESS, "the object's creator has released it already: what this import gives "
                            "is a fresh object without devices");
    struct emu_object *fresh = NULL;
    CUresult result = create(&control->header, control->ndevices, &fresh);
    if (result == CUDA_SUCCESS) {
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

void emu__multicast_wait(struct emu_object *object)
{
    struct emu_control *control = emu__control(object);
    int64_t patience = emu__now_ns() + EMU_PATIENCE_MS * (int64_t)1000000;
    while (atomic_load(&control->nadded) < control->ndevices) {
        if (patience && emu__now_ns() > patience) {
            patience = 0;
            emu__rule(CUDA_SUCCESS, "waits until all devices are added, which are %u of %u so far",
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
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "numDevices is %u, the machine has %d devices",
                         prop->numDevices, emu__machine.ndevices);
    if (prop->flags != 0)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "flags must be 0");
    if (prop->handleTypes & CU_MEM_HANDLE_TYPE_FABRIC)
        return emu__rule(CUDA_ERROR_NOT_PERMITTED, "this machine has no fabric handles");
    if (prop->handleTypes & ~(unsigned long long)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "unknown handle types %#llx", prop->handleTypes);
    return CUDA_SUCCESS;
}

CUresult emu_cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                       int option)
{
    EMU_BEGIN("option=%d", option);
    EMU_NOT_NULL(granularity);
    EMU_NOT_NULL(prop);
    CUresult result = check_prop(prop);
    size_t least = emu__machine.granularity;
    if (result == CUDA_SUCCESS && option == CU_MULTICAST_GRANULARITY_MINIMUM)
        *granularity = least;
    else if (result == CUDA_SUCCESS && option == CU_MULTICAST_GRANULARITY_RECOMMENDED)
        *granularity = least > RECOMMENDED_GRANULARITY ? least : RECOMMENDED_GRANULARITY;
    else if (result == CUDA_SUCCESS)
        result = emu__rule(CUDA_ERROR_INVALID_VALUE, "option %d is unknown", option);
    return EMU_END(result);
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
    struct emu_handle *handle = emu__handle_new(object);
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

/* The object of a multicast handle; NULL after the report of the broken rule. */
static struct emu_object *find(CUmemGenericAllocationHandle value)
{
    struct emu_handle *handle = emu__handle_find(value, "handle");
    if (handle && handle->object->kind != EMU_OBJECT_MULTICAST) {
        emu__rule(CUDA_ERROR_INVALID_VALUE, "handle %#llx is no multicast object", value);
        return NULL;
    }
    return handle ? handle->object : NULL;
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
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_DEVICE, "there is no device %d", dev));
    pthread_mutex_lock(&emu__lock);
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    struct emu_object *object = find(handle);
    if (object) {
        emu__control_lock(emu__control(object));
        result = add_device(emu__control(object), dev);
        emu__control_unlock(emu__control(object));
    }
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

/* ---- Bind ---- */

static CUresult check_piece(const struct emu_object *object, const char *what, size_t off,
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

/* Called with references to both objects, which may have lost their users while it waits. */
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
    struct emu_object *object = find(handle);
    struct emu_handle *mem_handle = object ? emu__handle_find(mem, "memory handle") : NULL;
    if (!mem_handle)
        return CUDA_ERROR_INVALID_VALUE;
    struct emu_object *memory = mem_handle->object;
    if (memory->kind != EMU_OBJECT_MEMORY)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "handle %#llx is no memory", mem);
    CUresult result = check_piece(object, "multicast", mc_off, nbytes);
    if (result == CUDA_SUCCESS)
        result = check_piece(memory, "memory", mem_off, nbytes);
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

/* Takes this process's bind of the device at mc_off out; its inode is 0 if there is none. */
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
    struct emu_object *object = find(handle);
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
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_DEVICE, "there is no device %d", dev));
    pthread_mutex_lock(&emu__lock);
    CUresult result = unbind(handle, dev, mc_off, nbytes);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

#endif
