/*
 * Physical objects and handles: what a memfd is, who uses it in this process, and the numbers by
 * which the program names it.
 */
#include "emulator/memory/multicast.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMFD_NAME "symm-emulated"

static struct emu_object *objects;
static struct emu_handle *handles;
/* Values are never used twice, so that a released handle stays unknown. */
static CUmemGenericAllocationHandle next_value = 0x51000001;
static _Atomic uint64_t garbage_serial;

void emu__fill_garbage(void *data, size_t nbytes)
{
    uint64_t x = emu__random(emu__machine.seed, atomic_fetch_add(&garbage_serial, 1)) | 1;
    uint64_t *words = data;
    for (size_t i = 0; i < nbytes / sizeof *words; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        words[i] = x | 0x0101010101010101u; /* no byte is zero */
    }
}

bool emu__memory_take(int device, uint64_t nbytes)
{
    struct emu_device *d = emu__device(device);
    if (nbytes > emu__machine.memory_nbytes - d->used_nbytes)
        return false;
    d->used_nbytes += nbytes;
    return true;
}

void emu__memory_give(int device, uint64_t nbytes)
{
    emu__device(device)->used_nbytes -= nbytes;
}

/* ---- Objects ---- */

static struct emu_object *object_of(int fd, const struct stat *file,
                                    const struct emu_header *header)
{
    struct emu_object *object = calloc(1, sizeof *object);
    if (!object)
        return NULL;
    *object = (struct emu_object){
        .kind = (enum emu_object_kind)header->kind,
        .fd = fd,
        .inode = file->st_ino,
        .device = header->device,
        .handle_types = header->handle_types,
        .nbytes = header->nbytes,
        .refs = 1,
        .file_nbytes = (size_t)file->st_size,
    };
    object->file = mmap(NULL, object->file_nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (object->file == MAP_FAILED) {
        free(object);
        return NULL;
    }
    return object;
}

CUresult emu__object_create(const struct emu_header *header, size_t file_nbytes,
                            struct emu_object **out)
{
    struct stat file;
    int fd = memfd_create(MEMFD_NAME, MFD_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (ftruncate(fd, (off_t)file_nbytes) != 0 || fstat(fd, &file) != 0 ||
        !(*out = object_of(fd, &file, header))) {
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy((*out)->file, header, sizeof *header);
    emu__count(EMU_FDS, 1);
    return CUDA_SUCCESS;
}

void emu__object_add(struct emu_object *object)
{
    object->next = objects;
    objects = object;
}

struct emu_object *emu__object_by_inode(uint64_t inode)
{
    struct emu_object *object = objects;
    while (object && object->inode != inode)
        object = object->next;
    return object;
}

static bool read_header(int fd, struct stat *file, struct emu_header *header)
{
    return fd >= 0 && fstat(fd, file) == 0 && S_ISREG(file->st_mode) &&
           pread(fd, header, sizeof *header, 0) == (ssize_t)sizeof *header &&
           memcmp(header->magic, SYMM_EMULATED_MAGIC, sizeof header->magic) == 0 &&
           header->abi == SYMM_EMULATED_ABI && header->device < EMU_MAX_DEVICES &&
           (uint64_t)file->st_size >= EMU_DATA &&
           ((header->kind == EMU_OBJECT_MULTICAST &&
             (uint64_t)file->st_size == sizeof(struct emu_control)) ||
            (header->kind == EMU_OBJECT_MEMORY && emu__device(header->device) &&
             header->nbytes == (uint64_t)file->st_size - EMU_DATA));
}

CUresult emu__object_open(int fd, bool keep_fd, struct emu_object **out)
{
    struct stat file;
    struct emu_header header;
    if (!read_header(fd, &file, &header))
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "descriptor %d is no exported handle", fd);
    struct emu_object *object = emu__object_by_inode(file.st_ino);
    int own = -1;
    if (keep_fd && (!object || object->fd < 0)) {
        own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (own < 0)
            return CUDA_ERROR_OPERATING_SYSTEM;
        emu__count(EMU_FDS, 1);
    }
    if (!object) {
        object = object_of(fd, &file, &header);
        if (!object) {
            if (own >= 0) {
                close(own);
                emu__count(EMU_FDS, -1);
            }
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        object->fd = -1;
        emu__object_add(object);
    } else {
        object->refs++;
    }
    if (own >= 0)
        object->fd = own;
    *out = object;
    return CUDA_SUCCESS;
}

void emu__object_put(struct emu_object *object)
{
    if (--object->refs > 0)
        return;
    for (struct emu_object **at = &objects; *at; at = &(*at)->next) {
        if (*at == object) {
            *at = object->next;
            break;
        }
    }
    emu__multicast_detach(object);
    munmap(object->file, object->file_nbytes);
    if (object->fd >= 0) {
        close(object->fd);
        emu__count(EMU_FDS, -1);
    }
    free(object);
}

void emu__object_use(struct emu_object *object)
{
    object->users++;
    object->refs++;
}

CUresult emu__object_may_unuse(const struct emu_object *object, int n)
{
    if (object->users > n || object->binds == 0)
        return CUDA_SUCCESS;
    return emu__rule(CUDA_ERROR_INVALID_VALUE,
                     object->kind == EMU_OBJECT_MEMORY
                         ? "the memory is still bound to a multicast object: unbind before the "
                           "bound memory goes away"
                         : "the multicast object still has %d binds of this process: unbind first",
                     object->binds);
}

void emu__object_unuse(struct emu_object *object)
{
    if (--object->users == 0 && object->created_here && object->kind == EMU_OBJECT_MEMORY)
        emu__memory_give(object->device, object->nbytes);
    emu__object_put(object);
}

/* ---- Handles ---- */

struct emu_handle *emu__handle_new(struct emu_object *object)
{
    struct emu_handle *handle = malloc(sizeof *handle);
    if (!handle)
        return NULL;
    *handle = (struct emu_handle){.next = handles, .value = next_value++, .object = object};
    handles = handle;
    emu__object_use(object);
    emu__count(EMU_HANDLES, 1);
    return handle;
}

static struct emu_handle **handle_slot(CUmemGenericAllocationHandle value)
{
    struct emu_handle **at = &handles;
    while (*at && (*at)->value != value)
        at = &(*at)->next;
    return at;
}

struct emu_handle *emu__handle_find(CUmemGenericAllocationHandle value, const char *what)
{
    struct emu_handle *handle = *handle_slot(value);
    if (!handle)
        emu__rule(CUDA_ERROR_INVALID_VALUE, "%s %#llx is no handle of this process%s", what, value,
                  value >= 0x51000001 && value < next_value ? " any more" : "");
    return handle;
}

static CUresult release(CUmemGenericAllocationHandle value)
{
    struct emu_handle *handle = emu__handle_find(value, "handle");
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
    if (!range || !range->object) {
        result = emu__rule(CUDA_ERROR_INVALID_VALUE, "nothing is mapped at %p", ptr);
    } else {
        struct emu_handle *own = emu__handle_new(range->object);
        if (own)
            *handle = own->value;
        else
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

/* ---- Export and import ---- */

static CUresult export_fd(CUmemGenericAllocationHandle value, int type, int *fd)
{
    struct emu_handle *handle = emu__handle_find(value, "handle");
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
    struct emu_handle *handle = result == CUDA_SUCCESS ? emu__handle_new(object) : NULL;
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
    /* The descriptor itself is passed in the place of the pointer. */
    CUresult result = import_fd((int)(intptr_t)shareable, handle);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

/* ---- What is left at the end ---- */

/* The driver's own descriptors belong to objects. */
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
        if (!strstr(target, "memfd:" MEMFD_NAME))
            continue;
        struct emu_object *object = objects;
        while (object && object->fd != atoi(entry->d_name))
            object = object->next;
        if (!object) {
            emu__left("exported descriptor %s", entry->d_name);
            left++;
        }
    }
    if (folder)
        closedir(folder);
    return left;
}

void emu__object_report(void)
{
    for (struct emu_handle *handle = handles; handle; handle = handle->next)
        emu__left("%s handle %#llx of %zu bytes",
                  handle->object->kind == EMU_OBJECT_MEMORY ? "memory" : "multicast", handle->value,
                  handle->object->nbytes);
    for (struct emu_object *object = objects; object; object = object->next)
        if (object->kind == EMU_OBJECT_MULTICAST)
            emu__multicast_report(object);
}
