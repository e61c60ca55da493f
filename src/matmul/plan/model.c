/* Estimates of the time of products and of their transfers. */
#include "model.h"

#include <math.h>
#include "matmul/kernels/sm90_tiles.h"
#include "order.h"
#include "runtime/base/numbers.h"

/* symm_tile_shape.time, measured. */
enum {
    TIME_64_128_2 = 107,
    TIME_128_128_2 = 151,
    TIME_144_128_2 = 166,
    TIME_160_128_2 = 184,
    TIME_192_128_1 = 213,
    TIME_208_128_2 = 228,
    TIME_128_192_2 = 213,
    TIME_96_256_1 = 219,
    TIME_112_256_1 = 250,
    TIME_112_256_2 = 248,
    TIME_128_256_1 = 276,
    TIME_128_256_2 = 273,
    TIME_PORTABLE = 549
};
#define SHAPE(unused, rows, columns, blocks)                                                       \
    {rows, columns, blocks, TIME_##rows##_##columns##_##blocks},
const struct symm_tile_shape symm__wgmma_shapes[] = {SYMM_WGMMA_SHAPES(SHAPE, )};
const int symm__nwgmma_shapes = sizeof symm__wgmma_shapes / sizeof symm__wgmma_shapes[0];
const struct symm_tile_shape symm__portable_shape = {128, 128, 1, TIME_PORTABLE};

static const double tile_us = 36.9e-6;           /* the unit of the shapes' times */
static const double tile_end_k = 125;            /* a tile's end takes as long as this much of k */
static const double shared_us = 0.16e-3;         /* for each element of a tile whose parts of k
                                                    are added */
static const double l2_bytes_per_us = 6.5e6;     /* operands of all blocks */
static const double link_bytes_per_us = 343e3;   /* into one device, large copies */
static const double sm_bytes_per_us = 24e3;      /* sent by one SM beside a product, */
static const double sms_bytes_per_us = 260e3;    /* and by many */
static const double fused_us = 9;                /* overhead of a fused run, without its product */
static const double product_bytes_per_us = 33e5; /* arriving bytes slow the product by this */
static const double gather_us = 8;               /* overhead of an all-gather, without its bytes */
static const double pipelined_us = 11;           /* overhead of a pipelined run */
static const double pipelined_bytes_per_us = 15e5; /* arriving rows slow its later products */
static const double b_bytes_per_us = 2.0e6;        /* the Hopper kernel reads b, if rows are few */
static const double cublas_call_us = 3, cublas_sm_products_per_us = 3.14e6,
                    cublas_bytes_per_us = 4.0e6;
/*
 * Of the time that tiles of 128 x 256 would waste: past the last row, and on SMs that idle in the
 * last wave. cuBLASLt has smaller tiles, too, and splits k, so no more than cublas_idle idle.
 */
static const double cublas_row_waste = 0.5, cublas_wave_waste = 0.3, cublas_idle = 0.2;
/* The same of SMs that have no tile, if tiles of 128 x 128 are fewer than the SMs. */
static const double cublas_fill_waste = 0.6;

/* Tiles of steps [first, last), of all clusters. */
static uint64_t tiles(const struct symm_problem *p, const struct symm_matmul_plan *plan, int first,
                      int last, const struct symm_tile_shape *shape)
{
    return symm__tiles_of_steps(p, plan->sink, first, last, shape->rows * shape->cluster,
                                shape->columns);
}

/* One wave of tiles, with this much of k. */
static double wave_us(const struct symm_tile_shape *shape, double k)
{
    return shape->time * (k + tile_end_k) * tile_us;
}

/*
 * A wave of this many places, in which each block has a part of a tile's k. No block shares what it
 * loads, so L2 may be the limit. If the caller asks for it, the addition counts as free, so that a
 * shape is chosen with which it happens.
 */
static double shared_wave_us(const struct symm_problem *p, const struct symm_tile_shape *shape,
                             uint64_t places)
{
    const double blocks = (double)places * shape->cluster * shape->cluster,
                 stage = (shape->rows + shape->columns) * SYMM_WGMMA_DEPTH * sizeof(uint16_t),
                 add_us = p->schedule == SYMM_SCHEDULE_STREAM_K
                              ? 0
                              : shape->rows * shape->columns * shared_us,
                 step_us = fmax(shape->time * SYMM_WGMMA_DEPTH * tile_us,
                                blocks * stage / l2_bytes_per_us);

    return (double)p->k / shape->cluster / SYMM_WGMMA_DEPTH * step_us + wave_us(shape, 0) + add_us;
}

bool symm__model_shares_k(const struct symm_problem *p, const struct symm_tile_shape *shape,
                          uint64_t ntiles, uint64_t clusters)
{
    const uint64_t last = clusters ? ntiles % clusters : 0;

    if (shape->cluster == 1 || last == 0 || last * (uint64_t)shape->cluster > clusters ||
        !symm__may_share_k(p))
        return false;
    return p->schedule == SYMM_SCHEDULE_STREAM_K ||
           shared_wave_us(p, shape, last) < wave_us(shape, p->k);
}

/* Tiles that are multiplied one wave after the other. */
static double tiles_us(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                       const struct symm_tile_shape *shape, uint64_t ntiles)
{
    const uint64_t clusters = plan->blocks / (unsigned)shape->cluster;

    if (clusters == 0)
        return INFINITY;
    return (double)symm__ceil_div(ntiles, clusters) * wave_us(shape, p->k);
}

/* All tiles of a launch. */
static double all_tiles_us(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                           const struct symm_tile_shape *shape, uint64_t ntiles)
{
    const double us = tiles_us(p, plan, shape, ntiles);
    const uint64_t clusters = plan->blocks / (unsigned)shape->cluster;

    if (!symm__model_shares_k(p, shape, ntiles, clusters))
        return us;
    return us - wave_us(shape, p->k) + shared_wave_us(p, shape, ntiles % clusters);
}

/*
 * A sender's speed. The first rows leave after begin_us; a chunk costs chunk_us and its bytes.
 */
struct speed {
    double bytes_per_us, chunk_us, begin_us;
};

static struct speed speed_of(const struct symm_matmul_plan *plan)
{
    const struct speed speeds[SYMM_SENDERS] = {
        [SYMM_SENDER_SMS] = {fmin(plan->comm_sms * sm_bytes_per_us, sms_bytes_per_us), 0.3, 12},
        [SYMM_SENDER_COPY_ENGINES] = {link_bytes_per_us, 5.5, 10},
    };

    return speeds[plan->sender];
}

static double chunk_us(const struct symm_matmul_plan *plan, const struct speed *speed)
{
    return (double)plan->slab_nbytes / plan->chunks / speed->bytes_per_us + speed->chunk_us;
}

/* The part of a shard's rows above strip `strip`. */
static double share_above(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                          int strip)
{
    const double rows = (double)symm__rows_of_rank(p->m, p->nranks, 0) * p->l;

    return fmin((double)strip * plan->strip_rows / rows, 1);
}

/*
 * The end of all tiles from a strip of a shard on, if they begin when the strip has arrived. A tile
 * without a row of the strips above it is among them.
 */
static double strip_us(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                       const struct symm_tile_shape *shape, int shard, int strip)
{
    const struct speed speed = speed_of(plan);
    const int strips = (int)(plan->chunks / plan->k_pieces), nshards = p->nranks;
    const double arrived = strip + 1 < strips ? share_above(p, plan, strip + 1) : 1,
                 copies = (shard - 1.0) * plan->chunks + (strip + 1.0) * plan->k_pieces,
                 above =
                     share_above(p, plan, strip) * (double)tiles(p, plan, shard, shard + 1, shape);

    return speed.begin_us + (shard - 1 + arrived) * (double)plan->slab_nbytes / speed.bytes_per_us +
           copies * speed.chunk_us +
           tiles_us(p, plan, shape, tiles(p, plan, shard, nshards, shape) - (uint64_t)above);
}

/*
 * The end of the last tiles if the arrival of rows determines it. One wave of a strip's tiles
 * begins with its first piece and ends after its last piece has been multiplied. The other waves
 * follow it.
 */
static double arrival_us(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                         const struct symm_tile_shape *shape)
{
    const struct speed speed = speed_of(plan);
    const int strips = (int)(plan->chunks / plan->k_pieces);
    const double one_us = tiles_us(p, plan, shape, 1), piece_us = chunk_us(plan, &speed);
    double end = 0;

    for (int shard = 1; shard < p->nranks; shard++)
        for (int strip = 0; strip < strips; strip++)
            end = fmax(end, strip_us(p, plan, shape, shard, strip));
    return end - one_us + fmax(one_us / plan->k_pieces, one_us - piece_us * (plan->k_pieces - 1));
}

/* The arrival of the first piece of other ranks' shards in the first wave; 0: it has none. */
static double first_us(const struct symm_matmul_plan *plan, int arriving)
{
    const struct speed speed = speed_of(plan);
    const int shards = (int)fmin(plan->shards_interleaved - 1.0, arriving);

    return shards > 0 ? speed.begin_us + shards * chunk_us(plan, &speed) : 0;
}

/* max(compute time, arrival of the last rows + the tiles that need them). */
static double product_us(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                         const struct symm_tile_shape *shape, int first_step, int last_step)
{
    const int arriving = plan->chunks ? last_step - 1 : 0;
    const double all_us =
        all_tiles_us(p, plan, shape, tiles(p, plan, first_step, last_step, shape));

    if (arriving == 0)
        return all_us;
    return fmax(fmax(fused_us, first_us(plan, arriving)) + all_us +
                    arriving * (double)plan->slab_nbytes / product_bytes_per_us,
                arrival_us(p, plan, shape));
}

int symm__model_shape(const struct symm_problem *p, const struct symm_matmul_plan *plan,
                      int first_step, int last_step)
{
    double least = INFINITY;
    int best = 0;

    if (plan->shape > 0)
        return plan->shape - 1;
    for (int i = 0; i < symm__nwgmma_shapes; i++) {
        const struct symm_tile_shape *shape = &symm__wgmma_shapes[i];
        const double us = product_us(p, plan, shape, first_step, last_step);
        if (us < least) {
            least = us;
            best = i;
        }
    }
    return best;
}

/* The problem of a rank with all columns in one b. */
static struct symm_problem with_columns(const struct symm_problem *p, int64_t columns)
{
    struct symm_problem one = *p;

    one.rank = 0;
    one.nb = 1;
    one.n[0] = (int32_t)(columns < INT32_MAX ? columns : INT32_MAX);
    return one;
}

double symm__model_fused_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                            int64_t columns, const struct symm_matmul_plan *plan)
{
    const struct symm_problem one = with_columns(p, columns);
    const struct symm_tile_shape *shape = &symm__portable_shape;
    const int steps = symm__steps_of(p, plan->sink);

    if (limits->wgmma)
        shape = &symm__wgmma_shapes[symm__model_shape(&one, plan, 0, steps)];
    return fmax(product_us(&one, plan, shape, 0, steps),
                (plan->chunks ? fused_us : 0) +
                    (double)columns * p->k * p->l * sizeof(uint16_t) / b_bytes_per_us);
}

