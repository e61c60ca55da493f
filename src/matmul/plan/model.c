/* Estimates of how long products and their gathers take. */
#include "model.h"

#include <math.h>
#include "matmul/kernels/matmul.def"
#include "runtime/base/numbers.h"

#define SHAPE(unused, columns, cluster, time) {columns, cluster, time},
const struct symm_tile_shape symm__wgmma_shapes[] = {SYMM_WGMMA_SHAPES(SHAPE, )};
enum { NSHAPES = sizeof symm__wgmma_shapes / sizeof symm__wgmma_shapes[0] };
static const struct symm_tile_shape portable_shape = {128, 1, 549};

static const double tile_us = 38e-6;           /* the unit of the shapes' times */
static const double link_bytes_per_us = 343e3; /* into one device, large copies */
static const double sm_bytes_per_us = 24e3; /* what a free multiprocessor sends beside a product */
static const double fused_us = 9;           /* what a fused run has beside its product */
static const double product_bytes_per_us = 33e5; /* what comes makes it longer by so much */
static const double gather_us = 8;               /* an all-gather, beside the bytes */
static const double cublas_sm_products_per_us = 2.8e6, cublas_bytes_per_us = 2.5e6;

/* Of all clusters. */
static uint64_t tiles(const struct symm_problem *p, int step, const struct symm_tile_shape *shape)
{
    const int shard = (p->rank + step) % p->nranks, height = SYMM_WGMMA_ROWS * shape->cluster;
    uint64_t across = 0;

    for (int i = 0; i < p->nb; i++)
        across += symm__ceil_div((uint64_t)p->n[i], (uint64_t)shape->columns);
    return across * (uint64_t)p->l *
           symm__ceil_div((uint64_t)symm__problem_rows(p->m, p->nranks, shard), (uint64_t)height);
}

static double tiles_us(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                       const struct symm_tile_shape *shape, uint64_t ntiles)
{
    const uint64_t clusters = plan->blocks / (unsigned)shape->cluster;

    return (double)symm__ceil_div(ntiles, clusters ? clusters : 1) * shape->time * p->k * tile_us;
}

/* Rows on their way: the first begin after a while, and a chunk takes time beside its bytes. */
struct transport {
    double bytes_per_us, chunk_us, begin_us;
};

static struct transport transport_of(const struct symm_matmul_plan *plan)
{
    if (plan->by_engine)
        return (struct transport){link_bytes_per_us, 5, 10};
    return (struct transport){fmin(plan->free * sm_bytes_per_us, link_bytes_per_us), 0.3, 12};
}

static double chunk_us(const struct symm_matmul_plan *plan, const struct transport *way)
{
    return (double)plan->slab_nbytes / plan->chunks / way->bytes_per_us + way->chunk_us;
}

/*
 * When the last tiles are done, which take last_us, if the rows take their time. The tiles of a
 * strip begin when its first piece is there, and end after the last one has been multiplied.
 */
static double arrival_us(const struct symm_matmul_plan *plan, int shards, double last_us)
{
    const struct transport way = transport_of(plan);
    const double bytes_us = (double)plan->slab_nbytes / way.bytes_per_us,
                 piece_us = chunk_us(plan, &way);

    return way.begin_us + shards * (bytes_us + way.chunk_us * plan->chunks) +
           fmax(last_us / plan->pieces, last_us - piece_us * (plan->pieces - 1));
}

/* What is multiplied together with this rank's own rows waits for the first piece of each shard. */
static double first_us(const struct symm_matmul_plan *plan, int coming)
{
    const struct transport way = transport_of(plan);
    const int shards = (int)fmin(plan->together - 1.0, coming);

    return shards > 0 ? way.begin_us + shards * chunk_us(plan, &way) : 0;
}

/* The product, or if it is longer the way of the last rows and what is multiplied after it. */
static double product_us(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                         const struct symm_tile_shape *shape, int first_step, int last_step)
{
    const int coming = plan->chunks ? last_step - 1 : 0;
    uint64_t all = 0, last;

    for (int step = first_step; step < last_step; step++)
        all += tiles(p, step, shape);
    if (coming == 0)
        return tiles_us(p, plan, shape, all);
    last = symm__ceil_div(tiles(p, last_step - 1, shape), plan->chunks / plan->pieces);
    return fmax(fmax(fused_us, first_us(plan, coming)) + tiles_us(p, plan, shape, all) +
                    coming * (double)plan->slab_nbytes / product_bytes_per_us,
                arrival_us(plan, coming, tiles_us(p, plan, shape, last)));
}

int symm__model_shape(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                      int first_step, int last_step)
{
    double least = INFINITY;
    int best = 0;

    for (int i = 0; i < NSHAPES; i++) {
        const double us = product_us(p, plan, &symm__wgmma_shapes[i], first_step, last_step);
        if (us < least) {
            least = us;
            best = i;
        }
    }
    return best;
}

double symm__model_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                      int64_t columns, const struct symm_matmul_plan *plan)
{
    const struct symm_tile_shape *shape = &portable_shape;
    struct symm_problem one = *p; /* as a rank takes it that has all columns in one b */

    one.rank = 0;
    one.nb = 1;
    one.n[0] = (int32_t)(columns < INT32_MAX ? columns : INT32_MAX);
    if (limits->wgmma)
        shape = &symm__wgmma_shapes[symm__model_shape(&one, plan, 0, p->nranks)];
    return product_us(&one, plan, shape, 0, p->nranks);
}

symm_strategy symm__model_strategy(const struct symm_matmul_limits *limits,
                                   const struct symm_problem *p, int64_t columns,
                                   const struct symm_matmul_plan *plan)
{
    const struct symm_matmul_plan gathered = {.blocks = plan->blocks + plan->free - 1};
    const double bytes = (double)plan->slab_nbytes * (p->nranks - 1), b = (double)columns * p->k,
                 fused = symm__model_us(limits, p, columns, plan);
    const double product = limits->cublas
                               ? p->l * fmax(b * p->m / cublas_sm_products_per_us / gathered.blocks,
                                             b * sizeof(uint16_t) / cublas_bytes_per_us)
                               : symm__model_us(limits, p, columns, &gathered);

    return gather_us + bytes / link_bytes_per_us + product <= fused ? SYMM_STRATEGY_UNFUSED
                                                                    : SYMM_STRATEGY_FUSED;
}
