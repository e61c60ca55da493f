/* Slabs of control lines: one host and one device allocation for every 64 groups. */
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
    pthread_mutex_t lock; /* guards what follows */
    struct slab *slabs;
    struct symm_abort_line *free;
};

static symm_status add_slab(struct symm_abort_lines *c)
{
    struct slab *s = calloc(1, sizeof *s);
    CUdeviceptr host_address;
    symm_status st = SYMM_OK;

    if (!s)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    TRY_CU(c->drv, cuMemHostAlloc, &s->host, LINES * sizeof(struct symm_host_line),
           CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
    TRY_CU(c->drv, cuMemHostGetDevicePointer, &host_address, s->host, 0);
    TRY_CU(c->drv, cuMemAlloc, &s->device, LINES * sizeof(struct symm_device_line));
    for (int i = LINES - 1; i >= 0; i--) {
        s->lines[i] = (struct symm_abort_line){
            .host = (struct symm_host_line *)s->host + i,
            .host_address = host_address + (size_t)i * sizeof(struct symm_host_line),
            .device_address = s->device + (size_t)i * sizeof(struct symm_device_line),
            .next_free = c->free,
        };
        c->free = &s->lines[i];
    }
    s->next = c->slabs;
    c->slabs = s;
    s = NULL;
out:
    if (s && s->host)
        c->drv->cuMemFreeHost(s->host);
    free(s);
    return st;
}

symm_status symm__abort_lines_create(const struct symm_driver *drv, struct symm_abort_lines **out)
{
    struct symm_abort_lines *c = calloc(1, sizeof *c);
    symm_status st;

    if (!c)
        return symm__fail(SYMM_ERROR_MEMORY, "out of host memory");
    c->drv = drv;
    pthread_mutex_init(&c->lock, NULL);
    st = add_slab(c);
    if (st == SYMM_OK)
        *out = c;
    else
        symm__abort_lines_destroy(c);
    return st;
}

symm_status symm__abort_lines_destroy(struct symm_abort_lines *c)
{
    symm_status st = SYMM_OK;

    if (!c)
        return SYMM_OK;
    while (c->slabs) {
        struct slab *s = c->slabs;
        c->slabs = s->next;
        symm__driver_note(c->drv, c->drv->cuMemFree(s->device), "cuMemFree", &st);
        symm__driver_note(c->drv, c->drv->cuMemFreeHost(s->host), "cuMemFreeHost", &st);
        free(s);
    }
    pthread_mutex_destroy(&c->lock);
    free(c);
    return st;
}

symm_status symm__abort_line_take(struct symm_abort_lines *c, struct symm_abort_line **out)
{
    symm_status st = SYMM_OK;

    pthread_mutex_lock(&c->lock);
    if (!c->free)
        st = add_slab(c);
    if (st == SYMM_OK) {
        *out = c->free;
        c->free = c->free->next_free;
        memset((*out)->host, 0, sizeof *(*out)->host);
    }
    pthread_mutex_unlock(&c->lock);
    return st;
}

void symm__abort_line_put_back(struct symm_abort_lines *c, struct symm_abort_line *line)
{
    if (!line)
        return;
    pthread_mutex_lock(&c->lock);
    line->next_free = c->free;
    c->free = line;
    pthread_mutex_unlock(&c->lock);
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
     * A record that changes under our eyes belongs to a wait that has gone on: there will be
     * another look.
     */
    return __atomic_load_n(&r->valid, __ATOMIC_RELAXED) == valid;
}
