/* Chooses the strategy, the sender, the chunks and the grid of a product. */
#include "plan.h"

#include <math.h>
#include "matmul/kernels/sm90_tiles.h"
#include "matmul/kernels/tile_order.h"
#include "runtime/base/numbers.h"
#include "model.h"

enum {
    ELEMENT_NBYTES = 2,
    WAVE_TILE_ROWS = 128,
    WAVE_TILE_COLUMNS = 256,
    THREADS = 256,
    STRIPS_MAX = 8,     /* each costs a wait at the end of a run */
    K_PIECE_MIN = 1024, /* a tile multiplies that in some 10 us, in which 3 MiB arrive */
    K_PIECES_MAX = 4,
    ENGINE_K_PIECES_MAX = 8,
    COMM_SMS_STEP = 4,
    COMM_SMS_MANY = 12, /* fill a link, or nearly so */
    COMM_SMS_SHARE = 6  /* at most this part of all SMs */
};

/* -------------------------------------------------------------------------------- the workspace */

int64_t symm__matmul_ld(int32_t k)
{
    return (int64_t)symm__round_up((uint64_t)k, SYMM_PACK_ELEMENTS);
}

static const struct symm_tile_shape *shape_of(const struct symm_matmul_plan *plan)
{
    return plan->shape ? &symm__wgmma_shapes[plan->shape - 1] : &symm__portable_shape;
}

/* Rows of a cluster's tiles. */
static uint64_t tile_rows(const struct symm_matmul_plan *plan)
{
    return (uint64_t)shape_of(plan)->rows * (uint64_t)shape_of(plan)->cluster;
}

/*
 * Cuts rows into strips, and strips along k into pieces. Tiles of all rows of a band follow each
 * other, so a strip has whole bands: a tile then waits for no strip but that of its band.
 */
static void cut(struct symm_matmul_plan *plan, uint64_t rows, uint64_t strips, uint64_t k_pieces)
{
    const uint64_t ld = (uint64_t)plan->ld, tile = tile_rows(plan),
                   down = symm__ceil_div(rows, tile),
                   bands = symm__ceil_div(symm__ceil_div(down, strips), SYMM_BAND);

    plan->band = (uint32_t)symm__ceil_div(down, strips * bands);
    plan->strip_rows = (uint32_t)(plan->band * bands * tile);
    plan->k_piece = (uint32_t)symm__round_up(symm__ceil_div(ld, k_pieces), SYMM_WGMMA_DEPTH);
    plan->k_pieces = (uint32_t)symm__ceil_div(ld, plan->k_piece);
    plan->chunks = symm__chunks_of_rows(rows, plan->strip_rows, plan->k_pieces);
}

/* ------------------------------------------------------------------------------ sending of rows */

/* Rows of the tiles that the product multiplies at the same time, if they have a usual size. */
static uint64_t wave_rows(const struct symm_matmul_plan *plan, int64_t columns)
{
    const uint64_t across = symm__max(symm__ceil_div((uint64_t)columns, WAVE_TILE_COLUMNS), 1);

    return symm__max(plan->blocks / across / 2 * 2, 2) * WAVE_TILE_ROWS;
}

/* A shard goes in strips, or as one strip in pieces. */
static struct symm_matmul_plan by_engines(const struct symm_matmul_plan *base, uint64_t rows,
                                          int64_t columns, uint64_t strips, uint64_t k_pieces)
{
    struct symm_matmul_plan plan = *base;

    plan.sender = SYMM_SENDER_COPY_ENGINES;
    plan.shards_interleaved = 1;
    if (k_pieces > 1)
        plan.shards_interleaved = (uint32_t)symm__max(wave_rows(&plan, columns) / rows, 1);
    cut(&plan, rows, strips, k_pieces);
    return plan;
}

/* The most strips in which copy engines may send a shard: a power of two. */
static uint64_t most_strips(const struct symm_matmul_limits *limits,
                            const struct symm_matmul_plan *base)
{
    const uint64_t least = limits->engine_nbytes ? limits->engine_nbytes : SYMM_MATMUL_CHUNK_NBYTES;
    uint64_t strips = STRIPS_MAX;

    while (strips > 1 && base->slab_nbytes / strips < least)
        strips /= 2;
    return strips;
}