/* How many times as long a product by cuBLASLt takes as its multiplications. */
static double cublas_waste(const struct symm_matmul_limits *limits, int64_t columns, int32_t rows)
{
    const uint64_t down = symm__ceil_div((uint64_t)rows, 128),
                   across = symm__ceil_div((uint64_t)columns, 256);
    const double waves = (double)(down * across) / limits->nsms,
                 past_rows = (double)(down * 128) / rows - 1,
                 small_tiles = (double)(down * symm__ceil_div((uint64_t)columns, 128)),
                 idle = waves > 1 ? fmin((ceil(waves) - waves) / waves, cublas_idle) : 0,
                 unused = fmax(1 - small_tiles / limits->nsms, 0);

    return (1 + cublas_row_waste * past_rows) * (1 + cublas_wave_waste * idle) *
           (1 + cublas_fill_waste * unused);
}

static double estimate_cublas_us(const struct symm_matmul_limits *limits,
                                 const struct symm_problem *p, int64_t columns, int32_t rows)
{
    const double b = (double)columns * p->k,
                 multiply_us = b * rows / cublas_sm_products_per_us / limits->nsms,
                 read_us = b * sizeof(uint16_t) / cublas_bytes_per_us;

    return rows == 0 ? 0
                     : cublas_call_us +
                           p->l * fmax(multiply_us * cublas_waste(limits, columns, rows), read_us);
}

