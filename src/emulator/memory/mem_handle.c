/* Making, finding and releasing handles; export and import. */
#include "mem_handle.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"
#include "multicast.h"
#include "range.h"

static struct emu_mem_handle *handles;
/* Values are never used twice, so that a released handle stays unknown. */
#define FIRST_VALUE 0x51000001
static CUmemGenericAllocationHandle next_value = FIRST_VALUE;

struct emu_mem_handle *emu__mem_handle_new(struct emu_object *object)
{
    struct emu_mem_handle *handle = malloc(sizeof *handle);
    if (!handle)
        return NULL;
    *handle = (struct emu_mem_handle){.next = handles, .value = next_value++, .object = object};
    handles = handle;
    emu__object_use(object);
    emu__count(EMU_HANDLES, 1);
    return handle;
}

static struct emu_mem_handle **handle_slot(CUmemGenericAllocationHandle value)
{
    struct emu_mem_handle **at = &handles;
    while (*at && (*at)->value != value)
        at = &(*at)->next;
    return at;
}

struct emu_mem_handle *emu__mem_handle_find(CUmemGenericAllocationHandle value, const char *what)
{
    struct emu_mem_handle *handle = *handle_slot(value);
    if (!handle)
        emu__rule(CUDA_ERROR_INVALID_VALUE, "%s %#llx is no handle of this process%s", what, value,
                  value >= FIRST_VALUE && value < next_value ? " any more" : "");
    return handle;
}

static CUresult release(CUmemGenericAllocationHandle value)
{
    struct emu_mem_handle *handle = emu__mem_handle_find(value, "handle");
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = emu__object_may_unuse(handle->object, 1);
    if (result != CUDA_SUCCESS)
        return result;
    if (handle->creator)
        emu__multicast_creator_released(handle->object);
    *handle_slot(value) = handle->next;
    emu__object_unuse(handle->object);
    free(handle);
    emu__count(EMU_HANDLES, -1);
    return CUDA_SUCCESS;
}

CUresult emu_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    EMU_BEGIN("handle=%#llx", handle);
    pthread_mutex_lock(&emu__lock);
    CUresult result = release(handle);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

CUresult emu_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *ptr)
{
    EMU_BEGIN("ptr=%p", ptr);
    EMU_NOT_NULL(handle);
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&emu__lock);
    struct emu_range *range = emu__range_find((uintptr_t)ptr);
    if (range && !range->object) {
        result = CUDA_ERROR_INVALID_VALUE; /* no broken rule: programs ask whether it has one */
    } else if (!range) {
        result = emu__rule(CUDA_ERROR_INVALID_VALUE, "nothing is mapped at %p", ptr);
    } else {
        struct emu_mem_handle *own = emu__mem_handle_new(range->object);
        if (own)
            *handle = own->value;
        else
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

CUresult emu_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                    CUmemGenericAllocationHandle value)
{
    EMU_BEGIN("handle=%#llx", value);
    EMU_NOT_NULL(prop);
    pthread_mutex_lock(&emu__lock);
    const struct emu_mem_handle *handle = emu__mem_handle_find(value, "handle");
    const bool memory = handle && handle->object->kind == EMU_OBJECT_MEMORY;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    if (memory) {
        *prop = (CUmemAllocationProp){
            .type = CU_MEM_ALLOCATION_TYPE_PINNED,
            .requestedHandleTypes = (int)handle->object->handle_types,
            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = handle->object->device},
        };
        result = CUDA_SUCCESS;
    } else if (handle) {
        emu__rule(result, "handle %#llx is a multicast object", value);
    }
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

/* ---- Export and import ---- */

static CUresult export_fd(CUmemGenericAllocationHandle value, int type, int *fd)
{
    struct emu_mem_handle *handle = emu__mem_handle_find(value, "handle");
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "handles of type %d cannot be exported here",
                         type);
    if (!(handle->object->handle_types & (unsigned)type))
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "the object was created without handle type %d",
                         type);
    *fd = fcntl(handle->object->fd, F_DUPFD_CLOEXEC, 0);
    return *fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult emu_cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
                                          int type, unsigned long long flags)
{
    EMU_BEGIN("handle=%#llx, type=%d, flags=%#llx", handle, type, flags);
    EMU_NOT_NULL(shareable);
    if (flags != 0)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "flags must be 0"));
    pthread_mutex_lock(&emu__lock);
    int fd = -1;
    CUresult result = export_fd(handle, type, &fd);
    pthread_mutex_unlock(&emu__lock);
    if (result == CUDA_SUCCESS)
        *(int *)shareable = fd;
    return EMU_END(result);
}

static CUresult import_fd(int fd, CUmemGenericAllocationHandle *value)
{
    struct emu_object *object = NULL;
    CUresult result = emu__object_open(fd, true, &object);
    if (result != CUDA_SUCCESS)
        return result;
    if (object->kind == EMU_OBJECT_MULTICAST)
        result = emu__multicast_import(&object);
    struct emu_mem_handle *handle = result == CUDA_SUCCESS ? emu__mem_handle_new(object) : NULL;
    if (handle)
        *value = handle->value;
    else if (result == CUDA_SUCCESS)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    emu__object_put(object);
    return result;
}

CUresult emu_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
                                            int type)
{
    EMU_BEGIN("shareable=%#llx, type=%d", (unsigned long long)(uintptr_t)shareable, type);
    EMU_NOT_NULL(handle);
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE,
                                 "handles of type %d cannot be imported here", type));
    pthread_mutex_lock(&emu__lock);
    /* The argument is the descriptor itself, not a pointer to it. */
    CUresult result = import_fd((int)(intptr_t)shareable, handle);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

/* ---- Leaks ---- */

/* The driver's own descriptors are those of objects. */
int emu__descriptor_report(void)
{
    int left = 0;
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char target[64];
        ssize_t n = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        if (n < 0)
            continue;
        target[n] = '\0';
        if (!strstr(target, "memfd:" EMU_MEMFD_NAME))
            continue;
        if (!emu__object_by_fd(atoi(entry->d_name))) {
            emu__left("exported descriptor %s", entry->d_name);
            left++;
        }
    }
    if (folder)
        closedir(folder);
    return left;
}

void emu__mem_handle_report(void)
{
    for (struct emu_mem_handle *handle = handles; handle; handle = handle->next)
        emu__left("%s handle %#llx of %zu bytes",
                  handle->object->kind == EMU_OBJECT_MEMORY ? "memory" : "multicast", handle->value,
                  handle->object->nbytes);
}
