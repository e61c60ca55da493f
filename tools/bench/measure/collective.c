/* symm-bench OPERATION: measures and verifies an operation in all its variants. */
#include "collective.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "collective_measure.h"
#include "plot/plot.h"

static const struct variant nccl_plain = {.name = "nccl", .nccl = true};
static const struct variant nccl_symmetric = {.name = "nccl_sym", .nccl = true, .symmetric = true};

static const struct report_column columns[] = {
    {"bytes", 11, REPORT_COUNT},  {"count", 11, REPORT_COUNT},  {"dtype", 11, REPORT_WORD},
    {"op", 4, REPORT_WORD},       {"algo", 20, REPORT_WORD},    {"ranks", 5, REPORT_COUNT},
    {"in_place", 8, REPORT_FLAG}, {"time_us", 11, REPORT_REAL}, {"p95_us", 11, REPORT_REAL},
    {"algbw", 8, REPORT_REAL},    {"busbw", 8, REPORT_REAL},    {"wrong", 8, REPORT_WRONG},
    {"hosts", 5, REPORT_COUNT}, /* where there are several */
};

enum { TIME = 7, ALGBW = 9, BUSBW = 10, NCOLUMNS = sizeof columns / sizeof columns[0] };
enum { NOPS = 20 /* of a repetition */ };

struct collective {
    struct session s;
    struct collective_measure measure;
    uint64_t most; /* bytes */
    struct report_column columns[NCOLUMNS];
    char why_plain[512], why_symmetric[512];
    int64_t wrong;
};

/* The longest chain in the range of the type: each call multiplies a sum by the ranks. */
static int longest_chain(const struct collective *c)
{
    const struct element *e = c->s.options->element;
    const double largest = e->dtype == SYMM_FLOAT16 ? 15 : 127; /* a power of 2 */
    const double each = log2(c->s.nranks);

    if (e->integer || c->s.options->op != SYMM_SUM || !operation_chains(c->s.options->operation))
        return NOPS;
    return each * NOPS > largest ? (int)(largest / each) : NOPS;
}

/* Defaults that depend on the driver: an emulated call takes as long as thousands of real ones. */
static void settle_defaults(struct collective *c)
{
    struct bench_options *o = c->s.options;
    uint64_t nbytes;

    if (!o->algos)
        o->algos = c->s.nhosts > 1 ? "all" : "auto";
    if (o->hidden == 0)
        o->hidden = c->s.emulated ? 256 : 4096;
    if (o->min_bytes == 0)
        o->min_bytes = (uint64_t)o->hidden * o->element->nbytes;
    c->measure.nops = c->s.emulated ? 2 : NOPS;
    if ((o->timing == TIMING_CHAIN || o->in_place) && c->measure.nops > longest_chain(c))
        c->measure.nops = longest_chain(c);
    if (o->iters < 0)
        o->iters = c->s.emulated ? 3 : 50;
    if (o->warmup < 0)
        o->warmup = c->s.emulated ? 1 : 5;
    if (o->max_bytes == 0) {
        o->max_bytes = (uint64_t)(c->s.emulated ? 1 : 64) << 20;
        if (o->max_bytes < o->min_bytes)
            o->max_bytes = o->min_bytes;
    }
    for (int i = 0; bench_options_size(o, i, &nbytes); i++)
        c->most = nbytes > c->most ? nbytes : c->most;
}

/* ---------------------------------------------------------------------------------------- peers */

/* Allocates the buffers that are registered with NCCL. Collective. */
static symm_status open_symmetric_peer(struct collective *c)
{
    struct collective_measure *m = &c->measure;
    const struct element *e = c->s.options->element;
    const size_t count = operation_count(m->operation, c->most / e->nbytes, c->s.nranks);
    const size_t nbytes = count > 0 ? count * e->nbytes : 1;
    symm_status st;

    m->theirs.in = nccl_symmetric_alloc(m->nccl, c->s.group, nbytes, c->why_symmetric, &st);
    if (st != SYMM_OK || !m->theirs.in)
        return st;
    if (c->s.options->in_place)
        m->theirs.out = m->theirs.in;
    else
        m->theirs.out = nccl_symmetric_alloc(m->nccl, c->s.group, nbytes, c->why_symmetric, &st);
    return st;
}

