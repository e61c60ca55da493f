/* Chooses how a product's results are collected. */
#include "plan.h"

#include <math.h>
#include "runtime/base/numbers.h"
#include "model.h"
#include "order.h"

enum {
    BANDS_SMS_SHARE = 16, /* the part of all SMs for the kernel that sums bands */
    PACK_RANKS = 32       /* at most: a thread of one warp tells each other rank of a run */
};

/*
 * Whether a product adds the other rank's parts. Their sum is rounded once on any rank, so its bits
 * are those of other strategies. Each rank owns tiles, so it hears of the other one in every run.
 * Both ranks own the rows of an all-reduce, so nothing that ranks may have of their own changes
 * its sums.
 */
static bool may_have_parts(const struct symm_matmul_limits *limits, const struct symm_problem *p)
{
    if (p->collect_nranks != 2)
        return false;
    if (p->kind == SYMM_MATMUL_ALL_REDUCE)
        return limits->only_sums;
    return p->kind == SYMM_MATMUL_REDUCE_SCATTER && p->m >= 2;
}

/*
 * Whether the kernel that splits k may send and add packs of sums. All ranks add all sums, so
 * nothing that ranks may have of their own changes them.
 */
static bool may_have_packs(const struct symm_matmul_limits *limits, const struct symm_problem *p)
{
    return p->kind == SYMM_MATMUL_ALL_REDUCE && limits->only_sums && limits->split &&
           p->collect_nranks <= PACK_RANKS;
}

/*
 * Whether the switch may add bands of an all-reduce's results, in their type. Two ranks send less
 * by parts. Not for AUTO, since the time has never been measured.
 */
static bool may_have_bands(const struct symm_matmul_limits *limits, const struct symm_problem *p)
{
    bool plain = p->kind == SYMM_MATMUL_ALL_REDUCE && p->strategy == SYMM_STRATEGY_FUSED &&
                 p->any_order && limits->only_sums && limits->multicast && p->collect_nranks > 2 &&
                 limits->nsms > 1;

    for (int i = 0; i < p->nb; i++)
        plain = plain && p->d[i].matrix.dtype == (uint32_t)p->partial[i];
    return plain;
}

bool symm__signals_tiles(const struct symm_matmul_plan *plan)
{
    return plan->sums == SYMM_SUMS_PARTS || plan->sums == SYMM_SUMS_BANDS;
}

/* An all-reduce of two parts: each rank adds all of them, since either way as much is sent. */
static symm_sink sink_of(const struct symm_problem *p, const struct symm_matmul_plan *plan)
{
    if (plan->strategy == SYMM_STRATEGY_UNFUSED || plan->sums == SYMM_SUMS_PACKS ||
        plan->sums == SYMM_SUMS_BANDS)
        return SYMM_TO_D;
    if (plan->sums == SYMM_SUMS_PARTS && p->kind == SYMM_MATMUL_ALL_REDUCE)
        return SYMM_TO_ALL;
    return symm__kind_reduces(p->kind) ? SYMM_TO_OWNERS : SYMM_TO_ALL;
}

/* A way to collect results. */
struct way {
    symm_strategy strategy;
    symm_sums sums;
};

/* Leaves SMs to the kernel that sums bands. */
static void leave_sms(const struct symm_matmul_limits *limits, struct symm_matmul_plan *plan)
{
    plan->comm_sms = (uint32_t)symm__max((uint64_t)limits->nsms / BANDS_SMS_SHARE, 1);
    plan->blocks = (uint32_t)limits->nsms - plan->comm_sms;
}

/*
 * The plan of a product whose results are collected. Blocks that send packs wait for those of the
 * other ranks, so all of them must run at the same time.
 */
static struct symm_matmul_plan by_way(const struct symm_matmul_limits *limits,
                                      const struct symm_matmul_plan *base,
                                      const struct symm_problem *p, int64_t columns,
                                      const struct way *way)
{
    struct symm_matmul_plan plan = *base;

    plan.strategy = way->strategy;
    plan.sums = way->sums;
    if (plan.sums == SYMM_SUMS_PACKS)
        plan.split = symm__model_split(limits, p, columns, true);
    else if (way->strategy != SYMM_STRATEGY_UNFUSED)
        plan.split = (struct symm_split){0, 0};
    if (way->strategy != SYMM_STRATEGY_UNFUSED)
        plan.plain = 0;
    if (plan.sums == SYMM_SUMS_BANDS)
        leave_sms(limits, &plan);
    plan.collective = way->strategy == SYMM_STRATEGY_UNFUSED && limits->sums_us > 0;
    plan.sink = sink_of(p, &plan);
    if (symm__signals_tiles(&plan))
        plan.shape = 1 + symm__model_shape(p, &plan, 0, symm__steps_of(p, plan.sink));
    return plan;
}

/* Whether the problem's sums may be made as the plan says. */
static bool is_possible(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                        const struct symm_matmul_plan *plan)
{
    const bool fused = plan->strategy == SYMM_STRATEGY_FUSED;

    switch (plan->sums) {
    case SYMM_SUMS_PARTS:
        return may_have_parts(limits, p);
    case SYMM_SUMS_PACKS:
        return may_have_packs(limits, p) && plan->split.k_parts > 0;
    case SYMM_SUMS_BANDS:
        return may_have_bands(limits, p);
    default:
        return !fused || (!may_have_parts(limits, p) && !may_have_bands(limits, p));
    }
}

/* Whether a plan counts. For AUTO, products for each owner's rows only pay off by cuBLASLt. */
static bool is_choice(const struct symm_matmul_limits *limits, const struct symm_problem *p,
                      const struct symm_matmul_plan *plan)
{
    if (!is_possible(limits, p, plan))
        return false;
    if (p->strategy != SYMM_STRATEGY_AUTO)
        return p->strategy == plan->strategy;
    if (plan->strategy == SYMM_STRATEGY_PIPELINED)
        return limits->cublas && symm__kind_reduces(p->kind);
    return true;
}

struct symm_matmul_plan symm__matmul_plan_collected(const struct symm_matmul_limits *limits,
                                                    const struct symm_problem *p, int64_t columns)
{
    /* Ties: the first one. */
    static const struct way ways[] = {{SYMM_STRATEGY_UNFUSED, SYMM_SUMS_COLLECTED},
                                      {SYMM_STRATEGY_FUSED, SYMM_SUMS_PACKS},
                                      {SYMM_STRATEGY_FUSED, SYMM_SUMS_PARTS},
                                      {SYMM_STRATEGY_FUSED, SYMM_SUMS_BANDS},
                                      {SYMM_STRATEGY_FUSED, SYMM_SUMS_COLLECTED},
                                      {SYMM_STRATEGY_PIPELINED, SYMM_SUMS_COLLECTED}};
    const struct symm_matmul_plan base = symm__matmul_plan(limits, p, columns);
    struct symm_matmul_plan best = base;
    double least = INFINITY;

    if (p->collect_nranks == 1)
        return base;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        const struct symm_matmul_plan plan = by_way(limits, &base, p, columns, &ways[i]);
        double us;
        if (!is_choice(limits, p, &plan))
            continue;
        us = symm__model_collected_us(limits, p, columns, &plan);
        if (us < least) {
            least = us;
            best = plan;
        }
    }
    return best;
}
