/*
 * Which tiles a block takes, and in what order: a shard after the other, as they arrive, so that a
 * block waits as late as it can. Within a shard bands of a few tiles' rows go through all columns:
 * what the blocks work on at a time then shares its rows and columns in L2.
 */
#ifndef SYMM_MATMUL_TILES_CUH
#define SYMM_MATMUL_TILES_CUH

#include "shards.cuh"

enum { BAND = 8 /* rows of tiles */ };

/* Rows [row, row + rows) of a shard's batch times columns [column, column + columns) of product. */
struct tile {
    int32_t shard, batch, row, rows;
    int32_t product, column, columns;
};

template <int ROWS, int COLUMNS> struct tile_order {
    const symm_product_args &a;
    int32_t across; /* tiles */
    int32_t step;
    int64_t left; /* how many tiles of the step the next one is behind its first */

    SYMM_DEV_IN_CLASS tile_order(const symm_product_args &args, int32_t first_tile)
        : a(args), across(0), step(args.first_step), left(first_tile)
    {
        for (int32_t i = 0; i < a.nb; i++)
            across += (a.n[i] + COLUMNS - 1) / COLUMNS;
    }

    /* The tile that the order is at; false: it is past the last one. Then go on by n tiles. */
    SYMM_DEV_IN_CLASS bool next(tile *out, int32_t n)
    {
        for (; step < a.last_step; step++) {
            const int32_t shard = shard_of_step(a.a, step),
                          rows = rows_of(a.a.m, a.a.nranks, shard), down = (rows + ROWS - 1) / ROWS;
            const int64_t of_step = (int64_t)a.a.l * down * across;
            if (left < of_step) {
                *out = at(shard, rows, down, left);
                left += n;
                return true;
            }
            left -= of_step;
        }
        return false;
    }

  private:
    SYMM_DEV_IN_CLASS tile at(int32_t shard, int32_t rows, int32_t down, int64_t index) const
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

/* One thread of a block, when it begins. */
SYMM_DEV void tell_begun(const symm_product_args &a)
{
    if (a.begun)
        symm_detail::fetch_add_relaxed(a.begun, 1);
}

/* What a thread has waited for. */
struct arrivals {
    strips seen = {-1, 0, 0};

    /* Whether rows of the tile are on their way and not waited for yet: those of `seen`, then. */
    SYMM_DEV_IN_CLASS bool lack(const symm_product_args &a, const tile &t)
    {
        if (a.way.strip_rows == 0 || t.shard == a.a.rank || t.rows == 0)
            return false;
        const uint64_t row = (uint64_t)t.batch * rows_of(a.a.m, a.a.nranks, t.shard) + t.row;
        const strips s = {t.shard, (uint32_t)(row / a.way.strip_rows),
                          (uint32_t)((row + t.rows - 1) / a.way.strip_rows)};
        if (s.shard == seen.shard && s.first >= seen.first && s.last <= seen.last)
            return false;
        seen = s;
        return true;
    }
};

#endif