/*
 * Whether copy engines may send a shard in this many pieces; the pitch of a 2D copy is limited. The
 * portable kernel waits for all pieces of a strip, so it gets several only if engine_nbytes is set.
 */
static bool may_have_pieces(const struct symm_matmul_limits *limits,
                            const struct symm_matmul_plan *base, uint64_t k_pieces)
{
    const uint64_t least = limits->engine_nbytes ? limits->engine_nbytes : SYMM_MATMUL_PIECE_NBYTES;

    return (limits->wgmma || limits->engine_nbytes) && k_pieces <= ENGINE_K_PIECES_MAX &&
           (uint64_t)base->ld / k_pieces >= K_PIECE_MIN && base->slab_nbytes / k_pieces >= least &&
           base->ld * ELEMENT_NBYTES <= INT32_MAX;
}

/* One wave of the product's blocks multiplies about one strip, or several shards. */
static struct symm_matmul_plan by_sms(const struct symm_matmul_limits *limits,
                                      const struct symm_matmul_plan *base, uint64_t rows,
                                      int64_t columns, uint32_t comm_sms)
{
    struct symm_matmul_plan plan = *base;
    uint64_t wave;

    plan.sender = SYMM_SENDER_SMS;
    plan.comm_sms = comm_sms;
    plan.blocks = (uint32_t)limits->nsms > comm_sms ? (uint32_t)limits->nsms - comm_sms : 1;
    wave = wave_rows(&plan, columns);
    plan.shards_interleaved = (uint32_t)symm__max(wave / rows, 1);
    cut(&plan, rows, symm__min(symm__ceil_div(rows, wave), STRIPS_MAX),
        symm__max(symm__min((uint64_t)plan.ld / K_PIECE_MIN, K_PIECES_MAX), 1));
    return plan;
}

/* The best plan so far. */
struct choice {
    struct symm_matmul_plan plan;
    double us;
};

static void consider(struct choice *best, const struct symm_matmul_limits *limits,
                     const struct symm_problem *p, int64_t columns, struct symm_matmul_plan plan)
{
    const double us = symm__model_fused_us(limits, p, columns, &plan);

    if (us < best->us)
        *best = (struct choice){plan, us};
}

/* Considers numbers of SMs from `most` down, as long as they are at least `least`. */
static void consider_sms(struct choice *best, const struct symm_matmul_limits *limits,
                         const struct symm_problem *p, int64_t columns,
                         const struct symm_matmul_plan *base, uint64_t rows, int most, int least)
{
    for (int n = most / COMM_SMS_STEP * COMM_SMS_STEP; n >= least; n -= COMM_SMS_STEP)
        consider(best, limits, p, columns,
                 by_sms(limits, base, rows, columns, n ? (uint32_t)n : 1));
}

/*
 * Considers all senders of rows to tiles of the plan's shape. A setting that asks for copy engines
 * asks for its strips, too. If a product determines the time with both, many SMs were faster than
 * copy engines, since each chunk of theirs may come late.
 */
static void consider_senders(struct choice *best, const struct symm_matmul_limits *limits,
                             const struct symm_problem *p, int64_t columns,
                             const struct symm_matmul_plan *base, uint64_t rows)
{
    const uint64_t asked = limits->engine_nbytes;
    const bool engines = base->slab_nbytes >= asked, sms = !asked || !engines;
    const uint64_t strips = most_strips(limits, base);
    const int most = limits->nsms / COMM_SMS_SHARE;

    if (sms)
        consider_sms(best, limits, p, columns, base, rows, most, COMM_SMS_MANY);
    for (uint64_t n = asked ? strips : 1; engines && n <= strips; n *= 2)
        consider(best, limits, p, columns, by_engines(base, rows, columns, n, 1));
    for (uint64_t n = 2; engines && may_have_pieces(limits, base, n); n *= 2)
        consider(best, limits, p, columns, by_engines(base, rows, columns, 1, n));
    if (sms)
        consider_sms(best, limits, p, columns, base, rows,
                     (int)symm__min((uint64_t)most, COMM_SMS_MANY - 1), 0);
}

