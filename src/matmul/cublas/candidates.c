/* Lists the algorithms of cuBLASLt that compete in a product's trials. */
#include "candidates.h"

#include "runtime/base/numbers.h"

enum { HOPPER = 9 /* compute capability */ };

/* ----------------------------------------------------------------------------------- parts of k */

enum { TILE = 64, K_PARTS = 4 };

/* Tiles of 64 x 64 share k if they are few for an SM each, and their k is long. */
static const double FEW_TILES = 0.375, K_LEAST = 1024, K_PER_TILE = 60;

static uint64_t k_of(const struct cublaslt_shape *s)
{
    return s->a.transposed ? s->a.rows : s->a.columns;
}

static uint64_t tiles_of(const struct cublaslt_shape *s, uint64_t rows, uint64_t columns)
{
    return symm__ceil_div(s->d.rows, rows) * symm__ceil_div(s->d.columns, columns) *
           (uint64_t)s->batches;
}

int symm__cublas_k_parts(const struct cublaslt_shape *s, int nsms)
{
    /* Tiles may have fewer columns, but not fewer rows. */
    const double tiles = (double)symm__ceil_div(s->d.rows, TILE) *
                         (double)symm__max(s->d.columns, TILE) / TILE * s->batches;

    return tiles <= FEW_TILES * nsms && (double)k_of(s) >= K_LEAST + K_PER_TILE * tiles ? K_PARTS
                                                                                        : 1;
}

/* ---------------------------------------------------------------------------------------- tiles */

static const int tile_rows[] = {64, 128, 192, 256, 384};

enum { TILE_COLUMNS = 8, TILE_COLUMNS_MAX = 256, STEP = 64 /* of k */ };

/* Clocks of an SM: of a step, an element of a tile, a tile. */
static const double STEP_LEAST = 150, PRODUCTS_PER_CLOCK = 32 /* for each k of a step */,
                    LOAD = 2 /* a row or a column of a step */, ELEMENT = 0.05, BEGIN = 1500;

/* The time of all waves of tiles, as clocks. */
static double estimate(const struct cublaslt_shape *s, int nsms,
                       const struct cublaslt_configuration *with)
{
    const double rows = with->tile_rows, columns = with->tile_columns,
                 steps = (double)k_of(s) / STEP / with->k_parts;
    const uint64_t tiles = tiles_of(s, (uint64_t)with->tile_rows, (uint64_t)with->tile_columns) *
                           (uint64_t)with->k_parts;
    double step = rows * columns / PRODUCTS_PER_CLOCK;

    if (step < LOAD * (rows + columns))
        step = LOAD * (rows + columns);
    if (step < STEP_LEAST)
        step = STEP_LEAST;
    return (double)symm__ceil_div(tiles, (uint64_t)nsms) *
           (steps * step + BEGIN + ELEMENT * rows * columns);
}

/* Whether no tile with fewer columns covers d with as few tiles. */
static bool is_useful(const struct cublaslt_shape *s, int columns)
{
    return columns == TILE_COLUMNS ||
           symm__ceil_div(s->d.columns, (uint64_t)columns) <
               symm__ceil_div(s->d.columns, (uint64_t)(columns - TILE_COLUMNS));
}

/* Inserts it into the n best. Returns their number. */
static int insert(const struct cublaslt_configuration *with, double clocks,
                  struct cublaslt_configuration best[SYMM_CUBLAS_TILES],
                  double least[SYMM_CUBLAS_TILES], int n)
{
    int at = n;

    for (; at > 0 && clocks < least[at - 1]; at--)
        if (at < SYMM_CUBLAS_TILES) {
            best[at] = best[at - 1];
            least[at] = least[at - 1];
        }
    if (at == SYMM_CUBLAS_TILES)
        return n;
    best[at] = *with;
    least[at] = clocks;
    return n < SYMM_CUBLAS_TILES ? n + 1 : n;
}

int symm__cublas_tiles(const struct cublaslt_shape *s, int nsms, int k_parts,
                       struct cublaslt_configuration out[SYMM_CUBLAS_TILES])
{
    double least[SYMM_CUBLAS_TILES];
    int n = 0;

    for (size_t i = 0; i < sizeof tile_rows / sizeof tile_rows[0]; i++)
        for (int columns = TILE_COLUMNS; columns <= TILE_COLUMNS_MAX; columns += TILE_COLUMNS) {
            const struct cublaslt_configuration with = {
                .tile_rows = tile_rows[i], .tile_columns = columns, .k_parts = k_parts};
            if (is_useful(s, columns) && symm__cublaslt_tile(tile_rows[i], columns) != 0)
                n = insert(&with, estimate(s, nsms, &with), out, least, n);
        }
    return n;
}

/* ----------------------------------------------------------------------------------- candidates */

/* Appends the configurations of the best tiles that cuBLASLt takes. */
static void add_configurations(const struct symm_cublas *c, const struct cublaslt_shape *shape,
                               const struct cublaslt_product *product, int k_parts,
                               const cublaslt_heuristic *from, struct symm_cublas_candidates *out)
{
    static const struct {
        int rows, columns;
    } clusters[SYMM_CUBLAS_CLUSTERS] = {{2, 1}, {4, 1}, {1, 2}};
    struct cublaslt_configuration tiles[SYMM_CUBLAS_TILES];
    const int ntiles = symm__cublas_tiles(shape, c->ctx->agreed.nsms, k_parts, tiles);

    for (int i = 0; i < ntiles; i++)
        for (int j = 0; j < SYMM_CUBLAS_CLUSTERS; j++) {
            struct cublaslt_configuration with = tiles[i];
            with.cluster_rows = clusters[j].rows;
            with.cluster_columns = clusters[j].columns;
            out->algorithms[out->n] = *from;
            out->n +=
                symm__cublaslt_configure(&c->lt, shape, product, &with, &out->algorithms[out->n]);
        }
}

/* Keeps the proposals with this number of parts. */
static void keep_parts(const struct cublaslt *lt, int k_parts, struct symm_cublas_candidates *out)
{
    int kept = 0;

    for (int i = 0; i < out->n; i++)
        if (symm__cublaslt_k_parts(lt, &out->algorithms[i]) == k_parts)
            out->algorithms[kept++] = out->algorithms[i];
    out->n = kept;
}

bool symm__cublas_candidates(const struct symm_cublas *c, const struct cublaslt_shape *shape,
                             const struct cublaslt_product *product, bool any_order,
                             struct symm_cublas_candidates *out, char why[CUBLASLT_WHY])
{
    const int k_parts = symm__cublas_k_parts(shape, c->ctx->agreed.nsms);
    struct symm_cublas_candidates proposals;

    proposals.n = symm__cublaslt_algorithms(&c->lt, shape, product, proposals.algorithms,
                                            SYMM_CUBLAS_PROPOSALS, why);
    *out = proposals;
    if (proposals.n <= 0 || c->ctx->agreed.compute_major != HOPPER)
        return proposals.n > 0;
    if (!any_order)
        keep_parts(&c->lt, k_parts, out);
    add_configurations(c, shape, product, k_parts, &proposals.algorithms[0], out);
    if (out->n == 0)
        *out = proposals;
    return true;
}
