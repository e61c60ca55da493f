/*
 * Translates a multicast address into the memory of each bound device. This process maps each
 * memory once; that of another process by the binder's descriptor. When the binder has died,
 * garbage replaces its memory: writes are lost and reads are undefined, but the kernel goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "emulator/state/devices.h"
#include "emulator/state/machine.h"
#include "multicast.h"
#include "range.h"

/*
 * A thread's cache: addresses in [start, end) have these replicas as long as neither this process's
 * ranges nor the object's binds change.
 */
struct cache {
    uint64_t layout;
    const _Atomic uint64_t *generation;
    uint64_t bound; /* the generation at that time */
    const struct emu_device *device;
    uintptr_t start, end;
    int n;
    char *at[EMU_MAX_DEVICES]; /* of start */
};

static _Thread_local struct cache cache;
static _Thread_local uint64_t shuffles;

static void forget(struct emu_replica *replica)
{
    atomic_fetch_add(&emu__layout, 1);
    if (replica->object)
        emu__object_put(replica->object);
    else
        munmap(replica->data, replica->nbytes);
}

void emu__replicas_drop(struct emu_multicast *multicast)
{
    for (size_t i = 0; i < multicast->nreplicas; i++)
        forget(&multicast->replicas[i]);
    free(multicast->replicas);
    multicast->replicas = NULL;
    multicast->nreplicas = 0;
}

static bool is_bound(const struct emu_control *control, uint64_t inode)
{
    for (uint32_t i = 0; i < control->nbinds; i++)
        if (control->binds[i].inode == inode)
            return true;
    return false;
}

/* Forgets memory that is no longer bound, so that it can be freed. */
static void clean(struct emu_multicast *multicast, const struct emu_control *control)
{
    uint64_t generation = atomic_load(&control->generation);
    if (multicast->generation == generation)
        return;
    size_t n = 0;
    for (size_t i = 0; i < multicast->nreplicas; i++) {
        if (is_bound(control, multicast->replicas[i].inode))
            multicast->replicas[n++] = multicast->replicas[i];
        else
            forget(&multicast->replicas[i]);
    }
    multicast->nreplicas = n;
    multicast->generation = generation;
}

/* Whether a process has ended, even if its parent has not waited for it yet. */
static bool has_ended(pid_t pid)
{
    char path[32], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return errno == ENOENT;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    const char *state = strrchr(text, ')'); /* the name before it may contain any character */
    return !state || state[1] == '\0' || state[2] == 'Z' || state[2] == 'X';
}

/*
 * Opens the binder's descriptor again. -1: it cannot be opened, and *gone tells whether the binder
 * has ended. A process refuses for a moment while it is being ended.
 */
static int open_binder(const struct emu_bind *bind, bool *gone)
{
    char path[64];
    struct stat file;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)bind->pid, (int)bind->fd);
    *gone = false;
    for (int tries = 0; tries < 100 && !*gone; tries++) {
        int fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &file) == 0 && file.st_ino == bind->inode)
            return fd;
        int error = errno;
        if (fd >= 0)
            close(fd);
        /* No such descriptor, or another process has its number by now. */
        *gone = fd >= 0 || error == ENOENT || has_ended(bind->pid);
        if (error == EMFILE || error == ENFILE || error == ENOMEM)
            return -1;
        if (!*gone)
            usleep(1000);
    }
    return -1;
}