/*
 * Picks the sender and the tile shape with the lowest estimated time. Ties: the first shape; many
 * SMs, most of them first; copy engines, fewest copies first; then fewer SMs.
 */
static struct symm_matmul_plan choose_sender(const struct symm_matmul_limits *limits,
                                             const struct symm_problem *p, int64_t columns,
                                             const struct symm_matmul_plan *base, uint64_t rows)
{
    struct symm_matmul_plan plan = *base;
    struct choice best = {.us = INFINITY};
    const bool any = limits->wgmma && limits->shape == 0;
    const int last = any ? symm__nwgmma_shapes : limits->shape;

    for (plan.shape = any ? 1 : limits->shape; plan.shape <= last; plan.shape++)
        consider_senders(&best, limits, p, columns, &plan, rows);
    return best.plan;
}

/* Products wait for whole shards, so copy engines send whole shards, unless they may not. */
static struct symm_matmul_plan by_shards(const struct symm_matmul_limits *limits,
                                         const struct symm_matmul_plan *fused, uint64_t rows)
{
    struct symm_matmul_plan plan = *fused;

    plan.strategy = SYMM_STRATEGY_PIPELINED;
    plan.shape = limits->shape;
    if (limits->engine_nbytes)
        return plan;
    plan.sender = SYMM_SENDER_COPY_ENGINES;
    plan.shards_interleaved = 1;
    plan.blocks += plan.comm_sms - 1;
    plan.comm_sms = 1;
    cut(&plan, rows, 1, 1);
    plan.band = SYMM_BAND;
    return plan;
}

bool symm__rows_are_gathered(const struct symm_problem *p)
{
    return p->nranks == 1 || (p->l == 1 && symm__rows_are_packed(p->m, p->nranks));
}

/* The kernel that splits k, if it is expected to be faster than the plan's kernel. */
static struct symm_split choose_split(const struct symm_matmul_limits *limits,
                                      const struct symm_problem *p, int64_t columns,
                                      const struct symm_matmul_plan *plan)
{
    const struct symm_split split = symm__model_split(limits, p, columns, false);

    if (limits->cublas || !limits->split || limits->plain > 0 || !symm__rows_are_gathered(p) ||
        fmax(symm__model_split_us(limits, p, columns, &split),
             symm__model_split_loads_us(p, columns, &split)) >=
            symm__model_own_us(limits, p, columns, plan))
        return (struct symm_split){0, 0};
    return split;
}

bool symm__is_plain(const struct symm_problem *p)
{
    return symm__rows_are_gathered(p) && p->nb == 1 && p->l == 1 && symm__only_sums(p) &&
           p->d[0].matrix.dtype == p->dtype && p->schedule != SYMM_SCHEDULE_STREAM_K;
}

/* Start and end of a product by the general Hopper kernel, which its estimate leaves out. */
static const double general_us = 5;

/* The shape of a plain product, if that is expected to be faster than the general kernel. */
static int choose_plain(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                        int64_t columns, const struct symm_matmul_plan *plan)
{
    const int plain = symm__model_plain(limits, p, columns);

    if (!limits->wgmma || limits->shape > 0 || limits->plain < 0 || plain == 0 ||
        !symm__is_plain(p))
        return 0;
    if (limits->plain == 0 && symm__model_plain_us(limits, p, columns, plain) >=
                                  symm__model_fused_us(limits, p, columns, plan) + general_us)
        return 0;
    return plain;
}

/* A fused run. If symm's kernels have been measured and take longer than estimated, so does it. */
static double fused_us(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                       int64_t columns, const struct symm_matmul_plan *unfused,
                       const struct symm_matmul_plan *fused)
{
    const double us = symm__model_fused_us(limits, p, columns, fused);

    return us + fmax(limits->own_us - symm__model_own_us(limits, p, columns, unfused), 0);
}

