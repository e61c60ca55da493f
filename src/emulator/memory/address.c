#include "address.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "emulator/state/devices.h"
#include "range.h"

/* Returns the distance from an address in no range to the next range. */
static size_t gap_after(uintptr_t at)
{
    struct emu_range *next = emu__range_at(emu__range_after(at));
    return next ? next->start - at : SIZE_MAX - at;
}

static void look_up(const struct emu_device *device, uintptr_t at, struct emu_address *out)
{
    struct emu_range *range = emu__range_find(at);
    *out = (struct emu_address){.kind = EMU_ADDRESS_FOREIGN, .device = -1};
    if (!range) {
        struct emu_reservation *r = emu__reservation_find(at, 1);
        out->run = gap_after(at);
        if (r) {
            out->kind = EMU_ADDRESS_UNMAPPED;
            if (out->run > r->start + r->nbytes - at)
                out->run = r->start + r->nbytes - at;
        } else {
            out->home = (char *)at;
            out->access = EMU_READ | EMU_WRITE;
        }
        return;
    }
    out->kind = range->kind;
    out->device = range->device;
    out->start = range->start;
    out->nbytes = range->nbytes;
    out->run = range->start + range->nbytes - at;
    if (range->object)
        out->access = device ? range->access[device->ordinal] : 0;
    else if (range->kind == EMU_ADDRESS_HOST || (device && device->ordinal == range->device))
        out->access = EMU_READ | EMU_WRITE;
    if (range->kind == EMU_ADDRESS_MAPPED)
        out->home = emu__data(range->object) + (at - range->start);
    else if (range->kind != EMU_ADDRESS_MULTICAST)
        out->home = (char *)at;
}

void emu__address(const struct emu_device *device, const void *ptr, struct emu_address *out)
{
    pthread_mutex_lock(&emu__lock);
    look_up(device, (uintptr_t)ptr, out);
    pthread_mutex_unlock(&emu__lock);
}

/* The guard pages around cuMemAlloc and pinned memory are in no range. */
static const struct emu_range *guarded_by(uintptr_t at)
{
    for (size_t i = 0; i < emu__range_count(); i++) {
        const struct emu_range *range = emu__range_at(i);
        if (range->base && at - (uintptr_t)range->base < range->base_nbytes)
            return range;
    }
    return NULL;
}

/* Returns the rule that `access` to an address breaks. NULL: none. */
static const char *broken_rule(const struct emu_device *device, uintptr_t at, int access,
                               const struct emu_address *address, char *text, size_t text_nbytes)
{
    switch (address->kind) {
    case EMU_ADDRESS_FOREIGN: {
        const struct emu_range *range = guarded_by(at);
        if (!range)
            return NULL;
        snprintf(text, text_nbytes, "%p is outside of the allocation at %#zx of %zu bytes",
                 (void *)at, (size_t)range->start, range->nbytes);
        return text;
    }
    case EMU_ADDRESS_UNMAPPED:
        snprintf(text, text_nbytes, "nothing is mapped at %p", (void *)at);
        return text;
    case EMU_ADDRESS_MULTICAST:
        snprintf(text, text_nbytes, "plain access to the multicast address %p", (void *)at);
        return text;
    default:
        if ((address->access & access) == access)
            return NULL;
        snprintf(text, text_nbytes, "device %d %s %p, memory of device %d",
                 device ? device->ordinal : -1,
                 address->access ? "may only read" : "has no access to", (void *)at,
                 address->device);
        return text;
    }
}

bool emu__accessible(const struct emu_device *device, const void *ptr, size_t nbytes, int access,
                     char *why, size_t why_nbytes)
{
    uintptr_t at = (uintptr_t)ptr;
    bool ok = nbytes <= UINTPTR_MAX - at;
    if (!ok)
        snprintf(why, why_nbytes, "%zu bytes at %p: beyond the end of the address space", nbytes,
                 ptr);
    pthread_mutex_lock(&emu__lock);
    while (ok && nbytes > 0) {
        struct emu_address address;
        look_up(device, at, &address);
        ok = address.kind == EMU_ADDRESS_DEVICE ||
             !broken_rule(device, at, access, &address, why, why_nbytes);
        size_t run = address.run < nbytes ? address.run : nbytes;
        at += run;
        nbytes -= run;
    }
    pthread_mutex_unlock(&emu__lock);
    return ok;
}

void emu__describe(const struct emu_device *device, const void *ptr, char *text, size_t text_nbytes)
{
    struct emu_address address;
    pthread_mutex_lock(&emu__lock);
    look_up(device, (uintptr_t)ptr, &address);
    if (!broken_rule(device, (uintptr_t)ptr, EMU_READ | EMU_WRITE, &address, text, text_nbytes))
        snprintf(text, text_nbytes,
                 address.kind == EMU_ADDRESS_FOREIGN
                     ? "%p is memory of the host, or unmapped: a device cannot access it"
                     : "%p faulted although the device may access it",
                 ptr);
    pthread_mutex_unlock(&emu__lock);
}

/* With the lock: returns the range with memory that contains `at`, or the gap around it. */
static struct emu_span span_around(const struct emu_device *device, uintptr_t at)
{
    size_t i = emu__range_after(at);
    const struct emu_range *range = emu__range_at(i);
    uintptr_t start = 0, end = range ? range->start : UINTPTR_MAX;
    if (range && at >= range->start) {
        struct emu_address address;
        look_up(device, range->start, &address);
        return (struct emu_span){range->start, range->nbytes, address.home,
                                 address.home ? address.access : 0};
    }
    if (i > 0)
        start = emu__range_at(i - 1)->start + emu__range_at(i - 1)->nbytes;
    return (struct emu_span){.start = start, .nbytes = end - start};
}

enum { SPANS = 32 }; /* a power of two */

/* A thread's last spans, of one device and one layout. */
struct span_cache {
    uint64_t layout;
    const struct emu_device *device;
    unsigned next, last;
    struct emu_span at[SPANS];
};

const struct emu_span *emu__span(const void *ptr)
{
    static _Thread_local struct span_cache thread_cache;
    struct span_cache *const cache = &thread_cache; /* once: to find it takes a call */
    const uintptr_t at = (uintptr_t)ptr;
    const uint64_t layout = atomic_load_explicit(&emu__layout, memory_order_acquire);
    const struct emu_device *device = emu__running;

    if (cache->layout != layout || cache->device != device)
        *cache = (struct span_cache){.layout = layout, .device = device};
    /* Exclusive or: of two spans that take turns, each is as near as the other. */
    for (unsigned i = 0; i < SPANS; i++) {
        const unsigned k = cache->last ^ i;
        if (at - cache->at[k].start < cache->at[k].nbytes) {
            cache->last = k;
            return &cache->at[k];
        }
    }
    cache->last = cache->next++ % SPANS;
    pthread_mutex_lock(&emu__lock);
    cache->at[cache->last] = span_around(device, at);
    pthread_mutex_unlock(&emu__lock);
    return &cache->at[cache->last];
}
