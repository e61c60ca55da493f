/* Whose rows are which, and the waiting for them. */
#ifndef SYMM_MATMUL_ROWS_CUH
#define SYMM_MATMUL_ROWS_CUH

#include <symm/device.cuh>
#include "args.h"

/* Ranks share m rows as evenly as it goes, the first ones having one more. */
SYMM_DEV int32_t rows_of(int32_t m, int32_t nranks, int32_t rank)
{
    return m / nranks + (rank < m % nranks);
}

SYMM_DEV int32_t first_row_of(int32_t m, int32_t nranks, int32_t rank)
{
    return m / nranks * rank + min(rank, m % nranks);
}

SYMM_DEV uint32_t chunks_of(const symm_rows_way &way, uint64_t rows)
{
    return (uint32_t)((rows + way.strip_rows - 1) / way.strip_rows) * way.pieces;
}

/* The rank whose shard is taken in this step: one's own, then the next rank's, and so on. */
SYMM_DEV int32_t shard_of_step(const symm_shards &a, int32_t step)
{
    return (a.rank + step) % a.nranks;
}

/* Row i of the shard in batch b. */
template <typename T>
SYMM_DEV const T *row_of(const symm_shards &a, int32_t shard, int32_t b, int32_t i)
{
    if (shard == a.rank)
        return static_cast<const T *>(a.own.data) + b * a.own.batch + i * a.own.row;
    const T *slab = reinterpret_cast<const T *>(a.workspace + shard * a.slab_nbytes);
    return slab + ((int64_t)b * rows_of(a.m, a.nranks, shard) + i) * a.ld;
}

/* From one element of a row to the next. */
SYMM_DEV int64_t column_of(const symm_shards &a, int32_t shard)
{
    return shard == a.rank ? a.own.column : 1;
}

/* The strips from first to last of a rank's rows. */
struct strips {
    int32_t shard;
    uint32_t first, last;
};

/* Waits for all pieces of them; takes no signal. The threads of a block. */
SYMM_DEV void await_pieces(const symm_view &v, const symm_rows_way &way, const strips &s)
{
    for (uint32_t c = s.first * way.pieces + threadIdx.x; c < (s.last + 1) * way.pieces;
         c += blockDim.x)
        symm_dev_wait_peek(v, way.pad, (int)c, s.shard, 1);
}

#endif
