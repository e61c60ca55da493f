/* Choosing a strategy, chunks and a grid. */
#include "plan.h"

enum {
    ELEMENT_NBYTES = 2,
    PACK_ELEMENTS = 8,
    TILE_ROWS = 128,
    THREADS = 256,
    SENDERS = 16 /* blocks of one warp, where blocks send */
};

/* A copy engine's copy, and the signal after it, take as long as so many bytes do. */
#define ENGINE_NBYTES ((uint64_t)2 << 20)
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

static symm_strategy choose(const struct symm_matmul_machine *machine, const struct symm_problem *p,
                            int64_t columns)
{
    const double a = (double)p->m * p->l * p->k,
                 link = a * ELEMENT_NBYTES * (p->nranks - 1) / p->nranks / link_bytes_per_us,
                 product = a * (double)columns / machine->nsms / sm_products_per_us,
                 fused = fused_us + (link > product ? link : product),
                 unfused = gather_us + link + product;

    return unfused <= fused ? SYMM_STRATEGY_UNFUSED : SYMM_STRATEGY_FUSED;
}

/* -------------------------------------------------------------------------------- the workspace */

/* Whole tiles' rows, so that a tile waits for one chunk. */
static uint32_t chunk_rows(uint64_t rows, uint64_t wanted, uint64_t least)
{
    return (uint32_t)(ceil_div(larger(ceil_div(rows, wanted), least), TILE_ROWS) * TILE_ROWS);
}

static void plan_gather(const struct symm_matmul_machine *machine, const struct symm_problem *p,
                        struct symm_matmul_plan *plan)
{
    const uint64_t rows = (uint64_t)symm__problem_rows(p->m, p->nranks, 0) * (uint64_t)p->l,
                   engine = machine->engine_nbytes ? machine->engine_nbytes : ENGINE_NBYTES;
    uint64_t row_nbytes;

    plan->ld = (int64_t)ceil_div((uint64_t)p->k, PACK_ELEMENTS) * PACK_ELEMENTS;
    row_nbytes = (uint64_t)plan->ld * ELEMENT_NBYTES;
    plan->slab_nbytes = rows * row_nbytes;
    plan->workspace_nbytes = plan->slab_nbytes * (uint64_t)p->nranks;
    if (plan->strategy == SYMM_STRATEGY_UNFUSED)
        return;
    plan->by_engine = plan->slab_nbytes >= engine;
    plan->parts = plan->by_engine ? 1 : SENDERS;
    plan->chunk_rows = plan->by_engine
                           ? chunk_rows(rows, CHUNKS_WANTED, ceil_div(engine, row_nbytes))
                           : chunk_rows(rows, SMALL_CHUNKS_WANTED, 1);
}

/*
 * One multiprocessor stays free, and no other gets more than one block: so two groups' products fit
 * a device at a time, and what they wait for fits beside them.
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