static symm_status open_peers(struct collective *c)
{
    symm_status st = SYMM_OK;

    if (!c->s.options->nccl)
        return SYMM_OK;
    c->measure.nccl = session_nccl(&c->s, c->why_plain, &st);
    if (c->measure.nccl)
        return open_symmetric_peer(c);
    snprintf(c->why_symmetric, sizeof c->why_symmetric, "%s", c->why_plain);
    return st;
}

static const char *why_not(const struct collective *c, const struct variant *v)
{
    const struct bench_options *o = c->s.options;

    if (o->plain_memory && operation_needs_symmetric(o->operation, v))
        return "it needs symmetric memory, and this is --memory plain";
    return o->operation->unavailable(c->s.group, v->algo, o->element->dtype, o->op);
}

/* Adds a variant; with a reason reports that it cannot run. */
static symm_status take(struct collective *c, const struct variant *v, const char *reason)
{
    const struct bench_options *o = c->s.options;

    if (!reason) {
        c->measure.variants[c->measure.nvariants++] = v;
        return SYMM_OK;
    }
    return session_unavailable(&c->s, &(struct unavailable){.option = v->nccl ? "peer" : "algo",
                                                            .list = v->nccl ? o->peers : o->algos,
                                                            .name = v->name,
                                                            .shown = v->name,
                                                            .reason = reason});
}

static symm_status choose_variants(struct collective *c)
{
    const struct bench_options *o = c->s.options;
    const bool spans = c->s.nhosts > 1;
    symm_status st = SYMM_OK;

    for (const struct variant *v = operation_variants(o->operation, spans); v->name; v++) {
        if (bench_options_want(o->algos, v->name))
            TRY(take(c, v, why_not(c, v)));
    }
    for (const struct variant *v = operation_variants(o->operation, !spans); v->name; v++) {
        if (v->algo != SYMM_ALGO_AUTO && bench_options_name(o->algos, v->name))
            TRY(take(c, v, why_not(c, v))); /* refused with the reason */
    }
    if (!o->nccl)
        return SYMM_OK;
    TRY(take(c, &nccl_plain, c->measure.nccl ? NULL : c->why_plain));
    TRY(take(c, &nccl_symmetric, c->measure.theirs.out ? NULL : c->why_symmetric));
out:
    return st;
}

/* --------------------------------------------------------------------------------------- report */

/* "-": the operation reduces nothing. */
static const char *op_name(const struct bench_options *o)
{
    return o->operation->reduces ? symm_redop_name(o->op) : "-";
}

static const char *timing_name(enum bench_timing timing)
{
    static const char *const names[] = {[TIMING_STREAM] = "stream",
                                        [TIMING_CHAIN] = "chain",
                                        [TIMING_ISOLATED] = "isolated",
                                        [TIMING_HOST] = "host"};

    return names[timing];
}

static void introduce(struct collective *c)
{
    const struct bench_options *o = c->s.options;
    const char *version = c->measure.nccl ? nccl_version(c->measure.nccl) : NULL;

    session_introduce(&c->s, o->operation->name);
    report_head(
        c->s.report,
        json_pack("{s:s?, s:f, s:{s:s, s:s, s:s, s:i, s:i, s:i, s:b, s:b, s:b, s:s, s:s, s:s?, "
                  "s:o*, s:o*}}",
                  "nccl", version, "bus_factor", operation_bus_factor(o->operation, c->s.nranks),
                  "options", "algo", o->algos, "dtype", symm_dtype_name(o->element->dtype), "op",
                  op_name(o), "iters", o->iters, "warmup", o->warmup, "operations", c->measure.nops,
                  "graph", o->graph, "in_place", o->in_place, "check", o->check, "timing",
                  timing_name(o->timing), "memory", o->plain_memory ? "plain" : "symmetric", "peer",
                  o->nccl ? "nccl" : NULL, "hidden",
                  o->operation->norms ? json_integer(o->hidden) : NULL, "root",
                  o->operation->from_root ? json_integer(o->root) : NULL));
    report_say(c->s.report,
               "# %d repetition%s of %d operations after %d to warm up, %s%s, %s memory", o->iters,
               o->iters == 1 ? "" : "s", c->measure.nops, o->warmup,
               o->graph ? "one graph each" : "enqueued one by one",
               o->timing == TIMING_CHAIN      ? ", each on the result of the one before"
               : o->timing == TIMING_ISOLATED ? ", each after a barrier that is subtracted"
               : o->timing == TIMING_HOST     ? ", host time"
                                              : "",
               o->plain_memory ? "plain" : "symmetric");
    if (o->operation->norms)
        report_say(c->s.report, "# rows of %d elements, with residual and weight", o->hidden);
    if (o->operation->from_root)
        report_say(c->s.report, "# from rank %d", o->root);
    if (version)
        report_say(c->s.report, "# NCCL %s", version);
}

