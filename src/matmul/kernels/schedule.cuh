/*
 * The work of a block and its order: one shard after the other in the order of their arrival, so
 * that a block waits as late as possible. Within a shard, bands of BAND rows of tiles, each through
 * all columns: the tiles of one wave then share rows of A and columns of B in L2.
 */
#ifndef SYMM_MATMUL_SCHEDULE_CUH
#define SYMM_MATMUL_SCHEDULE_CUH

#include "shards.cuh"

enum { BAND = 8 /* rows of tiles */ };

/* Rows [row, row + rows) of a shard's batch times columns [column, column + columns) of product. */
struct tile {
    int32_t shard, batch, row, rows;
    int32_t product, column, columns;
};

/* Elements [k_begin, k_end) of a tile's sum over k: part `part` of nparts. Now always all of k. */
struct work {
    tile t;
    int32_t k_begin, k_end, part, nparts;
};

template <int ROWS, int COLUMNS> struct schedule {
    const symm_product_args &a;
    int32_t across; /* tiles of a row of tiles */
    int32_t step;
    int64_t left; /* the next tile, counted from the first one of the step */

    SYMM_DEV_IN_CLASS schedule(const symm_product_args &args, int32_t first_tile)
        : a(args), across(0), step(args.first_step), left(first_tile)
    {
        for (int32_t i = 0; i < a.nb; i++)
            across += (a.n[i] + COLUMNS - 1) / COLUMNS;
    }

    /* Returns the next work and advances by n tiles; false: there is none. */
    SYMM_DEV_IN_CLASS bool next(work *out, int32_t n)
    {
        for (; step < a.last_step; step++) {
            const int32_t shard = shard_of_step(a.a, step),
                          rows = symm__rows_of_rank(a.a.m, a.a.nranks, shard),
                          down = (rows + ROWS - 1) / ROWS;
            const int64_t of_step = (int64_t)a.a.l * down * across;
            if (left < of_step) {
                *out = {tile_at(shard, rows, down, left), 0, a.a.k, 0, 1};
                left += n;
                return true;
            }
            left -= of_step;
        }
        return false;
    }

  private:
    SYMM_DEV_IN_CLASS tile tile_at(int32_t shard, int32_t rows, int32_t down, int64_t index) const
    {
        const int32_t of_batch = down * across, in_batch = (int32_t)(index % of_batch),
                      band = in_batch / (BAND * across), top = band * BAND,
                      height = min((int32_t)BAND, down - top), in_band = in_batch - top * across,
                      row = top + in_band % height;
        int32_t column = in_band / height;
        tile t = {shard,      (int32_t)(index / of_batch),
                  row * ROWS, min((int32_t)ROWS, rows - row * ROWS),
                  0,          0,
                  0};

        for (int32_t wide; column >= (wide = (a.n[t.product] + COLUMNS - 1) / COLUMNS); t.product++)
            column -= wide;
        t.column = column * COLUMNS;
        t.columns = min((int32_t)COLUMNS, a.n[t.product] - t.column);
        return t;
    }
};

/* One thread of a block, at its start. */
SYMM_DEV void count_started(const symm_product_args &a)
{
    if (a.blocks_started)
        symm_detail::fetch_add_relaxed(a.blocks_started, 1);
}

#endif
