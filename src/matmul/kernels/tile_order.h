/* The order of tiles of products whose results go to owners. For C and for kernels. */
#ifndef SYMM_MATMUL_TILE_ORDER_H
#define SYMM_MATMUL_TILE_ORDER_H

#include "args.h"

enum { SYMM_BAND = 8 /* rows of tiles in a band, at most */ };

/* The owner of a step's rows: the next rank first, this rank last. */
SYMM_SHARED_FN int32_t symm__owner_of_step(int32_t rank, int32_t nranks, int32_t step)
{
    return symm__rank_after(rank, step + 1 < nranks ? step + 1 : 0, nranks);
}

/* The number of this rank's own tiles among the first `place` ones of the mixed order. */
SYMM_SHARED_FN uint32_t symm__own_tiles(const symm_mixed_order *order, uint32_t place)
{
    return (uint32_t)((uint64_t)place * order->share >> 32);
}

/* The place, in the order of steps, of the tile at `place` of the mixed order. */
SYMM_SHARED_FN uint32_t symm__unmixed(const symm_mixed_order *order, uint32_t place)
{
    const uint32_t own = symm__own_tiles(order, place);

    if (place >= order->others + order->early)
        return place;
    return symm__own_tiles(order, place + 1) > own ? order->others + own : place - own;
}

#endif
