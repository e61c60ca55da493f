/* Estimates of the time of products whose results are collected. Fitted to two H200 GPUs. */
#include "model.h"

#include <math.h>
#include <symm/names.h>

static const double collect_us = 11;             /* the launch and the barriers of collecting */
static const double memory_bytes_per_us = 3.4e6; /* of sums and copies within a device */
static const double read_bytes_per_us = 330e3;   /* from the memory of other ranks */
static const double sent_bytes_per_us = 350e3;   /* results that leave during the product */
static const double sent_us = 20;                /* before the first ones, after the last ones */
static const double unpaced_bytes_per_us = 1e6;  /* cuBLASLt's products stand still meanwhile */
static const double parts_us = 20;               /* of parts that the product adds: at its end, */
static const double all_parts_us = 23;           /* and if each rank owns all rows */
static const double parts_bytes_per_us = 3e6;    /* and during it */
static const double parts_sent_bytes_per_us = 335e3; /* parts, which the copy unit sends */
static const double packs_us = 1.4;                  /* of packs, after the product */
static const double packs_least_us = 3.7;            /* their signals, beside the product */
static const double packs_bytes_per_us = 230e3;

/* The bytes of the results of a rank's product, and of all its columns of D. */
struct volume {
    double results, d;
    int nranks;
};

static struct volume volume_of(const struct symm_problem *p, int64_t columns)
{
    const double elements = (double)p->m * p->l * (double)columns,
                 d = elements * (double)symm_dtype_size((symm_dtype)p->d[0].matrix.dtype);

    return (struct volume){
        .results =
            symm__kind_reduces(p->kind) ? elements * (double)symm_dtype_size(p->partial[0]) : d,
        .d = d,
        .nranks = p->collect_nranks,
    };
}

/* The share of the other ranks. */
static double others(const struct volume *v)
{
    return (v->nranks - 1.0) / v->nranks;
}

/* An all-reduce's rows of sums, read from all ranks. */
static double gather_us(const struct symm_problem *p, const struct volume *v)
{
    if (p->kind != SYMM_MATMUL_ALL_REDUCE)
        return 0;
    return others(v) * v->d / read_bytes_per_us + v->d / v->nranks * 2 / memory_bytes_per_us;
}

/* After a product that left its results in this rank's memory. */
static double collect_remote_us(const struct symm_problem *p, const struct volume *v)
{
    if (p->kind == SYMM_MATMUL_ALL_SCATTER)
        return collect_us + (v->nranks - 1) * v->d / read_bytes_per_us +
               2 * v->d / memory_bytes_per_us;
    return collect_us + others(v) * v->results / read_bytes_per_us + gather_us(p, v);
}

/* After a product that sent its results to slots. */
static double collect_slots_us(const struct symm_problem *p, const struct volume *v)
{
    if (p->kind == SYMM_MATMUL_ALL_SCATTER)
        return collect_us + 2 * v->nranks * v->d / memory_bytes_per_us;
    return collect_us + (v->results + v->d / v->nranks) / memory_bytes_per_us + gather_us(p, v);
}

/* Owners' results leave during the product; of an all-scatter, the last tiles' after it. */
static double fused_product_us(const struct symm_matmul_limits *limits,
                               const struct symm_problem *p, int64_t columns,
                               const struct symm_matmul_plan *plan, const struct volume *v)
{
    const double product = symm__model_fused_us(limits, p, columns, plan);

    if (p->kind == SYMM_MATMUL_ALL_SCATTER)
        return fmax(product + (v->nranks - 1) * sent_us,
                    sent_us + (v->nranks - 1) * v->d / sent_bytes_per_us);
    return fmax(product, sent_us + others(v) * v->results / sent_bytes_per_us);
}

/* A product that adds the other rank's parts, of as many bytes as its own that leave. */
static double parts_product_us(const struct symm_matmul_limits *limits,
                               const struct symm_problem *p, int64_t columns,
                               const struct symm_matmul_plan *plan, const struct volume *v)
{
    const double sent = plan->sink == SYMM_TO_ALL ? v->results : others(v) * v->results;

    return fmax(symm__model_fused_us(limits, p, columns, plan) + sent / parts_bytes_per_us,
                sent / parts_sent_bytes_per_us) +
           (plan->sink == SYMM_TO_ALL ? all_parts_us : parts_us);
}

/*
 * A product with sums by the switch beside it: each rank's results are read once, and the sums
 * arrive once. Never measured: with the figures of parts.
 */
static double bands_product_us(const struct symm_matmul_limits *limits,
                               const struct symm_problem *p, int64_t columns,
                               const struct symm_matmul_plan *plan, const struct volume *v)
{
    const double sent = v->results + v->d / v->nranks;

    return fmax(symm__model_fused_us(limits, p, columns, plan),
                sent_us + sent / parts_sent_bytes_per_us) +
           parts_us;
}

/* A product that sends and adds packs of sums. */
static double packs_product_us(const struct symm_matmul_limits *limits,
                               const struct symm_problem *p, int64_t columns,
                               const struct symm_matmul_plan *plan, const struct volume *v)
{
    return fmax(symm__model_split_us(limits, p, columns, &plan->split), packs_least_us) + packs_us +
           (v->nranks - 1) * v->results / packs_bytes_per_us;
}

/* This rank's own product begins when the other owners' results have left. */
static double pipelined_product_us(const struct symm_matmul_limits *limits,
                                   const struct symm_problem *p, int64_t columns,
                                   const struct volume *v)
{
    const double sent = others(v) * v->results;
    double products = 0;

    for (int r = 1; r < p->collect_nranks; r++)
        products += symm__model_cublas_us(limits, p, columns,
                                          symm__rows_of_rank(p->m, p->collect_nranks, r));
    return fmax(products, sent_us + sent / sent_bytes_per_us) + sent_us +
           sent / unpaced_bytes_per_us +
           symm__model_cublas_us(limits, p, columns,
                                 symm__rows_of_rank(p->m, p->collect_nranks, 0));
}

double symm__model_collected_us(const struct symm_matmul_limits *limits,
                                const struct symm_problem *p, int64_t columns,
                                const struct symm_matmul_plan *plan)
{
    const struct volume v = volume_of(p, columns);

    switch (plan->strategy) {
    case SYMM_STRATEGY_FUSED:
        if (plan->sums == SYMM_SUMS_PACKS)
            return packs_product_us(limits, p, columns, plan, &v);
        if (plan->sums == SYMM_SUMS_BANDS)
            return bands_product_us(limits, p, columns, plan, &v);
        if (plan->sums == SYMM_SUMS_PARTS && limits->wgmma)
            return parts_product_us(limits, p, columns, plan, &v);
        return fused_product_us(limits, p, columns, plan, &v) + collect_slots_us(p, &v);
    case SYMM_STRATEGY_PIPELINED:
        return pipelined_product_us(limits, p, columns, &v) + collect_slots_us(p, &v);
    default:
        return (plan->collective ? limits->sums_us : collect_remote_us(p, &v)) +
               symm__model_product_us(limits, p, columns, plan);
    }
}
