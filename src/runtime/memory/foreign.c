/*
 * Asks the driver whether the device can access memory that symm did not allocate. Otherwise a host
 * array passed to a collective would fault in the kernel and destroy the context.
 */
#include "runtime/base/numbers.h"
#include "state.h"

enum { PAGE = 4096 }; /* devices map memory by pages of at least this */

void symm__memory_accept_pages(struct symm_memory *m)
{
    m->foreign_unit = PAGE;
}

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
 * Remembers the allocation around `at`. Returns its bytes from `at` on. If it is freed later, a new
 * allocation at the same addresses is not checked again.
 */
static size_t remember(struct symm_memory *m, CUdeviceptr at)
{
    const struct symm_driver *drv = m->config.drv;
    struct symm_known_range r = {0};

    if (drv->cuPointerGetAttribute(&r.start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, at) !=
            CUDA_SUCCESS ||
        drv->cuPointerGetAttribute(&r.nbytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, at) != CUDA_SUCCESS)
        return 0;
    if (m->foreign_unit)
        r.nbytes = symm__round_up(r.start + r.nbytes, m->foreign_unit) - r.start;
    pthread_rwlock_wrlock(&m->lock);
    m->known[m->next_known++ % SYMM_KNOWN_RANGES] = r;
    pthread_rwlock_unlock(&m->lock);
    return r.nbytes - (size_t)(at - r.start);
}

/* Whether the device shares the host's page tables and so can access all host memory. */
static bool accesses_pageable(const struct symm_memory *m)
{
    int value = 0;

    return m->config.drv->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
                                               m->config.device) == CUDA_SUCCESS &&
           value;
}

/*
 * *run: number of bytes from `at` on for which the answer is known to hold. Only INVALID_VALUE
 * means that the address is unknown; other errors say nothing about it.
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
                   "%p is host memory or no memory: the device cannot access it", ptr);
    else if (nbytes > run && nbytes > 1 && !is_accessible(m, first + nbytes - 1, &run))
        symm__fail(SYMM_ERROR_ARGUMENT,
                   "%zu bytes at %p run beyond the end of what the device can access", nbytes, ptr);
    else
        return true;
    return false;
}
