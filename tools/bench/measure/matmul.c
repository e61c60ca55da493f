/* symm-bench PRODUCT. */
#include "matmul.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "common/text.h"
#include "matmul_measure.h"
#include "oracle/products.h"
#include "plot/plot.h"
#include "suite.h"
#include "summary.h"

static const struct report_column columns[] = {
    {"m", 8, REPORT_COUNT},       {"n", 7, REPORT_COUNT},          {"k", 7, REPORT_COUNT},
    {"l", 4, REPORT_COUNT},       {"dtype", 8, REPORT_WORD},       {"algo", 14, REPORT_WORD},
    {"strategy", 9, REPORT_WORD}, {"ranks", 5, REPORT_COUNT},      {"time_us", 11, REPORT_REAL},
    {"p95_us", 11, REPORT_REAL},  {"product_us", 11, REPORT_REAL}, {"exposed_us", 11, REPORT_REAL},
    {"tflops", 8, REPORT_REAL},   {"speedup", 7, REPORT_REAL},     {"hidden", 10, REPORT_REAL},
    {"wrong", 8, REPORT_WRONG},
};

enum {
    NCOLUMNS = sizeof columns / sizeof columns[0],
    NOPS = 4 /* of a repetition */,
    SHORT_NOPS = 20 /* of short products */,
    EMULATED_PART = 64, /* of the extents of a suite */
    RANDOM_SHAPES = 54, /* half of them with few rows */
    EMULATED_SHAPES = 4
};

struct matmul {
    struct session s;
    struct matmul_measure measure;
    struct cublas_shape shape; /* without a suite */
    struct summary summary;    /* of a suite */
    int64_t wrong;
};

/* Defaults of another library's schedule. */
static void settle_schedule(struct matmul *b)
{
    struct bench_options *o = b->s.options;
    const int part = b->s.emulated ? EMULATED_PART : 1;

    if (!o->m)
        o->m = SCHEDULE_M / part;
    if (!o->n)
        o->n = SCHEDULE_N / part;
    if (!o->k)
        o->k = SCHEDULE_K / part;
    if (o->iters < 0 && !b->s.emulated)
        o->iters = SCHEDULE_ITERS;
    if (o->warmup < 0 && !b->s.emulated)
        o->warmup = SCHEDULE_WARMUP;
}

/* Defaults that depend on the driver. */
static void settle_defaults(struct matmul *b)
{
    struct bench_options *o = b->s.options;
    const bool sums = kind_sums(o->kind);
    const int parts = o->kind == SYMM_MATMUL_ALL_SCATTER ? matmul_nranks(&b->s) : 1;

    b->measure.nops = b->s.emulated ? 1 : NOPS;
    b->measure.short_nops = b->s.emulated ? 1 : SHORT_NOPS;
    if (o->schedule)
        settle_schedule(b);
    if (o->iters < 0)
        o->iters = b->s.emulated ? 2 : 20;
    if (o->warmup < 0)
        o->warmup = b->s.emulated ? 1 : 5;
    if (!o->m)
        o->m = b->s.emulated ? 256 : 8192;
    if (!o->n)
        o->n = b->s.emulated ? 128 : sums ? 8192 : 3584 * parts;
    if (!o->k)
        o->k = b->s.emulated ? 128 : sums ? 3584 : 8192;
    if (!o->l)
        o->l = 1;
    if (!o->count)
        o->count = b->s.emulated ? EMULATED_SHAPES : RANDOM_SHAPES;
}

/* The shape of the options. */
static symm_status settle_shape(struct matmul *b)
{
    const struct bench_options *o = b->s.options;
    char why[SCHEDULE_WHY];

    b->shape = (struct cublas_shape){.m = o->m,
                                     .n = o->n,
                                     .k = o->k,
                                     .l = o->l,
                                     .dtype = o->element->dtype,
                                     .alpha = (float)o->alpha,
                                     .beta = (float)o->beta};
    if (o->schedule && !schedule_divide(o->schedule, matmul_nranks(&b->s), &b->shape, why))
        return session_refuse(&b->s, "%s: %s", o->schedule->name, why);
    return SYMM_OK;
}

static int part_of(int extent, int part)
{
    return extent / part ? extent / part : 1;
}

/*
 * The index-th shape of the suite, from 0; false past the last one. It has the columns of one rank
 * and the common extent of all; a sum of products is such a layer backwards.
 */
