/* Choosing a strategy, chunks and a grid. */
#include "plan.h"

#include <math.h>
#include "runtime/base/numbers.h"
#include "model.h"

enum {
    ELEMENT_NBYTES = 2,
    PACK_ELEMENTS = 8,
    TILE_ROWS = 128,
    TILE_COLUMNS = 256,
    THREADS = 256,
    STRIPS_MOST = 8,    /* at the end of a run each is waited for */
    PIECE_LEAST = 1024, /* what a tile multiplies in some 10 us, in which 3 MiB come */
    PIECES_MOST = 4,
    ENGINE_PIECES_MOST = 8,
    FREE_STEP = 4, /* multiprocessors */
    FREE_SHARE = 6 /* and at most this part of all */
};

/* -------------------------------------------------------------------------------- the workspace */

int64_t symm__matmul_ld(int32_t k)
{
    return (int64_t)symm__round_up((uint64_t)k, PACK_ELEMENTS);
}

/* Rows are cut into strips of whole tiles' rows, and these along k. */
static void cut(struct symm_matmul_plan *plan, uint64_t rows, uint64_t strip_rows, uint64_t pieces)
{
    const uint64_t ld = (uint64_t)plan->ld, strip = symm__min(rows, strip_rows);

    plan->strip_rows = (uint32_t)symm__round_up(strip, TILE_ROWS);
    plan->piece = (uint32_t)symm__round_up(symm__ceil_div(ld, pieces), SYMM_WGMMA_DEPTH);
    plan->pieces = (uint32_t)symm__ceil_div(ld, plan->piece);
    plan->chunks = (uint32_t)symm__ceil_div(rows, plan->strip_rows) * plan->pieces;
}

/* ---------------------------------------------------------------------------- how rows are sent */

/* Rows of the tiles that the product multiplies at a time. */
static uint64_t turn_rows(const struct symm_matmul_plan *plan, int64_t columns)
{
    const uint64_t across = symm__max(symm__ceil_div((uint64_t)columns, TILE_COLUMNS), 1);

    return symm__max(plan->blocks / across / 2 * 2, 2) * TILE_ROWS;
}

/*
 * In one piece: strips; what comes while the last one is multiplied need not be small. In several:
 * all rows are a strip.
 */
static struct symm_matmul_plan by_engine(const struct symm_matmul_limits *limits,
                                         const struct symm_matmul_plan *base, uint64_t rows,
                                         int64_t columns, uint64_t pieces)
{
    struct symm_matmul_plan plan = *base;
    const uint64_t row_nbytes = (uint64_t)plan.ld * ELEMENT_NBYTES,
                   least = limits->engine_nbytes ? limits->engine_nbytes : SYMM_MATMUL_CHUNK_NBYTES,
                   strip = symm__max(symm__ceil_div(rows, STRIPS_MOST),
                                     symm__ceil_div(least, row_nbytes));

    plan.by_engine = true;
    plan.together = 1;
    if (pieces > 1)
        plan.together = (uint32_t)symm__max(turn_rows(&plan, columns) / rows, 1);
    cut(&plan, rows, pieces > 1 ? rows : strip, pieces);
    return plan;
}

/*
 * Whether copy engines may send a shard in so many pieces: a copy of lines has a longest pitch. The
 * portable kernel waits for all of them, and so would wait longer; it gets them if somebody asks.
 */
static bool may_be_cut(const struct symm_matmul_limits *limits, const struct symm_matmul_plan *base,
                       uint64_t pieces)
{
    const uint64_t least = limits->engine_nbytes ? limits->engine_nbytes : SYMM_MATMUL_PIECE_NBYTES;

    return (limits->wgmma || limits->engine_nbytes) && pieces <= ENGINE_PIECES_MOST &&
           (uint64_t)base->ld / pieces >= PIECE_LEAST && base->slab_nbytes / pieces >= least &&
           base->ld * ELEMENT_NBYTES <= INT32_MAX;
}

/* A strip has as many tiles as the product has blocks, or nearly so; or several shards have. */
static struct symm_matmul_plan by_blocks(const struct symm_matmul_limits *limits,
                                         const struct symm_matmul_plan *base, uint64_t rows,
                                         int64_t columns, uint32_t nfree)
{
    struct symm_matmul_plan plan = *base;
    uint64_t turn;

    plan.free = nfree;
    plan.blocks = (uint32_t)limits->nsms > nfree ? (uint32_t)limits->nsms - nfree : 1;
    turn = turn_rows(&plan, columns);
    plan.together = (uint32_t)symm__max(turn / rows, 1);
    cut(&plan, rows, symm__max(turn, symm__ceil_div(rows, STRIPS_MOST)),
        symm__max(symm__min((uint64_t)plan.ld / PIECE_LEAST, PIECES_MOST), 1));
    return plan;
}

/* The best of those that have been looked at. */
struct choice {
    struct symm_matmul_plan plan;
    double us;
};

