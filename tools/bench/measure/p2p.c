/* symm-bench p2p: what the links and the ways to use them can do. */
#include "p2p.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "common/text.h"
#include "p2p_args.h"
#include "session.h"
#include "statistics.h"

extern const symm_image p2p_kernels;
_Static_assert((int)P2P_THREADS_MAX == (int)BENCH_MAX_THREADS,
               "--threads takes what kernels can run");

enum {
    POISON = 0xff,
    BULK_THREADS = 32, /* one of them drives the copy unit */
    LEAST_ITERS = 5,
    MOST_NOPS = 20
};

/* A repetition and all repetitions of a row shall not take much longer than this. */
static const double repetition_us = 2e3, row_us = 1e5;

enum { BY_KERNEL, BY_COPY_ENGINE, BY_PING };

static const struct how {
    const char *name;
    int by, mode; /* the mode of p2p_move */
    bool pulls;   /* a rank fetches what it moves */
    const char *kernel;
} hows[] = {
    {"store", BY_KERNEL, P2P_STORE, false, "p2p_move"},
    {"load", BY_KERNEL, P2P_LOAD, true, "p2p_move"},
    {"bulk_put", BY_KERNEL, P2P_BULK_PUT, false, "p2p_move"},
    {"bulk_get", BY_KERNEL, P2P_BULK_GET, true, "p2p_move"},
    {"put", BY_COPY_ENGINE, 0, false, NULL},
    {"get", BY_COPY_ENGINE, 0, true, NULL},
    {"signal", BY_PING, 0, false, "p2p_ping_signal"},
    {"packet", BY_PING, 0, false, "p2p_ping_packet"},
};

enum { NHOWS = sizeof hows / sizeof hows[0] };

/* Rank r, if it is one of the first `movers`, moves with r + first, r + first + stride, ... */
static const struct pattern {
    const char *name;
    int movers; /* 0: all ranks */
    int least;  /* ranks: with fewer it is the same as one before */
} patterns[] = {
    {"pair", 1, 2}, {"pair_both", 2, 2}, {"ring", 0, 3}, {"ring_both", 0, 3}, {"all", 0, 3}};

enum { NPATTERNS = sizeof patterns / sizeof patterns[0], ALL = NPATTERNS - 1 };

static const struct report_column columns[] = {
    {"bytes", 11, REPORT_COUNT}, {"how", 9, REPORT_WORD},    {"pattern", 10, REPORT_WORD},
    {"blocks", 6, REPORT_COUNT}, {"ranks", 5, REPORT_COUNT}, {"time_us", 11, REPORT_REAL},
    {"p95_us", 11, REPORT_REAL}, {"gbs", 8, REPORT_REAL},    {"wrong", 8, REPORT_WRONG},
};

enum { NCOLUMNS = sizeof columns / sizeof columns[0] };

struct p2p {
    struct session s;
    char *src, *dst;
    symm_packet *slots;
    symm_signal_pad *pad;
    uint32_t *wrong;
    symm_kernel *fill, *check, *kernel[NHOWS];
    uint32_t threads, rounds;
    float *samples;
    uint32_t seed;
    int64_t nwrong;
};

/* One row. */
struct move {
    const struct how *how;
    const struct pattern *pattern; /* NULL for a ping */
    uint32_t blocks;               /* 0: no kernel */
    uint64_t nbytes;
    int nops, iters; /* of this row, the same on all ranks */
    p2p_args args;   /* this rank's */
    p2p_args found;  /* where what this rank's dst then has comes from */
    bool moves;
};

/* ---------------------------------------------------------------------------------------- a row */

