/* The best tiles for a product, by their waves. */
#include "cublas_tiles.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include "runtime/base/numbers.h"

/* ----------------------------------------------------------------------------------- parts of k */

enum { TILE = 64, K_PARTS = 4 };

/* Tiles of 64 x 64 share k if they are few for an SM each, and their k is long. */
static const double FEW_TILES = 0.375, K_LEAST = 1024, K_PER_TILE = 60;

int symm__cublas_k_parts(const struct symm_cublas_extents *x, int nsms)
{
    /* Tiles may have fewer columns, but not fewer rows. */
    const double tiles = (double)symm__ceil_div(x->rows, TILE) *
                         (double)symm__max(x->columns, TILE) / TILE * x->batches;

    return tiles <= FEW_TILES * nsms && (double)x->k >= K_LEAST + K_PER_TILE * tiles ? K_PARTS : 1;
}

/* ---------------------------------------------------------------------------------------- tiles */

static const struct {
    int rows, columns_max;
} shapes[] = {{64, 256}, {128, 256}, {192, 256}, {256, 256}, {384, 168}};

enum { COLUMNS = 8 /* tiles have multiples of it */, STEP = 64 /* of k */ };

/* Clocks of an SM: of a step, an element of a tile, a tile. */
static const double STEP_LEAST = 120, PRODUCTS_PER_CLOCK = 32 /* for each k of a step */,
                    LOAD = 1.3 /* a row or a column of a step */, ELEMENT = 0.05, BEGIN = 1500;

/* The clocks of all waves of tiles. */
static double clocks_of(const struct symm_cublas_extents *x, int nsms, int k_parts,
                        const struct symm_cublas_tile *tile)
{
    const double rows = tile->rows, columns = tile->columns, steps = (double)x->k / STEP / k_parts,
                 step = fmax(fmax(rows * columns / PRODUCTS_PER_CLOCK, LOAD * (rows + columns)),
                             STEP_LEAST);
    const uint64_t tiles = symm__ceil_div(x->rows, (uint64_t)tile->rows) *
                           symm__ceil_div(x->columns, (uint64_t)tile->columns) *
                           (uint64_t)x->batches * (uint64_t)k_parts;

    return (double)symm__ceil_div(tiles, (uint64_t)nsms) *
           (steps * step + BEGIN + ELEMENT * rows * columns);
}

/* Whether no tile with fewer columns covers d with as few tiles. */
static bool is_useful(const struct symm_cublas_extents *x, int columns)
{
    return columns == COLUMNS || symm__ceil_div(x->columns, (uint64_t)columns) <
                                     symm__ceil_div(x->columns, (uint64_t)(columns - COLUMNS));
}

/* The best tiles so far. */
struct best {
    struct symm_cublas_tile *tiles;
    double clocks[SYMM_CUBLAS_TILES];
    int n;
};

static void insert(struct best *best, const struct symm_cublas_tile *tile, double clocks)
{
    int at = best->n;

    for (; at > 0 && clocks < best->clocks[at - 1]; at--)
        if (at < SYMM_CUBLAS_TILES) {
            best->tiles[at] = best->tiles[at - 1];
            best->clocks[at] = best->clocks[at - 1];
        }
    if (at == SYMM_CUBLAS_TILES)
        return;
    best->tiles[at] = *tile;
    best->clocks[at] = clocks;
    if (best->n < SYMM_CUBLAS_TILES)
        best->n++;
}

int symm__cublas_tiles(const struct symm_cublas_extents *x, int nsms,
                       struct symm_cublas_tile out[SYMM_CUBLAS_TILES])
{
    const int k_parts = symm__cublas_k_parts(x, nsms);
    struct best best = {.tiles = out};

    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int columns = COLUMNS; columns <= shapes[i].columns_max; columns += COLUMNS) {
            const struct symm_cublas_tile tile = {shapes[i].rows, columns};
            if (is_useful(x, columns))
                insert(&best, &tile, clocks_of(x, nsms, k_parts, &tile));
        }
    return best.n;
}