static void report(struct collective *c, const struct variant *v, const struct collective_row *row)
{
    const struct bench_options *o = c->s.options;
    const bool host = o->timing == TIMING_HOST;

    report_row(c->s.report, (union report_value[NCOLUMNS]){
                                {.count = row->nbytes},
                                {.count = row->count},
                                {.word = symm_dtype_name(o->element->dtype)},
                                {.word = op_name(o)},
                                {.word = v->name},
                                {.count = (uint64_t)c->s.nranks},
                                {.flag = o->in_place},
                                {.real = row->time_us},
                                {.real = row->p95_us},
                                {.real = host ? row->launch_us : row->algbw},
                                {.real = host ? row->time_us - row->launch_us : row->busbw},
                                {.wrong = row->wrong},
                                {.count = (uint64_t)c->s.nhosts}});
    c->wrong += row->wrong > 0 ? row->wrong : 0;
}

/* ------------------------------------------------------------------------------------- the run */

static symm_status measure_all(struct collective *c)
{
    struct collective_row rows[MEASURE_MAX_VARIANTS];
    uint64_t nbytes;
    symm_status st;

    TRY(collective_measure_create(&c->measure, c->most));
    for (int i = 0; bench_options_size(c->s.options, i, &nbytes); i++) {
        TRY(measure_size(&c->measure, nbytes, (uint64_t)i, rows));
        for (int v = 0; v < c->measure.nvariants; v++)
            report(c, c->measure.variants[v], &rows[v]);
    }
out:
    return st;
}

static void name_columns(struct collective *c)
{
    memcpy(c->columns, columns, sizeof columns);
    if (c->s.options->timing == TIMING_HOST) {
        c->columns[TIME].name = "host_us";
        c->columns[ALGBW] = (struct report_column){"launch_us", 9, REPORT_REAL};
        c->columns[BUSBW] = (struct report_column){"beside_us", 9, REPORT_REAL}; /* the rest */
    }
    report_columns(c->s.report, c->columns, c->s.nhosts > 1 ? NCOLUMNS : NCOLUMNS - 1);
}

static symm_status run(struct collective *c, struct bench_options *options)
{
    symm_status st;

    TRY(session_open(&c->s, options));
    c->measure.operation = options->operation;
    settle_defaults(c);
    TRY(open_peers(c));
    introduce(c);
    TRY(choose_variants(c));
    name_columns(c);
    TRY(measure_all(c));
    TRY(session_measured(&c->s));
out:
    return st;
}

int collective_run(struct bench_options *options)
{
    struct collective c = {.measure.s = &c.s, .s.options = options};
    char error[1024];
    bool failed = session_failed(&c.s, run(&c, options), nccl_error(c.measure.nccl), error);
    bool drawn = failed || !options->plot || c.s.rank != 0 ||
                 plot_run(report_json(c.s.report),
                          &(struct plot_style){"plot", options->plot, options->floor_gbs, NULL});

    nccl_close(c.measure.nccl, !failed);
    collective_measure_destroy(&c.measure);
    return !session_close(&c.s, failed ? error : NULL) || failed || !drawn || c.wrong > 0;
}