/* Whom a rank moves with, in the order of the slices. Returns how many. */
static int partners(const struct pattern *p, int rank, int nranks, int32_t out[SYMM_MAX_RANKS])
{
    int n = p == &patterns[ALL] ? nranks - 1 : strcmp(p->name, "ring_both") == 0 ? 2 : 1;

    if (p->movers && rank >= p->movers)
        return 0;
    if (p->movers) { /* rank 0 with rank 1 */
        out[0] = 1 - rank;
        return 1;
    }
    for (int i = 0; i < n; i++)
        out[i] = (rank + (n == 2 && i == 1 ? nranks - 1 : 1 + i)) % nranks;
    return n;
}

/* Fills in what this rank does, and whose data it then has. */
static void plan(const struct p2p *p, struct move *m)
{
    const struct session *s = &p->s;
    int32_t theirs[SYMM_MAX_RANKS];

    m->args.nslices = partners(m->pattern, s->rank, s->nranks, m->args.rank);
    m->moves = m->args.nslices > 0;
    m->found = m->args;
    for (int r = 0; r < s->nranks && !m->how->pulls; r++) {
        int n = partners(m->pattern, r, s->nranks, theirs);

        for (int i = 0; i < n; i++) {
            if (theirs[i] == s->rank) {
                m->found.rank[i] = r;
                m->found.nslices = n;
            }
        }
    }
    /* Of a pair in one direction only one rank gets something. */
    if (!m->how->pulls && m->pattern->movers == 1)
        m->found.nslices = s->rank == 1;
}

static symm_status launch(struct p2p *p, symm_kernel *kernel, uint32_t blocks, uint32_t threads,
                          const p2p_args *args)
{
    return symm_launch(p->s.group, kernel, &(symm_grid){.blocks = blocks, .threads = threads}, args,
                       sizeof *args, p->s.stream);
}

static symm_status copy_slice(struct p2p *p, const struct move *m, int i)
{
    const uint64_t packs = m->nbytes / 16, n = (uint64_t)m->args.nslices;
    const uint64_t begin = packs * (uint64_t)i / n * 16, end = packs * (uint64_t)(i + 1) / n * 16;
    char *src = p->src + begin, *dst = p->dst + begin;

    if (begin == end)
        return SYMM_OK;
    return m->how->pulls
               ? symm_get(p->s.group, dst, src, end - begin, m->args.rank[i], p->s.stream)
               : symm_put(p->s.group, dst, src, end - begin, m->args.rank[i], p->s.stream);
}

/* Enqueues the move n times. */
static symm_status enqueue(struct p2p *p, const struct move *m, int n)
{
    const uint32_t threads = m->how->by == BY_PING          ? 1
                             : m->how->mode >= P2P_BULK_PUT ? BULK_THREADS
                                                            : p->threads;
    symm_status st = SYMM_OK;

    for (int op = 0; op < n && m->moves && st == SYMM_OK; op++) {
        if (m->how->by != BY_COPY_ENGINE)
            st = launch(p, p->kernel[m->how - hows], m->blocks, threads, &m->args);
        for (int i = 0; m->how->by == BY_COPY_ENGINE && i < m->args.nslices && st == SYMM_OK; i++)
            st = copy_slice(p, m, i);
    }
    return st;
}

/* Records n moves; NULL for a rank that moves nothing. */
static symm_status record(struct p2p *p, const struct move *m, int n, symm_graph *out)
{
    symm_status st, ended;

    *out = NULL;
    if (!m->moves)
        return SYMM_OK;
    st = symm_graph_begin(p->s.stream);
    if (st != SYMM_OK)
        return st;
    st = enqueue(p, m, n);
    ended = symm_graph_end(p->s.stream, out);
    return st == SYMM_OK ? ended : st;
}

static symm_status replay(struct p2p *p, symm_graph graph)
{
    return graph ? symm_graph_launch(graph, p->s.stream) : SYMM_OK;
}