/* Picks the strategy with the lowest estimated time. Ties: unfused, then fused. */
static struct symm_matmul_plan choose_strategy(const struct symm_matmul_limits *limits,
                                               const struct symm_problem *p, int64_t columns,
                                               const struct symm_matmul_plan *unfused,
                                               const struct symm_matmul_plan *fused,
                                               const struct symm_matmul_plan *pipelined)
{
    double least = symm__model_unfused_us(limits, p, columns, unfused), us;
    const struct symm_matmul_plan *best = unfused;

    us = fused_us(limits, p, columns, unfused, fused);
    if (us < least) {
        least = us;
        best = fused;
    }
    if (limits->cublas && symm__model_pipelined_us(limits, p, columns, pipelined) < least)
        best = pipelined;
    return *best;
}

/*
 * Sends alternately the chunks of the shards that are multiplied at the same time, with tiles of
 * the plan's shape. It follows the model, which was fitted with tiles of the usual size.
 */
static void interleave(struct symm_matmul_plan *plan, uint64_t rows, int64_t columns)
{
    const uint64_t across = symm__max(
                       symm__ceil_div((uint64_t)columns, (uint64_t)shape_of(plan)->columns), 1),
                   down = plan->blocks / (uint64_t)shape_of(plan)->cluster / across;

    if (plan->chunks > 0 && (plan->sender == SYMM_SENDER_SMS || plan->k_pieces > 1))
        plan->shards_interleaved = (uint32_t)symm__max(down * tile_rows(plan) / rows, 1);
}

/*
 * The product has one block per SM, and leaves at least one SM free for other kernels. Two of its
 * blocks never share an SM: their registers leave room only for the kernels that they wait for.
 */
static struct symm_matmul_plan choose_plan(const struct symm_matmul_limits *limits,
                                           const struct symm_problem *p, int64_t columns,
                                           uint64_t rows)
{
    struct symm_matmul_plan unfused = {
        .comm_sms = 1,
        .blocks = limits->nsms > 1 ? (uint32_t)limits->nsms - 1 : 1,
        .threads = (uint32_t)symm__min(THREADS, (uint64_t)limits->max_threads),
        .band = SYMM_BAND,
        .shape = limits->shape,
    };
    struct symm_matmul_plan fused, pipelined;

    unfused.plain = choose_plain(limits, p, columns, &unfused);
    unfused.split = choose_split(limits, p, columns, &unfused);
    if (p->nranks == 1)
        return unfused;
    unfused.strategy = SYMM_STRATEGY_UNFUSED;
    unfused.ld = symm__matmul_ld(p->k);
    unfused.slab_nbytes = rows * (uint64_t)unfused.ld * ELEMENT_NBYTES;
    unfused.workspace_nbytes = unfused.slab_nbytes * (uint64_t)p->nranks;
    if (p->strategy == SYMM_STRATEGY_UNFUSED)
        return unfused;
    fused = choose_sender(limits, p, columns, &unfused, rows);
    fused.strategy = SYMM_STRATEGY_FUSED;
    fused.split = (struct symm_split){0, 0};
    fused.plain = 0;
    if (p->strategy == SYMM_STRATEGY_FUSED)
        return fused;
    pipelined = by_shards(limits, &fused, rows);
    if (p->strategy == SYMM_STRATEGY_PIPELINED)
        return pipelined;
    return choose_strategy(limits, p, columns, &unfused, &fused, &pipelined);
}

struct symm_matmul_plan symm__matmul_plan(const struct symm_matmul_limits *limits,
                                          const struct symm_problem *p, int64_t columns)
{
    const uint64_t rows = (uint64_t)symm__rows_of_rank(p->m, p->nranks, 0) * (uint64_t)p->l;
    struct symm_matmul_plan plan = choose_plan(limits, p, columns, rows);

    if (plan.strategy == SYMM_STRATEGY_FUSED)
        interleave(&plan, rows, columns);
    return plan;
}
