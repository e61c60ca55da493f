/* The rows of A: the order of shards, and the address of a row. */
#ifndef SYMM_MATMUL_SHARDS_CUH
#define SYMM_MATMUL_SHARDS_CUH

#include <symm/device.cuh>
#include "args.h"

/* The rank whose shard is multiplied in this step: this rank, the next one, and so on. */
SYMM_DEV int32_t shard_of_step(const symm_shards &a, int32_t step)
{
    return symm__rank_after(a.rank, step, a.nranks);
}

/* Row i of the shard in batch b. */
template <typename T>
SYMM_DEV const T *row_of(const symm_shards &a, int32_t shard, int32_t b, int32_t i)
{
    if (shard == a.rank)
        return static_cast<const T *>(a.own.data) + b * a.own.batch + i * a.own.row;
    const T *slab = reinterpret_cast<const T *>(a.workspace + shard * a.slab_nbytes);
    return slab + ((int64_t)b * symm__rows_of_rank(a.m, a.nranks, shard) + i) * a.ld;
}

/* From one element of a row to the next. */
SYMM_DEV int64_t column_stride(const symm_shards &a, int32_t shard)
{
    return shard == a.rank ? a.own.column : 1;
}

#endif
