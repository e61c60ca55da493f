/* Choosing a strategy, chunks and a grid. */
#include "plan.h"

#include "model.h"

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

/* How rows are sent while they are multiplied. */
static void plan_way(const struct symm_matmul_machine *machine, uint64_t rows, uint64_t row_nbytes,
                     struct symm_matmul_plan *plan)
{
    const uint64_t asked = machine->engine_nbytes,
                   engine = asked ? asked : SYMM_MATMUL_ENGINE_NBYTES,
                   chunk = asked ? asked : SYMM_MATMUL_CHUNK_NBYTES;

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

    const uint64_t rows = (uint64_t)symm__problem_rows(p->m, p->nranks, 0) * (uint64_t)p->l;

    if (p->nranks == 1)
        return plan;
    plan.ld = symm__matmul_ld(p->k);
    plan.slab_nbytes = rows * (uint64_t)plan.ld * ELEMENT_NBYTES;
    plan.workspace_nbytes = plan.slab_nbytes * (uint64_t)p->nranks;
    plan.strategy = p->strategy;
    if (plan.strategy != SYMM_STRATEGY_UNFUSED)
        plan_way(machine, rows, (uint64_t)plan.ld * ELEMENT_NBYTES, &plan);
    if (plan.strategy == SYMM_STRATEGY_AUTO)
        plan.strategy = symm__model_strategy(machine, p, columns, &plan);
    if (plan.strategy == SYMM_STRATEGY_UNFUSED) {
        plan.by_engine = false;
        plan.parts = 0;
        plan.chunk_rows = plan.chunks = 0;
    }
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
