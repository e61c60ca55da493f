/* The same as try.h for calls of cudart. */
#ifndef TRY_CUDA_H
#define TRY_CUDA_H

#include <cuda_runtime.h>
#include "try.h"

#define TRY_CUDA(call)                                                                             \
    do {                                                                                           \
        const cudaError_t cuda_ = (call);                                                          \
        if (cuda_ != cudaSuccess) {                                                                \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(cuda_));          \
            st = SYMM_ERROR_DRIVER;                                                                \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

/*
 * How many blocks of a kernel are resident together on every rank: <<<>>> does not look, and a
 * barrier among blocks that are not never ends. Loads the kernel, too (the preload rule).
 * Collective.
 */
template <typename Kernel>
static symm_status resident_blocks(symm_group *group, Kernel kernel, uint32_t threads,
                                   uint32_t *out)
{
    symm_status st = SYMM_OK;
    int mine, all[SYMM_MAX_RANKS], per_sm = 0, nsms = 0, device;
    cudaFuncAttributes attributes;

    TRY_CUDA(cudaFuncGetAttributes(&attributes, kernel));
    TRY_CUDA(cudaGetDevice(&device));
    TRY_CUDA(cudaDeviceGetAttribute(&nsms, cudaDevAttrMultiProcessorCount, device));
    TRY_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, kernel, (int)threads, 0));
    mine = per_sm * nsms;
    TRY(symm_exchange(group, &mine, sizeof mine, all));
    for (int r = 0; r < symm_nranks(group); r++)
        mine = all[r] < mine ? all[r] : mine;
    *out = (uint32_t)mine;
out:
    return st;
}

#endif