static bool suite_shape(const struct matmul *b, int index, struct suite_shape *out)
{
    const struct bench_options *o = b->s.options;

    if (!o->suite || !suite_shape_at(o->suite, b->s.seed, o->count, index, out))
        return false;
    if (kind_sums(o->kind))
        *out = (struct suite_shape){.m = out->m, .n = out->k, .k = out->n};
    return true;
}

/* The index-th shape, from 0; false past the last one. */
static bool shape_at(const struct matmul *b, int index, struct cublas_shape *out)
{
    const struct bench_options *o = b->s.options;
    const int part = b->s.emulated ? EMULATED_PART : 1;
    struct suite_shape shape;

    *out = b->shape;
    if (!o->suite)
        return index == 0;
    if (!suite_shape(b, index, &shape))
        return false;
    out->m = part_of(shape.m, part);
    out->n =
        part_of(shape.n, part) * (o->kind == SYMM_MATMUL_ALL_SCATTER ? matmul_nranks(&b->s) : 1);
    out->k = part_of(shape.k, part);
    return true;
}

/* --------------------------------------------------------------------------------------- report */

/* What the schedule is to symm, and what a rank has of it. */
static void introduce_schedule(struct matmul *b)
{
    const struct bench_options *o = b->s.options;
    const struct schedule *s = o->schedule;
    const struct cublas_shape *shape = &b->shape;
    const struct schedule_memory nbytes =
        schedule_memory(s, matmul_nranks(&b->s), shape, o->partial->dtype);
    const bool has_sets = s->kind == SYMM_MATMUL_REDUCE_SCATTER && matmul_nranks(&b->s) == 2;

    report_say(b->s.report,
               "# %s: %d x %d x %d x %d on %d rank%s; a rank multiplies %d x %d x %d%s", s->name,
               o->m, o->n, o->k, o->l, matmul_nranks(&b->s), matmul_nranks(&b->s) == 1 ? "" : "s",
               shape->m, shape->n, shape->k, s->transposed ? ", transposed: D' = B' A'" : "");
    report_say(b->s.report, "# its structure is that of the strategy %s",
               symm_strategy_name(s->strategy));
    report_say(b->s.report,
               "# bytes of a rank: A %" PRIu64 ", B %" PRIu64 ", D %" PRIu64
               "; the workspace of each strategy %" PRIu64 "%s",
               nbytes.a, nbytes.b, nbytes.d, nbytes.workspace,
               has_sets ? ", of fused twice that" : "");
}

static void introduce(struct matmul *b)
{
    const struct bench_options *o = b->s.options;
    const char *cublas = b->measure.peers.cublas ? cublas_version(b->measure.peers.cublas) : NULL,
               *nccl = b->measure.peers.nccl ? nccl_version(b->measure.peers.nccl) : NULL,
               *partial = kind_sums(o->kind) ? symm_dtype_name(o->partial->dtype) : NULL;

    session_introduce(&b->s, o->name);
    report_head(
        b->s.report,
        json_pack("{s:s?, s:s?, s:{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:b, s:b, s:b, s:b, s:b, "
                  "s:o?, s:f, s:f, s:i, s:s?, s:i, s:s?, s:s?, s:s?}}",
                  "cublas", cublas, "nccl", nccl, "options", "strategy", o->strategies, "schedule",
                  o->schedules, "dtype", symm_dtype_name(o->element->dtype), "iters", o->iters,
                  "warmup", o->warmup, "operations", b->measure.nops, "operations_short",
                  b->measure.short_nops, "graph", o->graph, "check", o->check, "same_bits",
                  o->same_bits, "any_order", o->any_order, "constant_b", o->constant_b, "eps",
                  o->eps > 0 ? json_real(o->eps) : NULL, "alpha", o->alpha, "beta", o->beta,
                  "as_if", o->as_if, "suite", o->suite, "count", o->count, "partial", partial,
                  "schedule_of", o->schedule ? o->schedule->name : NULL, "peer", o->peers));
    report_say(b->s.report,
               "# %d repetition%s of %d operation%s after %d to warm up, %s; normal numbers, sums "
               "in fp32",
               o->iters, o->iters == 1 ? "" : "s", b->measure.nops, b->measure.nops == 1 ? "" : "s",
               o->warmup, o->graph ? "one graph each" : "enqueued one by one");
    if (b->measure.short_nops != b->measure.nops)
        report_say(b->s.report, "# %d operations in a repetition of short products",
                   b->measure.short_nops);
    if (o->as_if)
        report_say(b->s.report,
                   "# as if %d ranks: each of 2 ranks is rank 0, and the other one plays all "
                   "others; times as measured",
                   o->as_if);
    if (o->schedule)
        introduce_schedule(b);
    if (partial)
        report_say(b->s.report, "# partial sums of %s", partial);
    if (o->suite && b->s.emulated)
        report_say(b->s.report, "# emulated: each extent is a %dth of the suite's", EMULATED_PART);
    if (cublas)
        report_say(b->s.report, "# cuBLASLt %s", cublas);
    if (nccl)
        report_say(b->s.report, "# NCCL %s", nccl);
}

