/* Choosing a strategy, chunks and a grid. */
#include "plan.h"

#include <math.h>
#include "../kernels.def"

enum {
    ELEMENT_NBYTES = 2,
    PACK_ELEMENTS = 8,
    TILE_ROWS = 128,
    THREADS = 256,
    SENDERS = 16 /* blocks of one warp, where blocks send */
};

/* What comes while the last chunk is multiplied need not be small; what comes first should be. */
enum { CHUNKS_WANTED = 8, SMALL_CHUNKS_WANTED = 4 };

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* --------------------------------------------------------------------------------- the strategy */

/*
 * What links and multiprocessors do, for a choice that need not be exact: bytes a microsecond into
 * one device, products of two numbers a microsecond of one multiprocessor.
 */
static const double link_bytes_per_us = 345e3, sm_products_per_us = 2.4e6;
static const double gather_us = 5; /* an all-gather of a few bytes */
static const double fused_us = 10; /* what a fused run has beside the product: turns, copies */

/*
 * Of few rows, which may be left to cuBLASLt after an all-gather: symm's own product takes as long
 * as one tile does, so long for each of k; cuBLASLt's, which splits k, at least as long as reading
 * b does. From products of 16 to 512 rows on one H100.
 */
static const double tile_k_us = 5.2e-3, cublas_bytes_per_us = 2.5e6;

static symm_strategy choose(const struct symm_matmul_machine *machine, const struct symm_problem *p,
                            int64_t columns)
{
    const double a = (double)p->m * p->l * p->k, b = (double)columns * p->l * p->k,
                 link = a * ELEMENT_NBYTES * (p->nranks - 1) / p->nranks / link_bytes_per_us,
                 product = a * (double)columns / machine->nsms / sm_products_per_us,
                 ours = machine->cublas ? fmax(product, p->k * tile_k_us) : product,
                 after = machine->cublas ? fmax(product, b * ELEMENT_NBYTES / cublas_bytes_per_us)
                                         : product,
                 fused = fused_us + fmax(link, ours), unfused = gather_us + link + after;

    return unfused <= fused ? SYMM_STRATEGY_UNFUSED : SYMM_STRATEGY_FUSED;
}

/* -------------------------------------------------------------------------------- the workspace */

int64_t symm__matmul_ld(int32_t k)
{
    return (int64_t)ceil_div((uint64_t)k, PACK_ELEMENTS) * PACK_ELEMENTS;
}

/* Whole tiles' rows, so that a tile waits for one chunk. */
static uint32_t chunk_rows(uint64_t rows, uint64_t wanted, uint64_t least)
{
    const uint64_t chunk = smaller(rows, larger(ceil_div(rows, wanted), least));

    return (uint32_t)(ceil_div(chunk, TILE_ROWS) * TILE_ROWS);
}

static void plan_gather(const struct symm_matmul_machine *machine, const struct symm_problem *p,
                        struct symm_matmul_plan *plan)
{
    const uint64_t rows = (uint64_t)symm__problem_rows(p->m, p->nranks, 0) * (uint64_t)p->l,
                   asked = machine->engine_nbytes,
                   engine = asked ? asked : SYMM_MATMUL_ENGINE_NBYTES,
                   chunk = asked ? asked : SYMM_MATMUL_CHUNK_NBYTES;
    uint64_t row_nbytes;

    plan->ld = symm__matmul_ld(p->k);
    row_nbytes = (uint64_t)plan->ld * ELEMENT_NBYTES;
    plan->slab_nbytes = rows * row_nbytes;
    plan->workspace_nbytes = plan->slab_nbytes * (uint64_t)p->nranks;
    if (plan->strategy == SYMM_STRATEGY_UNFUSED)
        return;
    plan->by_engine = machine->wgmma || plan->slab_nbytes >= engine;
    plan->parts = plan->by_engine ? 1 : SENDERS;
    plan->chunk_rows = plan->by_engine
                           ? chunk_rows(rows, CHUNKS_WANTED, ceil_div(chunk, row_nbytes))
                           : chunk_rows(rows, SMALL_CHUNKS_WANTED, 1);
    plan->chunks = (uint32_t)ceil_div(rows, plan->chunk_rows);
}

/*
 * A block for each multiprocessor but one, which stays free for what is not of products. Two blocks
 * do not fit one: their registers leave room for what they wait for, and for nothing else.
 */
struct symm_matmul_plan symm__matmul_plan(const struct symm_matmul_machine *machine,
                                          const struct symm_problem *p, int64_t columns)
{
    struct symm_matmul_plan plan = {
        .blocks = machine->nsms > 1 ? (uint32_t)machine->nsms - 1 : 1,
        .threads = (uint32_t)smaller(THREADS, (uint64_t)machine->max_threads),
    };

    if (p->nranks == 1)
        return plan;
    plan.strategy = p->strategy == SYMM_STRATEGY_AUTO ? choose(machine, p, columns) : p->strategy;
    plan_gather(machine, p, &plan);
    return plan;
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

    if (rows > 0 && (a->own.column != 1 || !can_be_copied(&lines)))
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

#define SHAPE(unused, columns, cluster, time) {columns, cluster, time},
const struct symm_wgmma_shape symm__wgmma_shapes[] = {SYMM_WGMMA_SHAPES(SHAPE, )};
enum { NSHAPES = sizeof symm__wgmma_shapes / sizeof symm__wgmma_shapes[0] };

/* Of all clusters, with tiles of the same height below each other. */
static uint64_t tiles(const struct symm_problem *p, int step, const struct symm_wgmma_shape *shape)
{
    const int shard = (p->rank + step) % p->nranks, height = SYMM_WGMMA_ROWS * shape->cluster;
    uint64_t across = 0;

    for (int i = 0; i < p->nb; i++)
        across += ceil_div((uint64_t)p->n[i], (uint64_t)shape->columns);
    return across * (uint64_t)p->l *
           ceil_div((uint64_t)symm__problem_rows(p->m, p->nranks, shard), (uint64_t)height);
}

int symm__wgmma_choose(const struct symm_problem *p, int first_step, int last_step, int nsms)
{
    uint64_t least = UINT64_MAX;
    int best = 0;

    for (int i = 0; i < NSHAPES; i++) {
        const struct symm_wgmma_shape *shape = &symm__wgmma_shapes[i];
        uint64_t all = 0, time;
        for (int step = first_step; step < last_step; step++)
            all += tiles(p, step, shape);
        time = ceil_div(all, (uint64_t)(nsms / shape->cluster)) * (uint64_t)shape->time;
        if (time < least) {
            least = time;
            best = i;
        }
    }
    return best;
}
