/*
 * Which tiles a block takes, and in what order: a shard after the other, as they arrive, so that a
 * block waits as late as it can. Within a shard bands of a few tiles' rows go through all columns:
 * what the blocks work on at a time then shares its rows and columns in L2.
 */
#ifndef SYMM_MATMUL_TILES_CUH
#define SYMM_MATMUL_TILES_CUH

#include "rows.cuh"

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

/* What a thread has seen of the chunks on their way. */
struct seen_chunks {
    int32_t shard = -1;
    uint32_t n = 0;

    /*
     * How many chunks the tile needs, if more than have been waited for; else 0. They come in the
     * order of the rows.
     */
    SYMM_DEV_IN_CLASS uint32_t missing(const symm_product_args &a, const tile &t)
    {
        if (a.way.chunk_rows == 0 || t.shard == a.a.rank)
            return 0;
        if (t.shard != shard)
            n = 0;
        shard = t.shard;
        if (t.rows == 0)
            return 0;
        const uint64_t last =
            (uint64_t)t.batch * rows_of(a.a.m, a.a.nranks, t.shard) + t.row + t.rows - 1;
        const uint32_t needed = (uint32_t)(last / a.way.chunk_rows) + 1;
        if (needed <= n)
            return 0;
        n = needed;
        return needed;
    }
};

#endif