static void report_sample(struct matmul *b, const struct cublas_shape *shape,
                          const struct matmul_sample *sample)
{
    if (!b->s.options->check)
        return;
    if (sample->step == 1)
        report_say(b->s.report,
                   "# %d x %d x %d: every one of %" PRIu64 " elements compared, eps %.3g", shape->m,
                   shape->n, shape->k, sample->all, sample->eps);
    else
        report_say(b->s.report,
                   "# %d x %d x %d: %s%" PRIu64 " elements compared%s %" PRIu64
                   " on the host, eps %.3g: where random rows and columns meet, one row and one "
                   "column of each %d",
                   shape->m, shape->n, shape->k, sample->whole ? "every one of " : "of ",
                   sample->all, sample->whole ? " by a kernel," : "", sample->compared, sample->eps,
                   sample->step);
}

static void report(struct matmul *b, const struct cublas_shape *shape,
                   const struct product_variant *variant, const struct matmul_row *row)
{
    const int as_if = variant->kind == PRODUCT_TOGETHER ? b->s.options->as_if : 0;
    char algo[64];

    snprintf(algo, sizeof algo, "%s", variant->name);
    if (as_if)
        snprintf(algo, sizeof algo, "%s as if %d", variant->name, as_if);
    report_row(b->s.report, (union report_value[NCOLUMNS]){
                                {.count = (uint64_t)shape->m},
                                {.count = (uint64_t)shape->n},
                                {.count = (uint64_t)shape->k},
                                {.count = (uint64_t)shape->l},
                                {.word = symm_dtype_name(b->s.options->element->dtype)},
                                {.word = algo},
                                {.word = row->strategy},
                                {.count = (uint64_t)b->s.nranks},
                                {.real = row->time_us},
                                {.real = row->p95_us},
                                {.real = row->product_us},
                                {.real = row->exposed_us},
                                {.real = row->tflops},
                                {.real = row->speedup},
                                {.real = row->hidden},
                                {.wrong = row->wrong}});
    b->wrong += row->wrong > 0 ? row->wrong : 0;
}

/* ---------------------------------------------------------------------------------- the summary */

/* By the suite's shape, of which the emulated driver measures a part. */
static void sum_up(struct matmul *b, int index, const struct product_variant *const *chosen,
                   const struct matmul_row *rows, int n)
{
    struct suite_shape shape;
    struct summary_times t = {NAN, NAN, NAN, NAN, NAN, NAN};
    double *const by_kind[] = {
        [PRODUCT_ALONE] = &t.product, [PRODUCT_COMMUNICATION] = &t.communication,
        [PRODUCT_CUBLAS] = &t.cublas, [PRODUCT_CUBLAS_SYMM] = &t.cublas_symm,
        [PRODUCT_CUBLAS_NCCL] = NULL,
    };

    if (!suite_shape(b, index, &shape))
        return;
    for (int i = 0; i < n; i++) {
        const enum product_kind kind = chosen[i]->kind;
        const double time = rows[i].time_us;

        if (kind == PRODUCT_ALONE && chosen[i]->schedule != SYMM_SCHEDULE_AUTO)
            continue;
        if (kind != PRODUCT_TOGETHER && by_kind[kind])
            *by_kind[kind] = time;
        else if (kind == PRODUCT_TOGETHER && chosen[i]->strategy == SYMM_STRATEGY_AUTO)
            t.automatic = time;
        else if (kind == PRODUCT_TOGETHER)
            t.best = t.best < time ? t.best : time;
    }
    summary_add(&b->summary, &shape, &t);
}

