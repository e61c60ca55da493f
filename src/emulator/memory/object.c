#include "object.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <symm/detail/emulated.h>
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"
#include "emulator/state/machine.h"
#include "multicast.h"

static struct emu_object *objects;
static _Atomic uint64_t garbage_serial;

void emu__fill_garbage(void *data, size_t nbytes)
{
    uint64_t x = emu__random(emu__machine.seed, atomic_fetch_add(&garbage_serial, 1)) | 1;
    uint64_t *words = data;
    for (size_t i = 0; i < nbytes / sizeof *words; i++)
        words[i] = emu__draw(&x) | 0x0101010101010101u; /* no byte is zero */
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
    int fd = memfd_create(EMU_MEMFD_NAME, MFD_CLOEXEC);
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

struct emu_object *emu__object_by_fd(int fd)
{
    struct emu_object *object = objects;
    while (object && object->fd != fd)
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
                         ? "the memory is still bound to a multicast object: unbind first"
                         : "the multicast object still has %d binds of this process: unbind first",
                     object->binds);
}

void emu__object_unuse(struct emu_object *object)
{
    if (--object->users == 0 && object->created_here && object->kind == EMU_OBJECT_MEMORY)
        emu__memory_give(object->device, object->nbytes);
    emu__object_put(object);
}

void emu__bind_report(void)
{
    for (struct emu_object *object = objects; object; object = object->next)
        if (object->kind == EMU_OBJECT_MULTICAST)
            emu__multicast_report(object);
}
