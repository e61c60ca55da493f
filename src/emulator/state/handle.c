/* A set of addresses, so that a call with a destroyed handle is found out without reading it. */
#include "handle.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include "call.h"

struct entry {
    const void *handle; /* NULL: free */
    enum emu_handle_kind kind;
};

/* Open addressing, linear probing, at most half full. Readers do not exclude each other. */
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct entry *table;
static size_t capacity, count;

static size_t slot_of(const void *handle)
{
    return (size_t)(((uintptr_t)handle >> 4) * 0x9E3779B97F4A7C15u >> 20) & (capacity - 1);
}

/* Returns the handle's entry, or the free entry for it. */
static struct entry *find(const void *handle)
{
    size_t i = slot_of(handle);
    while (table[i].handle && table[i].handle != handle)
        i = (i + 1) & (capacity - 1);
    return &table[i];
}

static bool grow(void)
{
    struct entry *old = table;
    size_t old_capacity = capacity;
    struct entry *bigger = calloc(capacity ? capacity * 2 : 256, sizeof *bigger);
    if (!bigger)
        return false;
    capacity = capacity ? capacity * 2 : 256;
    table = bigger;
    for (size_t i = 0; i < old_capacity; i++)
        if (old[i].handle)
            *find(old[i].handle) = old[i];
    free(old);
    return true;
}

static CUresult unknown(enum emu_handle_kind kind, const void *handle)
{
    static const char *const names[] = {
        [EMU_HANDLE_STREAM] = "stream", [EMU_HANDLE_EVENT] = "event",
        [EMU_HANDLE_MODULE] = "module", [EMU_HANDLE_FUNCTION] = "function",
        [EMU_HANDLE_GRAPH] = "graph",   [EMU_HANDLE_GRAPH_EXEC] = "executable graph",
    };
    return emu__rule(CUDA_ERROR_INVALID_HANDLE, "no such %s: %p", names[kind], handle);
}

bool emu__handle_add(enum emu_handle_kind kind, const void *handle)
{
    pthread_rwlock_wrlock(&lock);
    bool ok = count * 2 < capacity || grow();
    if (ok) {
        *find(handle) = (struct entry){handle, kind};
        count++;
    }
    pthread_rwlock_unlock(&lock);
    return ok;
}

CUresult emu__handle_remove(enum emu_handle_kind kind, const void *handle)
{
    pthread_rwlock_wrlock(&lock);
    struct entry *e = capacity && handle ? find(handle) : NULL;
    bool found = e && e->handle && e->kind == kind;
    if (found) {
        e->handle = NULL;
        count--;
        /* Inserts the rest of the run again: its entries may have been pushed past this slot. */
        for (size_t i = (size_t)(e - table + 1) & (capacity - 1); table[i].handle;
             i = (i + 1) & (capacity - 1)) {
            struct entry moved = table[i];
            table[i].handle = NULL;
            *find(moved.handle) = moved;
        }
    }
    pthread_rwlock_unlock(&lock);
    return found ? CUDA_SUCCESS : unknown(kind, handle);
}

CUresult emu__handle_check(enum emu_handle_kind kind, const void *handle)
{
    pthread_rwlock_rdlock(&lock);
    const struct entry *e = capacity && handle ? find(handle) : NULL;
    bool found = e && e->handle && e->kind == kind;
    pthread_rwlock_unlock(&lock);
    return found ? CUDA_SUCCESS : unknown(kind, handle);
}
