/* The table, sorted by address, and the entries that make and free reservations. */
#include "range.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "emulator/state/call.h"
#include "emulator/state/counts.h"
#include "emulator/state/devices.h"

_Atomic uint64_t emu__layout;

static struct emu_range **ranges;
static size_t nranges, capacity;
static struct emu_reservation *reservations;

size_t emu__range_count(void)
{
    return nranges;
}

struct emu_range *emu__range_at(size_t index)
{
    return index < nranges ? ranges[index] : NULL;
}

size_t emu__range_after(uintptr_t address)
{
    size_t low = 0, high = nranges;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle]->start + ranges[middle]->nbytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct emu_range *emu__range_find(uintptr_t address)
{
    struct emu_range *range = emu__range_at(emu__range_after(address));
    return range && range->start <= address ? range : NULL;
}

bool emu__range_add(struct emu_range *range)
{
    if (nranges == capacity) {
        size_t more = capacity ? 2 * capacity : 64;
        struct emu_range **grown = realloc(ranges, more * sizeof *grown);
        if (!grown)
            return false;
        ranges = grown;
        capacity = more;
    }
    size_t at = nranges++;
    for (; at > 0 && ranges[at - 1]->start > range->start; at--)
        ranges[at] = ranges[at - 1];
    ranges[at] = range;
    atomic_fetch_add(&emu__layout, 1);
    return true;
}

void emu__range_remove(struct emu_range *range)
{
    size_t at = emu__range_after(range->start);
    nranges--;
    for (; at < nranges; at++)
        ranges[at] = ranges[at + 1];
    if (nranges == 0) {
        free(ranges);
        ranges = NULL;
        capacity = 0;
    }
    atomic_fetch_add(&emu__layout, 1);
    free(range);
}

struct emu_reservation *emu__reservation_find(uintptr_t start, size_t nbytes)
{
    struct emu_reservation *r = reservations;
    while (r && (start < r->start || start - r->start > r->nbytes ||
                 nbytes > r->nbytes - (start - r->start)))
        r = r->next;
    return r;
}

/* Reserves aligned address space without memory. NULL: there is too little left. */
static char *reserve(size_t nbytes, size_t alignment, CUdeviceptr at)
{
    size_t more = alignment > EMU_PAGE ? alignment : 0;
    if (nbytes > SIZE_MAX - more)
        return NULL;
    char *all = mmap((void *)(uintptr_t)at, nbytes + more, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    size_t before = more ? (size_t)(-(uintptr_t)all & (alignment - 1)) : 0;
    if (before)
        munmap(all, before);
    if (more > before)
        munmap(all + before + nbytes, more - before);
    return all + before;
}

CUresult emu_cuMemAddressReserve(CUdeviceptr *ptr, size_t nbytes, size_t alignment, CUdeviceptr at,
                                 unsigned long long flags)
{
    EMU_BEGIN("size=%zu, alignment=%zu, addr=%#llx, flags=%#llx", nbytes, alignment, at, flags);
    EMU_NOT_NULL(ptr);
    if (flags != 0)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE, "flags must be 0"));
    if (nbytes == 0 || nbytes % EMU_PAGE || at % EMU_PAGE)
        return EMU_END(emu__rule(CUDA_ERROR_INVALID_VALUE,
                                 "size %zu and address %#llx must be multiples of the page size",
                                 nbytes, at));
    if (alignment & (alignment - 1))
        return EMU_END(
            emu__rule(CUDA_ERROR_INVALID_VALUE, "alignment %zu is no power of two", alignment));
    if (alignment < emu__machine.granularity)
        alignment = emu__machine.granularity;
    struct emu_reservation *r = malloc(sizeof *r);
    char *start = r ? reserve(nbytes, alignment, at) : NULL;
    if (!start) {
        free(r);
        return EMU_END(CUDA_ERROR_OUT_OF_MEMORY);
    }
    pthread_mutex_lock(&emu__lock);
    *r = (struct emu_reservation){reservations, (uintptr_t)start, nbytes};
    reservations = r;
    pthread_mutex_unlock(&emu__lock);
    emu__count(EMU_RESERVATIONS, 1);
    *ptr = (CUdeviceptr)(uintptr_t)start;
    return EMU_END(CUDA_SUCCESS);
}

static CUresult address_free(uintptr_t start, size_t nbytes)
{
    struct emu_reservation **at = &reservations;
    while (*at && ((*at)->start != start || (*at)->nbytes != nbytes))
        at = &(*at)->next;
    struct emu_reservation *r = *at;
    if (!r)
        return emu__rule(CUDA_ERROR_INVALID_VALUE,
                         "no reservation is exactly at %#zx with %zu bytes", (size_t)start, nbytes);
    struct emu_range *range = emu__range_at(emu__range_after(start));
    if (range && range->start < start + nbytes)
        return emu__rule(CUDA_ERROR_INVALID_VALUE, "the range is still mapped at %#zx: unmap first",
                         (size_t)range->start);
    munmap((void *)start, nbytes);
    *at = r->next;
    free(r);
    emu__count(EMU_RESERVATIONS, -1);
    return CUDA_SUCCESS;
}

CUresult emu_cuMemAddressFree(CUdeviceptr ptr, size_t nbytes)
{
    EMU_BEGIN("ptr=%#llx, size=%zu", ptr, nbytes);
    pthread_mutex_lock(&emu__lock);
    CUresult result = address_free((uintptr_t)ptr, nbytes);
    pthread_mutex_unlock(&emu__lock);
    return EMU_END(result);
}

void emu__range_report(void)
{
    static const char *const what[] = {
        [EMU_ADDRESS_FOREIGN] = "nothing",      [EMU_ADDRESS_UNMAPPED] = "nothing",
        [EMU_ADDRESS_MAPPED] = "mapping",       [EMU_ADDRESS_MULTICAST] = "multicast mapping",
        [EMU_ADDRESS_DEVICE] = "device memory", [EMU_ADDRESS_HOST] = "pinned host memory"};
    for (size_t i = 0; i < nranges; i++)
        emu__left("%s at %#zx of %zu bytes", what[ranges[i]->kind], (size_t)ranges[i]->start,
                  ranges[i]->nbytes);
    for (struct emu_reservation *r = reservations; r; r = r->next)
        emu__left("reservation at %#zx of %zu bytes", (size_t)r->start, r->nbytes);
}