static void report_ratio(struct matmul *b, bool many, int i, json_t *out)
{
    const struct summary_ratio *r = &b->summary.ratios[many][i];
    const char *const rows = many ? "m >= 1024" : "m < 1024";
    const double mean = summary_mean(r);

    if (r->n == 0)
        return;
    report_say(b->s.report, "# %s, %d shapes: %s: geometric mean %.3f, worst %.3f at %d x %d x %d",
               rows, r->n, summary_name(i), mean, r->worst, r->at.m, r->at.n, r->at.k);
    json_array_append_new(out, json_pack("{s:s, s:s, s:i, s:f, s:f, s:[i, i, i]}", "rows", rows,
                                         "ratio", summary_name(i), "shapes", r->n, "mean", mean,
                                         "worst", r->worst, "at", r->at.m, r->at.n, r->at.k));
}

static void report_summary(struct matmul *b)
{
    json_t *ratios = json_array();

    for (int many = 0; many < 2; many++)
        for (int i = 0; i < SUMMARY_RATIOS; i++)
            report_ratio(b, many, i, ratios);
    report_head(b->s.report, json_pack("{s:o}", "summary", ratios));
}

/* ------------------------------------------------------------------------------------- the run */

static symm_status measure_shape(struct matmul *b, const struct cublas_shape *shape, int index)
{
    const struct product_variant *chosen[MATMUL_MAX_VARIANTS];
    struct matmul_row rows[MATMUL_MAX_VARIANTS];
    struct matmul_sample sample;
    symm_status st;
    int n;

    if (b->s.options->kind == SYMM_MATMUL_ALL_SCATTER && shape->n < matmul_nranks(&b->s))
        return session_refuse(&b->s, "--n %d: it is less than the number of ranks, %d", shape->n,
                              matmul_nranks(&b->s));
    TRY(matmul_variants(&b->s, &b->measure.peers, shape, index == 0, chosen, &n));
    if (index == 0)
        report_columns(b->s.report, columns, NCOLUMNS);
    TRY(matmul_measure_shape(&b->measure, shape, chosen, n, (uint64_t)index, rows, &sample));
    for (int i = 0; i < n; i++)
        report(b, shape, chosen[i], &rows[i]);
    report_sample(b, shape, &sample);
    sum_up(b, index, chosen, rows, n);
out:
    return st;
}

static symm_status run(struct matmul *b, struct bench_options *options)
{
    struct cublas_shape shape;
    char as_if[8];
    symm_status st;

    if (options->as_if) {
        snprintf(as_if, sizeof as_if, "%d", options->as_if);
        setenv("SYMM_MATMUL_AS_IF", as_if, 1);
    }
    TRY(session_open(&b->s, options));
    if (options->as_if && b->s.nranks != 2)
        return session_refuse(&b->s, "--as-if %d: it needs 2 ranks", options->as_if);
    settle_defaults(b);
    TRY(settle_shape(b));
    TRY(matmul_peers_open(&b->s, &b->measure.peers));
    if (options->check)
        TRY(whole_check_open(&b->s, &b->measure.whole));
    introduce(b);
    for (int i = 0; shape_at(b, i, &shape); i++)
        TRY(measure_shape(b, &shape, i));
    if (options->suite)
        report_summary(b);
    TRY(session_measured(&b->s));
out:
    if (st != SYMM_OK && cublas_error(b->measure.peers.cublas))
        snprintf(b->s.trouble, sizeof b->s.trouble, "%s", cublas_error(b->measure.peers.cublas));
    return st;
}

int matmul_run(struct bench_options *options)
{
    struct matmul b = {.measure.s = &b.s, .s.options = options};
    char error[1024];
    bool failed = session_failed(&b.s, run(&b, options), nccl_error(b.measure.peers.nccl), error);
    bool drawn =
        failed || !options->plot || b.s.rank != 0 ||
        plot_run(report_json(b.s.report), &(struct plot_style){"plot", options->plot, 0, NULL});

    if (!failed && options->check)
        whole_check_close(&b.s, &b.measure.whole);
    nccl_close(b.measure.peers.nccl, !failed);
    cublas_close(b.measure.peers.cublas);
    bool closed = session_close(&b.s, failed ? error : NULL);
    return !closed || failed || !drawn || b.wrong > 0;
}
