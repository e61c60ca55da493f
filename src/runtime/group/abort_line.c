/* Slabs of abort lines: one host and one device allocation for 64 groups. */
#include "abort_line.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 64 };

struct slab {
    struct slab *next;
    void *host;
    CUdeviceptr device;
    struct symm_abort_line lines[LINES];
};

struct symm_abort_lines {
    const struct symm_driver *drv;
    pthread_mutex_t lock; /* guards the members below */
    struct slab *slabs;
    struct symm_abort_line *free;
};

static symm_status add_slab(struct symm_abort_lines *lines)
{
    struct slab *s = calloc(1, sizeof *s);
    CUdeviceptr host_address;
    symm_status st = SYMM_OK;

    if (!s)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    TRY_CU(lines->drv, cuMemHostAlloc, &s->host, LINES * sizeof(struct symm_host_line),
           CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
    TRY_CU(lines->drv, cuMemHostGetDevicePointer, &host_address, s->host, 0);
    TRY_CU(lines->drv, cuMemAlloc, &s->device, LINES * sizeof(struct symm_device_line));
    for (int i = LINES - 1; i >= 0; i--) {
        s->lines[i] = (struct symm_abort_line){
            .host = (struct symm_host_line *)s->host + i,
            .host_address = host_address + (size_t)i * sizeof(struct symm_host_line),
            .device_address = s->device + (size_t)i * sizeof(struct symm_device_line),
            .next_free = lines->free,
        };
        lines->free = &s->lines[i];
    }
    s->next = lines->slabs;
    lines->slabs = s;
    s = NULL;
out:
    if (s && s->host)
        lines->drv->cuMemFreeHost(s->host);
    free(s);
    return st;
}

symm_status symm__abort_lines_create(const struct symm_driver *drv, struct symm_abort_lines **out)
{
    struct symm_abort_lines *lines = calloc(1, sizeof *lines);
    symm_status st;

    if (!lines)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    lines->drv = drv;
    pthread_mutex_init(&lines->lock, NULL);
    st = add_slab(lines);
    if (st == SYMM_OK)
        *out = lines;
    else
        symm__abort_lines_destroy(lines);
    return st;
}

symm_status symm__abort_lines_destroy(struct symm_abort_lines *lines)
{
    symm_status st = SYMM_OK;

    if (!lines)
        return SYMM_OK;
    while (lines->slabs) {
        struct slab *s = lines->slabs;
        lines->slabs = s->next;
        symm__driver_note(lines->drv, lines->drv->cuMemFree(s->device), "cuMemFree", &st);
        symm__driver_note(lines->drv, lines->drv->cuMemFreeHost(s->host), "cuMemFreeHost", &st);
        free(s);
    }
    pthread_mutex_destroy(&lines->lock);
    free(lines);
    return st;
}

symm_status symm__abort_line_take(struct symm_abort_lines *lines, struct symm_abort_line **out)
{
    symm_status st = SYMM_OK;

    pthread_mutex_lock(&lines->lock);
    if (!lines->free)
        st = add_slab(lines);
    if (st == SYMM_OK) {
        *out = lines->free;
        lines->free = lines->free->next_free;
        memset((*out)->host, 0, sizeof *(*out)->host);
    }
    pthread_mutex_unlock(&lines->lock);
    return st;
}

void symm__abort_line_put_back(struct symm_abort_lines *lines, struct symm_abort_line *line)
{
    if (!line)
        return;
    pthread_mutex_lock(&lines->lock);
    line->next_free = lines->free;
    lines->free = line;
    pthread_mutex_unlock(&lines->lock);
}

void symm__abort_line_abort(struct symm_abort_line *line)
{
    __atomic_store_n(&line->host->abort, 1, __ATOMIC_RELEASE);
}

bool symm__abort_line_record(const struct symm_abort_line *line, struct symm_wait_record *out)
{
    const struct symm_wait_record *r = &line->host->record;
    uint32_t valid = __atomic_load_n(&r->valid, __ATOMIC_ACQUIRE);

    if (valid == 0)
        return false;
    *out = (struct symm_wait_record){
        .valid = valid,
        .kind = __atomic_load_n(&r->kind, __ATOMIC_ACQUIRE),
        .from = __atomic_load_n(&r->from, __ATOMIC_ACQUIRE),
        .channel = __atomic_load_n(&r->channel, __ATOMIC_ACQUIRE),
        .expected = __atomic_load_n(&r->expected, __ATOMIC_ACQUIRE),
        .seen = __atomic_load_n(&r->seen, __ATOMIC_ACQUIRE),
        .pad = __atomic_load_n(&r->pad, __ATOMIC_ACQUIRE),
    };
    /*
     * A record that changes during the copy belongs to a wait that has ended. The next tick looks
     * again.
     */
    return __atomic_load_n(&r->valid, __ATOMIC_RELAXED) == valid;
}
