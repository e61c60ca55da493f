/* Managed tensors: somebody else's, and what is held of a context's memory. */
#ifndef TEST_DLPACK_TENSORS_H
#define TEST_DLPACK_TENSORS_H

#include <dlpack/dlpack.h>
#include <string.h>
#include <symm/dlpack.h>

static inline uint64_t requested(symm_context *ctx)
{
    symm_usage usage = {0};
    return symm_memory_usage(ctx, &usage) == SYMM_OK ? usage.requested : 0;
}

static inline uint64_t pending(symm_context *ctx)
{
    symm_usage usage = {0};
    return symm_memory_usage(ctx, &usage) == SYMM_OK ? usage.pending : 0;
}

static inline void drop(DLManagedTensor **managed)
{
    if (*managed)
        (*managed)->deleter(*managed);
    *managed = NULL;
}

/* A tensor as somebody else hands it over. */
struct theirs {
    DLManagedTensor managed;
    int64_t shape[8], strides[8];
};

static inline struct theirs *theirs_of(struct theirs *t, void *data, int ndim, const int64_t *shape)
{
    memset(t, 0, sizeof *t);
    for (int i = 0; i < ndim; i++)
        t->shape[i] = shape[i];
    t->managed.dl_tensor = (DLTensor){.data = data,
                                      .device = {kDLCPU, 0},
                                      .ndim = ndim,
                                      .dtype = {kDLFloat, 32, 1},
                                      .shape = t->shape};
    return t;
}

#endif
