/*
 * Maps memory of other code in the windows, as a segment of its own. The driver gives the handle of
 * memory that cuMemCreate() has made, and maps such memory only as a whole.
 */
#include "state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "heap.h"

/* An allocation of other code, and an object in it. */
struct theirs {
    CUmemGenericAllocationHandle handle; /* 0: none */
    uint64_t nbytes, at;                 /* of the allocation; of the object in it */
};

static bool is_ours(struct symm_memory *m, CUdeviceptr ptr)
{
    uint64_t off;

    pthread_rwlock_rdlock(&m->lock);
    const bool multicast = symm__multicast_owns(m, ptr);
    pthread_rwlock_unlock(&m->lock);
    return multicast || symm__windows_find(&m->windows, ptr, &off) >= 0;
}

/* Whether this rank's device has the memory, and the other ranks can map it. */
static symm_status check_properties(const struct symm_memory_config *c, const void *ptr,
                                    const struct theirs *t)
{
    CUmemAllocationProp prop;
    symm_status st = SYMM_OK;

    TRY_CU(c->drv, cuMemGetAllocationPropertiesFromHandle, &prop, t->handle);
    if (prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return symm__fail(SYMM_ERROR_UNSUPPORTED, "theirs %p is not memory of a device", ptr);
    if (prop.location.id != c->device)
        return symm__fail(SYMM_ERROR_ARGUMENT, "theirs %p is memory of device %d, not of %d", ptr,
                          prop.location.id, c->device);
    if (!(prop.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "theirs %p was created without CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR: "
                          "other processes cannot map it",
                          ptr);
    if (t->nbytes % c->granularity)
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "theirs %p lies in an allocation of %" PRIu64
                          " bytes, no multiple of the granularity %" PRIu64,
                          ptr, t->nbytes, c->granularity);
out:
    return st;
}

static symm_status look_up(struct symm_memory *m, const void *ptr, size_t nbytes,
                           struct theirs *out)
{
    const struct symm_driver *drv = m->config.drv;
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)ptr;
    CUdeviceptr start;
    size_t size;

    if (is_ours(m, at))
        return symm__fail(SYMM_ERROR_ARGUMENT, "theirs %p is symmetric memory already", ptr);
    if (drv->cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) ||
        drv->cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at))
        return symm__fail(SYMM_ERROR_ARGUMENT, "theirs %p is not memory of the driver", ptr);
    if (nbytes > size - (at - start))
        return symm__fail(SYMM_ERROR_ARGUMENT,
                          "nbytes is %zu; the allocation of theirs %p ends after %zu", nbytes, ptr,
                          size - (size_t)(at - start));
    if (drv->cuMemRetainAllocationHandle(&out->handle, (void *)(uintptr_t)ptr) != CUDA_SUCCESS)
        return symm__fail(SYMM_ERROR_UNSUPPORTED,
                          "theirs %p is not memory of cuMemCreate(): the driver maps no other "
                          "memory at an address of symm's choice",
                          ptr);
    out->nbytes = size;
    out->at = at - start;
    return check_properties(&m->config, ptr, out);
}

/* Two votes, so that a failure of one rank is not taken for a difference of allocations. */
static symm_status agree(struct symm_memory *m, struct symm_host_comm *comm, const char *what,
                         symm_status mine, const struct theirs *theirs, uint64_t answer[4])
{
    char text[SYMM_TEXT_MAX];
    struct symm_vote checked = {.text = what, .status = mine, .fd = -1};
    symm_status st = symm__host_comm_vote(comm, &checked, symm__deadline_in(m->config.timeout_ms));

    if (st != SYMM_OK)
        return st;
    snprintf(text, sizeof text, "%.300s at %" PRIu64 " of an allocation of %" PRIu64 " bytes", what,
             theirs->at, theirs->nbytes);
    struct symm_vote place = {.text = text,
                              .op = SYMM_HEAP_ALLOC,
                              .args = {theirs->nbytes, SYMM_HEAP_NEW_SEGMENT},
                              .fd = -1};
    st = symm__host_comm_vote(comm, &place, symm__deadline_in(m->config.timeout_ms));
    for (int i = 0; i < 4; i++)
        answer[i] = place.answer[i];
    return st;
}

/* Maps it at the agreed offset on all ranks. Takes the handle over. */
static symm_status map(struct symm_memory *m, struct symm_host_comm *comm, const char *what,
                       const struct theirs *theirs, uint64_t off)
{
    bool kept = false;
    const symm_status st =
        symm__memory_make_segment(m, comm, what, off, theirs->nbytes, theirs->handle, &kept);

    if (st != SYMM_OK && !kept)
        symm__exchange_freed(m->config.exchange, off);
    return st;
}

symm_status symm__memory_register(struct symm_memory *m, struct symm_host_comm *comm,
                                  const void *owner, void *theirs, size_t nbytes, const char *what,
                                  void **out)
{
    struct theirs t = {.handle = 0};
    uint64_t answer[4];
    const symm_status slot = symm__memory_reserve_slot(m);
    symm_status st = slot == SYMM_OK ? look_up(m, theirs, nbytes, &t) : slot;

    st = agree(m, comm, what, st, &t, answer);
    if (st == SYMM_OK)
        st = map(m, comm, what, &t, answer[1]);
    else if (t.handle)
        RELEASE_CU(m->config.drv, st, cuMemRelease, t.handle);
    if (st != SYMM_OK) {
        if (slot == SYMM_OK)
            symm__memory_unreserve_slot(m);
        return st;
    }
    const struct symm_block block = {.off = answer[1] + t.at,
                                     .nbytes = nbytes,
                                     .requested = nbytes,
                                     .segment = answer[1],
                                     .owner = owner,
                                     .members = symm__host_comm_members(comm),
                                     .kind = SYMM_BLOCK_REGISTERED};
    symm__memory_insert(m, &block);
    *out = symm__memory_window(m, m->config.rank) + block.off;
    return SYMM_OK;
}
