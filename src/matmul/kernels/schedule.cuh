/*
 * The work of a block and its order: one step after the other. Shards come in the order of their
 * arrival, so that a block waits as late as possible. Within a step, bands of rows of tiles, each
 * through all columns: the tiles of one wave then share rows of A and columns of B in L2.
 */
#ifndef SYMM_MATMUL_SCHEDULE_CUH
#define SYMM_MATMUL_SCHEDULE_CUH

#include "shards.cuh"
#include "tile_order.h"

/*
 * Rows [row, row + rows) of a shard's batch times columns [column, column + columns) of product. If
 * results go to owners, the shard is the rows of a rank that owns them.
 */
struct tile {
    int32_t shard, batch, row, rows;
    int32_t product, column, columns;
};

/* Elements [k_begin, k_end) of a tile's sum over k: part `part` of nparts. */
struct work {
    tile t;
    int32_t k_begin, k_end, part, nparts;
};

/* The shard that has a tile's rows of A. */
SYMM_DEV int32_t shard_in_a(const symm_product_args &a, const tile &t)
{
    return a.sink == SYMM_TO_OWNERS ? a.a.rank : t.shard;
}

/* The tile's first row in that shard. */
SYMM_DEV int32_t row_in_a(const symm_product_args &a, const tile &t)
{
    if (a.sink != SYMM_TO_OWNERS)
        return t.row;
    return symm__first_row_of(a.order.rows, t.shard) + t.row;
}

/* The rows of a step: of a shard, or of an owner. */
struct step_rows {
    int32_t shard, rows;
};

SYMM_DEV step_rows rows_of_step(const symm_product_args &a, int32_t step)
{
    const bool owned = a.sink == SYMM_TO_OWNERS;
    const int32_t shard =
        owned ? symm__owner_of_step(a.view.rank, a.view.nranks, step) : shard_of_step(a.a, step);

    return {shard, symm__rows_of(a.order.rows, shard)};
}

/* A tile's row and column among `down` by order.across tiles. */
struct tile_place {
    int32_t row, column;
};

/* The place of tile number `index`. last: the rows of the last band, if that band is not whole. */
SYMM_DEV tile_place place_in_bands(const symm_tile_order &order, const symm_divisor &last,
                                   int32_t down, uint32_t index)
{
    const uint32_t band = symm__divide(index, order.band),
                   in_band = index - band * order.band.divisor;
    const int32_t whole = (int32_t)order.height.divisor, top = (int32_t)band * whole,
                  height = min(whole, down - top),
                  column = (int32_t)symm__divide(in_band, height == whole ? order.height : last);

    return {top + (int32_t)in_band - column * height, column};
}

/* One thread's way through the tiles. It is small, since the consumers have few registers left. */
template <int ROWS, int COLUMNS> struct schedule {
    const symm_product_args &a;
    uint32_t place; /* of the next tile */

    SYMM_DEV_IN_CLASS schedule(const symm_product_args &args, uint32_t first)
        : a(args), place(first)
    {
    }

    /* Returns the next work and advances by n tiles; false: there is none. */
    SYMM_DEV_IN_CLASS bool next(work *out, uint32_t n)
    {
        const int32_t columns = a.order.across;
        uint32_t left = a.sink == SYMM_TO_OWNERS ? symm__unmixed(&a.order.mixed, place) : place;

        place += n;
        for (int32_t step = a.first_step; step < a.last_step; step++) {
            const step_rows s = rows_of_step(a, step);
            const int32_t down = (s.rows + ROWS - 1) / ROWS;
            const uint32_t of_step = (uint32_t)(a.a.l * down * columns);
            if (left < of_step) {
                *out = {tile_at(s, down, left), 0, a.a.k, 0, 1};
                return true;
            }
            left -= of_step;
        }
        return false;
    }

  private:
    SYMM_DEV_IN_CLASS tile tile_at(const step_rows &s, int32_t down, uint32_t index) const
    {
        const uint32_t of_batch = (uint32_t)(down * a.order.across),
                       batch = a.a.l > 1 ? index / of_batch : 0;
        const tile_place at =
            place_in_bands(a.order, last_height(s), down, index - batch * of_batch);
        const int32_t row = at.row * ROWS;
        int32_t column = at.column;
        tile t = {s.shard, (int32_t)batch, row, min((int32_t)ROWS, s.rows - row), 0, 0, 0};

        for (int32_t wide; column >= (wide = (a.n[t.product] + COLUMNS - 1) / COLUMNS); t.product++)
            column -= wide;
        t.column = column * COLUMNS;
        t.columns = min((int32_t)COLUMNS, a.n[t.product] - t.column);
        return t;
    }

    SYMM_DEV_IN_CLASS const symm_divisor &last_height(const step_rows &s) const
    {
        return a.order.last[s.rows > a.order.rows.least];
    }
};

/* One thread of a block, at its start. */
SYMM_DEV void count_started(const symm_product_args &a)
{
    if (a.round)
        symm_detail::fetch_add_relaxed(&a.round->started, 1);
}

#endif