double symm__model_cublas_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                             int64_t columns, int32_t rows)
{
    const double us = estimate_cublas_us(limits, p, columns, rows);

    if (limits->cublas_us == 0 || rows == 0)
        return us;
    if (rows == p->m)
        return limits->cublas_us;
    if (limits->share_us > 0)
        return limits->share_us;
    return us * fmax(limits->cublas_us / estimate_cublas_us(limits, p, columns, p->m), 1);
}

double symm__model_pipelined_us(const struct symm_matmul_limits *limits,
                                const struct symm_problem *p, int64_t columns,
                                const struct symm_matmul_plan *plan)
{
    const struct speed speed = speed_of(plan);
    const double shard_us =
        (double)plan->slab_nbytes / speed.bytes_per_us + speed.chunk_us * plan->chunks;
    double end = pipelined_us;

    for (int step = 0; step < p->nranks; step++) {
        const int32_t rows = symm__rows_of_rank(p->m, p->nranks, step);
        const double arrived = step > 0 ? speed.begin_us + step * shard_us : 0;
        end = fmax(end, arrived) + symm__model_cublas_us(limits, p, columns, rows);
        if (step > 0 && step + 1 < p->nranks) /* the next rows arrive meanwhile */
            end += (double)plan->slab_nbytes / pipelined_bytes_per_us;
    }
    return end;
}

double symm__model_own_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                          int64_t columns, const struct symm_matmul_plan *plan)
{
    if (plan->split.k_parts > 0)
        return symm__model_split_us(limits, p, columns, &plan->split);
    if (plan->plain > 0)
        return symm__model_plain_us(limits, p, columns, plan->plain);
    return symm__model_fused_us(limits, p, columns, plan);
}

double symm__model_product_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                              int64_t columns, const struct symm_matmul_plan *plan)
{
    return plan->split.k_parts == 0 && limits->cublas
               ? symm__model_cublas_us(limits, p, columns, p->m)
               : symm__model_own_us(limits, p, columns, plan);
}

double symm__model_unfused_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                              int64_t columns, const struct symm_matmul_plan *plan)
{
    const struct symm_matmul_plan gathered = {
        .blocks = plan->blocks, .split = plan->split, .plain = plan->plain};
    const double bytes = (double)plan->slab_nbytes * (p->nranks - 1);

    return gather_us + bytes / link_bytes_per_us +
           symm__model_product_us(limits, p, columns, &gathered);
}
