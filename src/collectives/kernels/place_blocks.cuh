/*
 * Copies blocks within this rank's own memory, between the order of the group and another one. It
 * waits for no rank.
 */
#ifndef SYMM_PLACE_BLOCKS_KERNELS_CUH
#define SYMM_PLACE_BLOCKS_KERNELS_CUH

#include <symm/device.cuh>
#include "args.h"

SYMM_DEV void place_slice(const symm_place_blocks_args &a, uint32_t block, uint64_t at)
{
    char *sorted = a.sorted + block * a.sorted_pitch + at,
         *by_rank = a.by_rank + (uint64_t)symm_dev_load_one(a.ranks + block) * a.rank_pitch + at;
    const uint64_t left = a.nbytes - at,
                   nbytes = left < SYMM_PLACE_SLICE ? left : (uint64_t)SYMM_PLACE_SLICE;

    if (a.to_ranks)
        symm_dev_copy(by_rank, sorted, nbytes);
    else
        symm_dev_copy(sorted, by_rank, nbytes);
}

SYMM_DEV void place_all_blocks(const symm_place_blocks_args &a)
{
    const uint64_t slices = (a.nbytes + SYMM_PLACE_SLICE - 1) / SYMM_PLACE_SLICE;

    for (uint64_t i = blockIdx.x; i < slices * a.nblocks; i += gridDim.x)
        place_slice(a, (uint32_t)(i / slices), i % slices * SYMM_PLACE_SLICE);
}

#endif
