/* Estimates of the time of products whose k is split over clusters. Fitted to an H200 GPU. */
#include "model.h"

#include <math.h>
#include "matmul/kernels/sm90_tiles.h"
#include "runtime/base/numbers.h"

#define SHAPE(unused, rows, columns, stages) {rows, columns, stages},
const struct symm_split_shape symm__split_shapes[] = {SYMM_SPLIT_SHAPES(SHAPE, )};

enum {
    NSHAPES = sizeof symm__split_shapes / sizeof symm__split_shapes[0],
    CLUSTER_MAX = 8, /* blocks */
    TALL = 128,      /* rows of a tile */
    GPC_SMS = 16     /* a cluster lies in one group of SMs */
};

static const double launch_us = 1.1, block_us = 0.43;    /* of a cluster, for each of its blocks */
static const double turn_us = 0.8;                       /* clusters that share an SM with others */
static const double step_us = 0.086, column_us = 2.0e-3; /* of DEPTH elements of k of a tile */
static const double b_bytes_per_us = 3.9e6;
/* Of the tallest tiles: the first row of tiles, and the next ones, whose b is in L2. */
static const double tall_b_bytes_per_us = 2.6e6, l2_bytes_per_us = 6.5e6;
static const double operands_bytes_per_us = 7e6; /* of a and b, from L2 */

/* Tiles of a b with this number of columns. */
static uint64_t tiles_of(const struct symm_problem *p, uint64_t columns,
                         const struct symm_split_shape *shape)
{
    return symm__ceil_div(columns, (uint64_t)shape->columns) * (uint64_t)p->l *
           symm__ceil_div((uint64_t)p->m, (uint64_t)shape->rows);
}

uint64_t symm__model_split_tiles(const struct symm_problem *p, const struct symm_split_shape *shape)
{
    uint64_t tiles = 0;

    for (int i = 0; i < p->nb; i++)
        tiles += tiles_of(p, (uint64_t)p->n[i], shape);
    return tiles;
}

/* Clusters of this many blocks that have SMs of their own. */
static uint64_t clusters_at_once(int nsms, int blocks)
{
    if (blocks == 1)
        return (uint64_t)nsms;
    return (uint64_t)symm__max((uint64_t)(nsms / GPC_SMS), 1) *
           symm__max((uint64_t)(GPC_SMS / blocks), 1);
}

/*
 * The most blocks of a grid whose blocks wait for other ranks. Two such grids of any clusters must
 * find room at the same time, so that two groups never wait for each other. Two blocks fit on an
 * SM. In each group of SMs, places for less than a cluster may be left over.
 */
static uint64_t most_that_wait(int nsms, int blocks)
{
    const int groups = nsms > GPC_SMS ? nsms / GPC_SMS : 1, other = nsms - groups / 2,
              left = 2 * nsms - other - groups * (blocks - 1);

    return left > 0 ? symm__min((uint64_t)other, (uint64_t)left) : 0;
}

/* The time in which the tiles of each row of tiles can load b. */
static double loads_us(const struct symm_problem *p, int64_t columns,
                       const struct symm_split_shape *shape)
{
    const double b = (double)columns * p->k * p->l * sizeof(uint16_t),
                 again = b * (double)(symm__ceil_div((uint64_t)p->m, (uint64_t)shape->rows) - 1);

    return shape->rows < TALL ? (b + again) / b_bytes_per_us
                              : b / tall_b_bytes_per_us + again / l2_bytes_per_us;
}

/* Columns of all products count as if in one b. */
double symm__model_split_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                            int64_t columns, const struct symm_split *split)
{
    const struct symm_split_shape *shape = &symm__split_shapes[split->shape];
    const uint64_t steps = symm__ceil_div((uint64_t)p->k, SYMM_WGMMA_DEPTH),
                   turns = symm__ceil_div(tiles_of(p, (uint64_t)columns, shape),
                                          clusters_at_once(limits->nsms, split->k_parts));
    const double steps_us = (double)(turns * symm__ceil_div(steps, (uint64_t)split->k_parts)) *
                            (step_us + column_us * shape->columns);

    return launch_us + block_us * split->k_parts + turn_us * (double)(turns - 1) +
           fmax(steps_us, loads_us(p, columns, shape));
}

double symm__model_split_loads_us(const struct symm_problem *p, int64_t columns,
                                  const struct symm_split *split)
{
    const struct symm_split_shape *shape = &symm__split_shapes[split->shape];
    const uint64_t rows = symm__min((uint64_t)p->m, (uint64_t)shape->rows),
                   lines =
                       tiles_of(p, (uint64_t)columns, shape) * (rows + (uint64_t)shape->columns);

    return p->m > shape->rows ? (double)lines * p->k * sizeof(uint16_t) / operands_bytes_per_us : 0;
}

struct symm_split symm__model_split(const struct symm_matmul_limits *limits,
                                    const struct symm_problem *p, int64_t columns, bool waits)
{
    const uint64_t steps = symm__ceil_div((uint64_t)p->k, SYMM_WGMMA_DEPTH),
                   most = symm__min(symm__min(CLUSTER_MAX, (uint64_t)limits->nsms), steps);
    struct symm_split best = {0, 0};
    double least = INFINITY;

    for (int i = 0; i < NSHAPES; i++)
        for (int k_parts = 1; k_parts <= (symm__may_share_k(p) ? (int)most : 1); k_parts++) {
            const struct symm_split split = {i, k_parts};
            const double us = symm__model_split_us(limits, p, columns, &split);
            const uint64_t blocks =
                symm__model_split_tiles(p, &symm__split_shapes[i]) * (uint64_t)k_parts;
            if (us < least && (!waits || blocks <= most_that_wait(limits->nsms, k_parts))) {
                least = us;
                best = split;
            }
        }
    return best;
}
