/* Computes the mixed order of tiles. */
#include "order.h"

#include "matmul/kernels/tile_order.h"
#include "runtime/base/numbers.h"

/*
 * From this k on, a link takes the results of a tile in less than the time of the next tile. Then
 * the others' tiles come first, and all parts are there when the own tiles are added.
 */
enum { LINK_K = 2560 };

/* Tiles of a row of tiles. */
static uint64_t across(const struct symm_problem *p, int columns)
{
    uint64_t tiles = 0;

    for (int i = 0; i < p->nb; i++)
        tiles += symm__ceil_div((uint64_t)p->n[i], (uint64_t)columns);
    return tiles;
}

int symm__steps_of(const struct symm_problem *p, uint32_t sink)
{
    return sink == SYMM_TO_OWNERS ? p->collect_nranks : p->nranks;
}

int32_t symm__rows_of_owner(const struct symm_problem *p, uint32_t sink, int owner)
{
    return sink == SYMM_TO_ALL ? p->m : symm__rows_of_rank(p->m, p->collect_nranks, owner);
}

uint64_t symm__tiles_of_owner(const struct symm_problem *p, uint32_t sink, int owner, int rows,
                              int columns)
{
    const int32_t owned = symm__rows_of_owner(p, sink, owner);

    return across(p, columns) * (uint64_t)p->l * symm__ceil_div((uint64_t)owned, (uint64_t)rows);
}

/* The rows of a step: of a shard, or of an owner. */
static int32_t rows_of_step(const struct symm_problem *p, uint32_t sink, int step)
{
    if (sink == SYMM_TO_OWNERS)
        return symm__rows_of_rank(p->m, p->collect_nranks,
                                  symm__owner_of_step(p->collect_rank, p->collect_nranks, step));
    return symm__rows_of_rank(p->m, p->nranks, (p->rank + step) % p->nranks);
}

uint64_t symm__tiles_of_steps(const struct symm_problem *p, uint32_t sink, int first, int last,
                              int rows, int columns)
{
    uint64_t down = 0;

    for (int step = first; step < last; step++)
        down += symm__ceil_div((uint64_t)rows_of_step(p, sink, step), (uint64_t)rows);
    return across(p, columns) * (uint64_t)p->l * down;
}

static symm_mixed_order mixed_order(const struct symm_problem *p, const symm_product_args *args,
                                    int rows, int columns, uint32_t wave)
{
    const uint64_t own = symm__tiles_of_owner(p, args->sink, p->collect_rank, rows, columns);
    uint64_t others = 0, early;

    if (args->sink != SYMM_TO_OWNERS || args->last_step - args->first_step < p->collect_nranks)
        return (symm_mixed_order){.others = 0};
    for (int r = 0; r < p->collect_nranks; r++)
        others += r == p->collect_rank ? 0 : symm__tiles_of_owner(p, args->sink, r, rows, columns);
    if (own <= wave || others == 0 || (args->parts.beside && p->k >= LINK_K))
        return (symm_mixed_order){.others = 0};
    early = own - wave;
    return (symm_mixed_order){
        .others = (uint32_t)others,
        .early = (uint32_t)early,
        .share = (uint32_t)symm__ceil_div(early << 32, others + early),
    };
}

/* The height of the last band of this many rows. Any number if that band is whole. */
static symm_divisor last_height(int32_t of_step, int rows, uint32_t band)
{
    const uint32_t height = (uint32_t)symm__ceil_div((uint64_t)of_step, (uint64_t)rows) % band;

    return symm__divisor(height ? height : 1);
}

symm_tile_order symm__tile_order(const struct symm_problem *p, const symm_product_args *args,
                                 int rows, int columns, uint32_t wave, uint32_t band)
{
    const symm_row_split split = symm__split_rows(p->m, symm__steps_of(p, args->sink));
    const uint32_t tiles = (uint32_t)across(p, columns);

    return (symm_tile_order){
        .rows = split,
        .across = (int32_t)tiles,
        .band = symm__divisor(tiles ? band * tiles : 1),
        .height = symm__divisor(band),
        .last = {last_height(split.least, rows, band), last_height(split.least + 1, rows, band)},
        .mixed = mixed_order(p, args, rows, columns, wave),
    };
}