static bool stand_in(const struct emu_bind *bind, struct emu_replica *out)
{
    *out = (struct emu_replica){.inode = bind->inode, .nbytes = bind->mem_off + bind->nbytes};
    out->data = mmap(NULL, out->nbytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (out->data == MAP_FAILED)
        return false;
    emu__fill_garbage(out->data, out->nbytes);
    return true;
}

static bool open_replica(const struct emu_bind *bind, struct emu_replica *out)
{
    struct emu_object *object = emu__object_by_inode(bind->inode);
    if (object) {
        object->refs++;
    } else {
        bool gone;
        int fd = open_binder(bind, &gone);
        if (fd < 0)
            return gone && stand_in(bind, out);
        CUresult result = emu__object_open(fd, false, &object);
        close(fd);
        if (result != CUDA_SUCCESS)
            return false;
    }
    *out = (struct emu_replica){bind->inode, object, emu__data(object), 0};
    return true;
}

/* Returns the bound memory's first byte in this process. NULL: it cannot be mapped. */
static char *data_of(struct emu_multicast *multicast, const struct emu_bind *bind)
{
    for (size_t i = 0; i < multicast->nreplicas; i++)
        if (multicast->replicas[i].inode == bind->inode)
            return multicast->replicas[i].data;
    struct emu_replica *grown =
        realloc(multicast->replicas, (multicast->nreplicas + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    multicast->replicas = grown;
    if (!open_replica(bind, &grown[multicast->nreplicas]))
        return NULL;
    return grown[multicast->nreplicas++].data;
}

static const struct emu_bind *find_bind(const struct emu_control *control, int device, uint64_t off)
{
    for (uint32_t i = 0; i < control->nbinds; i++) {
        const struct emu_bind *bind = &control->binds[i];
        if (bind->device == device && off >= bind->mc_off && off - bind->mc_off < bind->nbytes)
            return bind;
    }
    return NULL;
}

/* With the control locked: finds the replicas of the byte at off and the extent of their binds. */
static bool collect(struct emu_object *object, uint64_t off, struct cache *r, char *why,
                    size_t why_nbytes)
{
    struct emu_control *control = emu__control(object);
    uint64_t before = off, after = object->nbytes - off;
    clean(object->multicast, control);
    r->n = 0;
    for (int d = 0; d < EMU_MAX_DEVICES; d++) {
        if (!control->added[d])
            continue;
        const struct emu_bind *bind = find_bind(control, d, off);
        if (!bind) {
            snprintf(why, why_nbytes, "device %d has nothing bound at multicast offset %#llx", d,
                     (unsigned long long)off);
            return false;
        }
        char *data = data_of(object->multicast, bind);
        if (!data) {
            snprintf(why, why_nbytes, "the memory bound by device %d cannot be mapped", d);
            return false;
        }
        uint64_t inside = off - bind->mc_off;
        before = before < inside ? before : inside;
        after = after < bind->nbytes - inside ? after : bind->nbytes - inside;
        r->at[r->n++] = data + bind->mem_off + inside;
    }
    for (int i = 0; i < r->n; i++)
        r->at[i] -= before;
    r->start -= before;
    r->end = r->start + before + after;
    r->generation = &control->generation;
    r->bound = atomic_load(&control->generation);
    return true;
}

/* Fills in r for the address. False: `why` gets the broken rule. */
static bool fill_cache(struct cache *r, const struct emu_device *device, uintptr_t at, char *why,
                       size_t why_nbytes)
{
    struct emu_range *range = emu__range_find(at);
    r->layout = atomic_load(&emu__layout);
    r->generation = NULL;
    r->device = device;
    r->start = at;
    if (!range || range->kind != EMU_ADDRESS_MULTICAST) {
        snprintf(why, why_nbytes, "%p is no multicast address", (void *)at);
        return false;
    }
    if (!device || range->access[device->ordinal] != (EMU_READ | EMU_WRITE)) {
        snprintf(why, why_nbytes, "device %d has no access to the multicast address %p",
                 device ? device->ordinal : -1, (void *)at);
        return false;
    }
    struct emu_control *control = emu__control(range->object);
    emu__control_lock(control);
    bool ok = collect(range->object, at - range->start, r, why, why_nbytes);
    emu__control_unlock(control);
    if (ok && r->end > range->start + range->nbytes)
        r->end = range->start + range->nbytes;
    return ok;
}

static void swap(void *out[], int i, int j)
{
    void *other = out[i];
    out[i] = out[j];
    out[j] = other;
}

static void put_in_order(void *out[], int n)
{
    if (emu__machine.order == SYMM_EMULATED_REVERSED) {
        for (int i = 0; i < n / 2; i++) {
            swap(out, i, n - 1 - i);
        }
    } else if (emu__machine.order == SYMM_EMULATED_RANDOM) {
        for (int i = n - 1; i > 0; i--) {
            int j = (int)(emu__random(emu__machine.seed, shuffles++) % (unsigned)(i + 1));
            swap(out, i, j);
        }
    }
}

int emu__replicas(const void *multicast, size_t nbytes, void *out[], char *why, size_t why_nbytes)
{
    struct cache *r = &cache;
    const struct emu_device *device = emu__device_current();
    uintptr_t at = (uintptr_t)multicast;
    if (nbytes != 4 && nbytes != 8 && nbytes != 16) {
        snprintf(why, why_nbytes, "a multimem access of %zu bytes, not of 4, 8 or 16", nbytes);
        return -1;
    }
    if (at % nbytes) {
        snprintf(why, why_nbytes, "misaligned multimem access of %zu bytes at %p", nbytes,
                 multicast);
        return -1;
    }
    bool known = r->generation && r->device == device &&
                 r->layout == atomic_load_explicit(&emu__layout, memory_order_acquire) &&
                 at - r->start < r->end - r->start &&
                 r->bound == atomic_load_explicit(r->generation, memory_order_acquire);
    if (!known) {
        pthread_mutex_lock(&emu__lock);
        known = fill_cache(r, device, at, why, why_nbytes);
        pthread_mutex_unlock(&emu__lock);
    }
    if (!known)
        return -1;
    for (int i = 0; i < r->n; i++)
        out[i] = r->at[i] + (at - r->start);
    put_in_order(out, r->n);
    return r->n;
}
