/*
 * Memory that is not symm's: whether the device can access it, as the driver knows. A collective
 * that gets a host array would otherwise end the context with a fault of its kernel.
 */
#include "state.h"

bool symm__memory_is_known(const struct symm_memory *m, CUdeviceptr at, size_t nbytes)
{
    for (int i = 0; i < SYMM_KNOWN_RANGES; i++) {
        const struct symm_known_range *r = &m->known[i];
        if (at - r->start < r->nbytes && nbytes <= r->nbytes - (at - r->start))
            return true;
    }
    return false;
}

/*
 * Remembers the allocation around `at`, and returns how many bytes it has from there on. It may be
 * freed later: another one at its place then goes unchecked.
 */
static size_t remember(struct symm_memory *m, CUdeviceptr at)
{
    const struct symm_driver *drv = m->config.drv;
    struct symm_known_range r = {0};

    if (drv->cuPointerGetAttribute(&r.start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) !=
            CUDA_SUCCESS ||
        drv->cuPointerGetAttribute(&r.nbytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) != CUDA_SUCCESS)
        return 0;
    pthread_rwlock_wrlock(&m->lock);
    m->known[m->next_known++ % SYMM_KNOWN_RANGES] = r;
    pthread_rwlock_unlock(&m->lock);
    return r.nbytes - (size_t)(at - r.start);
}

/* Where hosts and devices share their page tables a device can access all of the host's memory. */
static bool accesses_pageable(const struct symm_memory *m)
{
    int value = 0;

    return m->config.drv->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
                                               m->config.device) == CUDA_SUCCESS &&
           value;
}

/*
 * *run: how many bytes from there on the answer is for, as far as is known. A driver that fails in
 * another way has said nothing about the address.
 */
static bool is_accessible(struct symm_memory *m, CUdeviceptr at, size_t *run)
{
    unsigned type;
    CUresult cu = m->config.drv->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at);

    *run = cu == CUDA_SUCCESS ? remember(m, at) : 0;
    return cu != CUDA_ERROR_INVALID_VALUE || accesses_pageable(m);
}

bool symm__memory_ask(struct symm_memory *m, const void *ptr, size_t nbytes)
{
    CUdeviceptr first = (CUdeviceptr)(uintptr_t)ptr;
    size_t run;

    if (!is_accessible(m, first, &run))
        symm__fail(SYMM_ERROR_ARGUMENT,
                   "%p is memory of the host, or none at all: the device cannot access it", ptr);
    else if (nbytes > run && nbytes > 1 && !is_accessible(m, first + nbytes - 1, &run))
        symm__fail(SYMM_ERROR_ARGUMENT,
                   "%zu bytes at %p run beyond the end of what the device can access", nbytes, ptr);
    else
        return true;
    return false;
}