static void look_at(struct choice *best, const struct symm_matmul_limits *limits,
                    const struct symm_problem *p, int64_t columns, struct symm_matmul_plan plan)
{
    const double us = symm__model_us(limits, p, columns, &plan);

    if (us < best->us)
        *best = (struct choice){plan, us};
}

/*
 * Rows sent while they are multiplied: the way that is estimated to take the least time; of several
 * copy engines with the fewest copies, then the one with the most senders.
 */
static struct symm_matmul_plan beside(const struct symm_matmul_limits *limits,
                                      const struct symm_problem *p, int64_t columns,
                                      const struct symm_matmul_plan *base, uint64_t rows)
{
    const uint64_t asked = limits->engine_nbytes;
    const bool engines = base->slab_nbytes >= asked, blocks = !asked || !engines;
    struct choice best = {.us = INFINITY};

    for (uint64_t n = 1; engines && (n == 1 || may_be_cut(limits, base, n)); n *= 2)
        look_at(&best, limits, p, columns, by_engine(limits, base, rows, columns, n));
    for (int n = limits->nsms / FREE_SHARE / FREE_STEP; blocks && n >= 0; n--)
        look_at(&best, limits, p, columns,
                by_blocks(limits, base, rows, columns, n ? (uint32_t)n * FREE_STEP : 1));
    return best.plan;
}

/*
 * A block for each multiprocessor but some, one at least, which stay free for what is not of
 * products. Two blocks do not fit one: their registers leave room for what they wait for, and for
 * nothing else.
 */
struct symm_matmul_plan symm__matmul_plan(const struct symm_matmul_limits *limits,
                                          const struct symm_problem *p, int64_t columns)
{
    struct symm_matmul_plan plan = {
        .strategy = p->strategy,
        .free = 1,
        .blocks = limits->nsms > 1 ? (uint32_t)limits->nsms - 1 : 1,
        .threads = (uint32_t)symm__min(THREADS, (uint64_t)limits->max_threads),
    };
    struct symm_matmul_plan fused;

    const uint64_t rows = (uint64_t)symm__problem_rows(p->m, p->nranks, 0) * (uint64_t)p->l;

    if (p->nranks == 1) {
        plan.strategy = SYMM_STRATEGY_AUTO;
        return plan;
    }
    plan.ld = symm__matmul_ld(p->k);
    plan.slab_nbytes = rows * (uint64_t)plan.ld * ELEMENT_NBYTES;
    plan.workspace_nbytes = plan.slab_nbytes * (uint64_t)p->nranks;
    if (plan.strategy == SYMM_STRATEGY_UNFUSED)
        return plan;
    fused = beside(limits, p, columns, &plan, rows);
    if (plan.strategy == SYMM_STRATEGY_AUTO) {
        fused.strategy = symm__model_strategy(limits, p, columns, &fused);
        plan.strategy = fused.strategy;
    }
    return plan.strategy == SYMM_STRATEGY_UNFUSED ? plan : fused;
}

/* -------------------------------------------------------------------------------- tensor copies */

static struct symm_lines lines_of(const symm_matrix *x, int64_t along, int64_t lines, int64_t pitch,
                                  int64_t l)
{
    return (struct symm_lines){
        .data = x->data,
        .along = along,
        .lines = lines,
        .batches = x->batch ? l : 1,
        .pitch = lines > 1 ? pitch : 0,
        .batch = l > 1 ? x->batch : 0,
    };
}

struct symm_lines symm__lines_of_rows(const symm_matrix *x, int64_t rows, int64_t columns,
                                      int64_t l)
{
    return lines_of(x, columns, rows, x->row, l);
}

struct symm_lines symm__lines_of_columns(const symm_matrix *x, int64_t rows, int64_t columns,
                                         int64_t l)
{
    return lines_of(x, rows, columns, x->column, l);
}

/* In units of 16 bytes, and below 2^40 bytes. */
static bool is_stride(int64_t elements)
{
    return elements % PACK_ELEMENTS == 0 && elements < INT64_C(1) << 39;
}

static bool can_be_copied(const struct symm_lines *x)
{
    return (uintptr_t)x->data % 16 == 0 && is_stride(x->pitch) && is_stride(x->batch) &&
           (x->lines == 1 || x->pitch > 0);
}

bool symm__matmul_suits_wgmma(const struct symm_problem *p, const symm_shards *a)
{
    const int64_t rows = symm__problem_rows(p->m, p->nranks, p->rank);
    struct symm_lines lines = symm__lines_of_rows(&a->own, rows, p->k, p->l);

    if (p->alpha == 0 || (rows > 0 && (a->own.column != 1 || !can_be_copied(&lines))))
        return false;
    for (int i = 0; i < p->nb; i++) {
        const symm_matrix *b = &p->b[i].matrix;
        if (b->row != 1 && b->column != 1)
            return false;
        lines = b->row == 1 ? symm__lines_of_columns(b, p->k, p->n[i], p->l)
                            : symm__lines_of_rows(b, p->k, p->n[i], p->l);
        if (!can_be_copied(&lines))
            return false;
    }
    return true;
}