/* The time of one replay, begun by all ranks together; 0 where nothing moves. */
static symm_status replay_timed(struct p2p *p, symm_graph graph, float *us)
{
    struct session *s = &p->s;
    symm_status st;

    TRY(symm_barrier(s->group, s->stream));
    TRY(symm_event_record(s->begin, s->stream));
    TRY(replay(p, graph));
    TRY(symm_event_record(s->end, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
    TRY(symm_event_elapsed_us(s->begin, s->end, us));
    *us = graph ? *us : 0;
out:
    return st;
}

/* Adds up the ranks' wrong words. Collective. */
static symm_status count_wrong(struct p2p *p, int64_t *wrong)
{
    uint32_t mine = 0;
    symm_status st;

    TRY(symm_copy(&mine, p->wrong, sizeof mine, p->s.stream));
    TRY(symm_synchronize(p->s.group, p->s.stream));
    if (mine > 0)
        fprintf(stderr, "# rank %d: %u wrong words\n", p->s.rank, mine);
    TRY(session_sum(&p->s, mine, wrong));
out:
    return st;
}

/* Moves fresh data once, and times it. Collective. */
static symm_status check(struct p2p *p, const struct move *m, float *us, int64_t *wrong)
{
    struct session *s = &p->s;
    const uint32_t blocks = s->emulated ? 2 : 128;
    symm_graph graph = NULL;
    symm_status st;

    TRY(symm_fill(p->wrong, 0, sizeof *p->wrong, s->stream));
    if (m->nbytes > 0) {
        TRY(launch(p, p->fill, blocks, p->threads, &m->args));
        TRY(symm_fill(p->dst, POISON, m->nbytes, s->stream));
    }
    TRY(record(p, m, 1, &graph));
    TRY(replay_timed(p, graph, us));
    TRY(symm_barrier(s->group, s->stream));
    if (m->nbytes > 0 && m->found.nslices > 0)
        TRY(launch(p, p->check, blocks, p->threads, &m->found));
    TRY(count_wrong(p, wrong));
    TRY(session_worst(s, us, 1, us));
out:
    symm_graph_destroy(graph);
    return st;
}

/* How often, given how long once takes. */
static void settle_counts(const struct p2p *p, struct move *m, float once_us)
{
    const struct bench_options *o = p->s.options;
    const double nops = repetition_us / once_us, most = p->s.emulated ? 2 : MOST_NOPS;

    m->nops = m->how->by == BY_PING || nops < 1 ? 1 : nops > most ? (int)most : (int)nops;
    const double iters = row_us / (once_us * (float)m->nops);
    m->iters = iters >= o->iters        ? o->iters
               : o->iters < LEAST_ITERS ? o->iters
               : iters < LEAST_ITERS    ? LEAST_ITERS
                                        : (int)iters;
}

/* The median and the 95th percentile of one move on the slowest rank. Collective. */
static symm_status sample(struct p2p *p, struct move *m, float times[2])
{
    symm_graph graph = NULL;
    float mine[2], us;
    symm_status st;

    TRY(record(p, m, m->nops, &graph));
    for (int i = -p->s.options->warmup; i < m->iters; i++) {
        TRY(replay_timed(p, graph, &us));
        if (i >= 0)
            p->samples[i] = us / (float)m->nops;
    }
    statistics_sort(p->samples, (size_t)m->iters);
    mine[0] = statistics_median(p->samples, (size_t)m->iters);
    mine[1] = statistics_percentile(p->samples, (size_t)m->iters, 95);
    TRY(session_worst(&p->s, mine, 2, times));
out:
    symm_graph_destroy(graph);
    return st;
}

static symm_status measure(struct p2p *p, struct move *m)
{
    /* Half a round trip. */
    const float share = m->how->by == BY_PING ? 2 * (float)p->rounds : 1;
    float once_us, times[2];
    int64_t wrong;
    symm_status st;

    TRY(check(p, m, &once_us, &wrong));
    settle_counts(p, m, once_us > 1 ? once_us : 1);
    TRY(sample(p, m, times));
    p->nwrong += wrong;
    report_row(p->s.report,
               (union report_value[NCOLUMNS]){
                   {.count = m->how->by == BY_PING ? m->args.slots ? 12 : 0 : m->nbytes},
                   {.word = m->how->name},
                   {.word = m->pattern->name},
                   {.count = m->blocks},
                   {.count = (uint64_t)p->s.nranks},
                   {.real = times[0] / share},
                   {.real = times[1] / share},
                   {.real = times[0] > 0 ? (double)m->nbytes / times[0] / 1e3 : 0},
                   {.wrong = m->how->by == BY_PING && !m->args.slots ? -1 : wrong}});
out:
    return st;
}

/* ------------------------------------------------------------------------------------- all rows */

static symm_status measure_move(struct p2p *p, const struct how *how, const struct pattern *pattern,
                                uint32_t blocks, uint64_t nbytes)
{
    struct move m = {.how = how, .pattern = pattern, .blocks = blocks, .nbytes = nbytes};

    symm_group_view(p->s.group, &m.args.view);
    m.args.pad = p->pad;
    m.args.src = p->src;
    m.args.dst = p->dst;
    m.args.slots = strcmp(how->name, "packet") == 0 ? p->slots : NULL;
    m.args.wrong = p->wrong;
    m.args.nbytes = nbytes;
    m.args.seed = ++p->seed;
    m.args.rounds = p->rounds;
    m.args.mode = how->mode;
    plan(p, &m);
    return measure(p, &m);
}

/* Every way to move nbytes; a kernel's with each number of blocks. */
static symm_status measure_size(struct p2p *p, uint64_t nbytes)
{
    const struct bench_options *o = p->s.options;
    char item[64];
    int blocks;
    symm_status st = SYMM_OK;

    for (int i = 0; i < NPATTERNS; i++) {
        if (p->s.nranks < patterns[i].least || !bench_options_want(o->patterns, patterns[i].name))
            continue;
        for (const struct how *how = hows; how < hows + NHOWS; how++) {
            const char *list = how->by == BY_COPY_ENGINE ? "1" : o->blocks;

            if (how->by == BY_PING || !bench_options_want(o->hows, how->name))
                continue;
            while (text_next(&list, item, sizeof item) && text_int(item, 1, 1 << 16, &blocks))
                TRY(measure_move(p, how, &patterns[i],
                                 how->by == BY_COPY_ENGINE ? 0 : (uint32_t)blocks, nbytes));
        }
    }
out:
    return st;
}

static symm_status measure_all(struct p2p *p)
{
    const struct bench_options *o = p->s.options;
    uint64_t nbytes;
    symm_status st = SYMM_OK;

    for (const struct how *how = hows; how < hows + NHOWS; how++) {
        if (how->by == BY_PING && bench_options_want(o->hows, how->name))
            TRY(measure_move(p, how, &patterns[1], 1, 0));
    }
    for (int i = 0; bench_options_size(o, i, &nbytes); i++)
        TRY(measure_size(p, nbytes));
out:
    return st;
}

/* --------------------------------------------------------------------------------- opening, end */

static void settle_defaults(struct p2p *p)
{
    struct bench_options *o = p->s.options;
    bool emulated = p->s.emulated;

    if (!o->hows)
        o->hows = "all";
    if (!o->patterns)
        o->patterns = "all";
    if (!o->blocks)
        o->blocks = emulated ? "1,4" : "4,16,64";
    if (o->iters < 0)
        o->iters = emulated ? 3 : 50;
    if (o->warmup < 0)
        o->warmup = emulated ? 1 : 5;
    if (o->max_bytes == 0)
        o->max_bytes = emulated ? 64 << 10 : 256 << 20;
    if (o->max_bytes < o->min_bytes)
        o->max_bytes = o->min_bytes;
    p->threads = o->threads ? (uint32_t)o->threads : emulated ? 32 : P2P_THREADS_MAX;
    p->rounds = emulated ? 20 : 1000;
    p->seed = (uint32_t)p->s.seed;
}

static symm_status load(struct p2p *p)
{
    symm_status st;

    TRY(symm_kernel_load(p->s.ctx, &p2p_kernels, "p2p_fill", &p->fill));
    TRY(symm_kernel_load(p->s.ctx, &p2p_kernels, "p2p_check", &p->check));
    for (int i = 0; i < NHOWS; i++) {
        if (hows[i].kernel)
            TRY(symm_kernel_load(p->s.ctx, &p2p_kernels, hows[i].kernel, &p->kernel[i]));
    }
out:
    return st;
}

static symm_status prepare(struct p2p *p)
{
    struct session *s = &p->s;
    uint64_t nbytes, most = 16;
    symm_status st;

    for (int i = 0; bench_options_size(s->options, i, &nbytes); i++)
        most = nbytes > most ? nbytes : most;
    p->samples = malloc((size_t)s->options->iters * sizeof *p->samples);
    if (!p->samples)
        return SYMM_ERROR_MEMORY;
    TRY(load(p));
    TRY(symm_alloc(s->group, most, (void **)&p->src));
    TRY(symm_alloc(s->group, most, (void **)&p->dst));
    TRY(symm_alloc(s->group, p->rounds * sizeof *p->slots, (void **)&p->slots));
    TRY(symm_fill(p->slots, 0, p->rounds * sizeof *p->slots, s->stream));
    TRY(symm_signal_pad_alloc(s->group, 2, &p->pad));
    TRY(symm_device_alloc(s->ctx, sizeof *p->wrong, (void **)&p->wrong));
    TRY(symm_barrier(s->group, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
out:
    return st;
}

static void introduce(struct p2p *p)
{
    const struct bench_options *o = p->s.options;

    session_introduce(&p->s, "p2p");
    report_head(p->s.report,
                json_pack("{s:{s:s, s:s, s:s, s:i, s:i, s:i, s:i}}", "options", "how", o->hows,
                          "pattern", o->patterns, "blocks", o->blocks, "threads", (int)p->threads,
                          "iters", o->iters, "warmup", o->warmup, "rounds", (int)p->rounds));
    report_say(p->s.report,
               "# up to %d repetitions of up to %d moves in one graph; %u threads a block",
               o->iters, p->s.emulated ? 2 : MOST_NOPS, p->threads);
}

/* With two ranks some patterns are the same as one before them. */
static symm_status check_patterns(struct p2p *p)
{
    const char *wanted = p->s.options->patterns;
    char reason[64];
    symm_status st = SYMM_OK;

    for (const struct pattern *each = patterns; each < patterns + NPATTERNS; each++) {
        if (p->s.nranks >= each->least || !bench_options_want(wanted, each->name))
            continue;
        snprintf(reason, sizeof reason, "it needs %d ranks", each->least);
        TRY(session_unavailable(&p->s, &(struct unavailable){.option = "pattern",
                                                             .list = wanted,
                                                             .name = each->name,
                                                             .shown = each->name,
                                                             .reason = reason}));
    }
out:
    return st;
}

static symm_status run(struct p2p *p, struct bench_options *options)
{
    symm_status st;

    TRY(session_open(&p->s, options));
    if (p->s.nranks < 2)
        return session_refuse(&p->s, "p2p needs two ranks at least: symm-run -n 2 symm-bench p2p");
    settle_defaults(p);
    TRY(prepare(p));
    introduce(p);
    TRY(check_patterns(p));
    report_columns(p->s.report, columns, NCOLUMNS);
    TRY(measure_all(p));
    TRY(session_measured(&p->s));
out:
    return st;
}

int p2p_run(struct bench_options *options)
{
    struct p2p p = {0};
    char error[1024];
    bool failed = session_failed(&p.s, run(&p, options), NULL, error);

    free(p.samples);
    if (p.wrong)
        symm_device_free(p.s.ctx, p.wrong);
    return !session_close(&p.s, failed ? error : NULL) || failed || p.nwrong > 0;
}
