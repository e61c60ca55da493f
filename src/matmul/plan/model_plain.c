/* Estimates of the time of plain products. Fitted to an H200 GPU. */
#include "model.h"

#include <math.h>
#include "matmul/kernels/sm90_tiles.h"
#include "runtime/base/numbers.h"

/* symm_tile_shape.time, measured. */
enum {
    TIME_64_128_2 = 99,
    TIME_96_128_2 = 120,
    TIME_128_128_2 = 153,
    TIME_160_128_2 = 185,
    TIME_192_128_1 = 215,
    TIME_208_128_1 = 228,
    TIME_224_128_1 = 246,
    TIME_240_128_1 = 260,
    TIME_256_128_1 = 278,
    TIME_144_192_1 = 237,
    TIME_160_192_1 = 262,
    TIME_176_192_1 = 285,
    TIME_192_192_1 = 308,
    TIME_128_256_1 = 278,
    TIME_128_256_2 = 277,
    TIME_144_256_1 = 309,
    TIME_160_256_1 = 342,
    TIME_176_256_1 = 373
};
#define SHAPE(unused, rows, columns, blocks)                                                       \
    {rows, columns, blocks, TIME_##rows##_##columns##_##blocks},
const struct symm_tile_shape symm__plain_shapes[] = {SYMM_PLAIN_SHAPES(SHAPE, )};
enum { NSHAPES = sizeof symm__plain_shapes / sizeof symm__plain_shapes[0] };

static const double tile_us = 36.9e-6; /* the unit of the shapes' times */
static const double launch_us = 4;
/* A tile's end as elements of k: stored during the next tile, or before it. */
static const double overlapped_end_k = 60, end_k = 160;
static const double b_bytes_per_us = 2.6e6;

double symm__model_plain_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                            int64_t columns, int plain)
{
    const struct symm_tile_shape *shape = &symm__plain_shapes[plain - 1];
    const uint64_t clusters = (uint64_t)(limits->nsms / shape->cluster),
                   down = symm__ceil_div((uint64_t)p->m, (uint64_t)(shape->rows * shape->cluster)),
                   across = symm__ceil_div((uint64_t)columns, (uint64_t)shape->columns);
    const bool overlapped = shape->rows * shape->columns <= SYMM_PLAIN_OVERLAPPED;

    if (clusters == 0)
        return INFINITY;
    return launch_us + fmax((double)symm__ceil_div(down * across, clusters) * shape->time *
                                (p->k + (overlapped ? overlapped_end_k : end_k)) * tile_us,
                            (double)columns * p->k * sizeof(uint16_t) / b_bytes_per_us);
}

int symm__model_plain(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                      int64_t columns)
{
    double least = INFINITY;
    int best = 0;

    if (limits->plain > 0)
        return limits->plain;
    for (int plain = 1; plain <= NSHAPES; plain++) {
        const double us = symm__model_plain_us(limits, p, columns, plain);
        if (us < least) {
            least = us;
            best = plain;
        }
    }
    return best;
}
