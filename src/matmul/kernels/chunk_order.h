/* The order in which a rank sends its chunks to the other ranks. For C and for kernels. */
#ifndef SYMM_MATMUL_CHUNK_ORDER_H
#define SYMM_MATMUL_CHUNK_ORDER_H

#include "split.h"

typedef struct symm_chunk_target {
    uint32_t chunk;
    int32_t rank; /* the receiver */
} symm_chunk_target;

/*
 * Number i of all chunks to all other ranks, (nranks - 1) * chunks of them. The rank before this
 * one gets its chunks first, then the rank before that one: so each rank receives shards in the
 * order in which its product multiplies them, and no link is used twice at a time. A product that
 * multiplies several shards at a time has step s in group s / interleaved; the receivers of a group
 * get one chunk each alternately. Step 0 is a rank's own shard, which is not sent.
 */
SYMM_SHARED_FN symm_chunk_target symm__chunk_target(uint32_t i, uint32_t chunks, uint32_t rank,
                                                    uint32_t nranks, uint32_t interleaved)
{
    const uint32_t group = (i / chunks + 1) / interleaved * interleaved,
                   first = group > 1 ? group : 1,
                   end = group + interleaved < nranks ? group + interleaved : nranks,
                   steps = end - first, in_group = i - (first - 1) * chunks;
    const symm_chunk_target target = {
        in_group / steps, (int32_t)((rank + nranks - first - in_group % steps) % nranks)};

    return target;
}

#endif
