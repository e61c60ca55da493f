/* symm-bench p2p: links by kernels and copy engines, and the latency of signals. */
#include "p2p.h"

#include <stdio.h>
#include <string.h>
#include "common/text.h"
#include "p2p_move.h"

_Static_assert((int)P2P_THREADS_MAX == (int)BENCH_MAX_THREADS, "--threads is what kernels can run");

enum { LEAST_ITERS = 5, MOST_NOPS = 20 };

/* Limits, if possible, of a repetition and of all repetitions of a row. */
static const double repetition_us = 2e3, row_us = 1e5;

static const struct report_column columns[] = {
    {"bytes", 11, REPORT_COUNT}, {"how", 9, REPORT_WORD},    {"pattern", 10, REPORT_WORD},
    {"blocks", 6, REPORT_COUNT}, {"ranks", 5, REPORT_COUNT}, {"time_us", 11, REPORT_REAL},
    {"p95_us", 11, REPORT_REAL}, {"gbs", 8, REPORT_REAL},    {"wrong", 8, REPORT_WRONG},
};

enum { NCOLUMNS = sizeof columns / sizeof columns[0] };

struct p2p {
    struct session s;
    struct p2p_room room;
    uint32_t seed; /* of the last row */
    int64_t nwrong;
};

/* Sets the calls of a repetition. Returns the repetitions. */
static int settle_counts(const struct p2p *p, const struct p2p_move *m, struct subject *x,
                         float once_us)
{
    const struct bench_options *o = p->s.options;
    const double nops = repetition_us / once_us, most = p->s.emulated ? 2 : MOST_NOPS;

    x->nops = m->how->by == P2P_BY_PING || nops < 1 ? 1 : nops > most ? (int)most : (int)nops;
    const double iters = row_us / (once_us * (float)x->nops);
    return iters >= o->iters        ? o->iters
           : o->iters < LEAST_ITERS ? o->iters
           : iters < LEAST_ITERS    ? LEAST_ITERS
                                    : (int)iters;
}

static void report(struct p2p *p, const struct p2p_move *m, const struct subject *x)
{
    const bool is_ping = m->how->by == P2P_BY_PING, is_packet = m->args.slots;
    const float share = is_ping ? 2 * (float)p->room.rounds : 1; /* half a round trip */

    p->nwrong += x->wrong;
    report_row(p->s.report, (union report_value[NCOLUMNS]){
                                {.count = is_packet ? 12 : m->nbytes},
                                {.word = m->how->name},
                                {.word = m->pattern->name},
                                {.count = m->blocks},
                                {.count = (uint64_t)p->s.nranks},
                                {.real = x->median / share},
                                {.real = x->p95 / share},
                                {.real = x->median > 0 ? (double)m->nbytes / x->median / 1e3 : 0},
                                {.wrong = is_ping && !is_packet ? -1 : x->wrong}});
}

/* One row: one checked call, whose time settles how often the next ones are repeated. */
static symm_status measure_move(struct p2p *p, const struct p2p_how *how,
                                const struct p2p_pattern *pattern, uint32_t blocks, uint64_t nbytes)
{
    struct p2p_move m = {
        .room = &p->room, .how = how, .pattern = pattern, .blocks = blocks, .nbytes = nbytes};
    struct subject x = {.kind = &p2p_kind, .what = &m};
    float once_us;
    symm_status st;

    p2p_plan(&m);
    x.idle = m.args.nslices == 0;
    TRY(subject_check(&p->s, &x, ++p->seed));
    TRY(session_worst(&p->s, &x.once_us, 1, &once_us));
    TRY(subject_time(&p->s, &x, settle_counts(p, &m, &x, once_us > 1 ? once_us : 1)));
    report(p, &m, &x);
out:
    return st;
}

/* ------------------------------------------------------------------------------------- all rows */

/* Moves nbytes by everything that is wanted; a kernel with each number of blocks. */
static symm_status measure_size(struct p2p *p, uint64_t nbytes)
{
    const struct bench_options *o = p->s.options;
    char item[64];
    int blocks;
    symm_status st = SYMM_OK;

    for (int i = 0; i < P2P_NPATTERNS; i++) {
        const struct p2p_pattern *pattern = &p2p_patterns[i];

        if (p->s.nranks < pattern->least || !bench_options_want(o->patterns, pattern->name))
            continue;
        for (const struct p2p_how *how = p2p_hows; how < p2p_hows + P2P_NHOWS; how++) {
            const char *list = how->by == P2P_BY_COPY_ENGINE ? "0" : o->blocks;

            if (how->by == P2P_BY_PING || !bench_options_want(o->hows, how->name))
                continue;
            while (text_next(&list, item, sizeof item) &&
                   text_int(item, 0, BENCH_MAX_BLOCKS, &blocks))
                TRY(measure_move(p, how, pattern, (uint32_t)blocks, nbytes));
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

    for (const struct p2p_how *how = p2p_hows; how < p2p_hows + P2P_NHOWS; how++) {
        if (how->by == P2P_BY_PING && bench_options_want(o->hows, how->name))
            TRY(measure_move(p, how, &p2p_patterns[P2P_PAIR_BOTH], 1, 0));
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
    o->graph = true;
    p->room.s = &p->s;
    p->room.threads = o->threads ? (uint32_t)o->threads : emulated ? 32 : P2P_THREADS_MAX;
    p->room.rounds = emulated ? 20 : 1000;
    p->seed = (uint32_t)p->s.seed;
}

static symm_status prepare(struct p2p *p)
{
    uint64_t nbytes, most = 16;

    for (int i = 0; bench_options_size(p->s.options, i, &nbytes); i++)
        most = nbytes > most ? nbytes : most;
    return p2p_room_create(&p->room, most);
}

static void introduce(struct p2p *p)
{
    const struct bench_options *o = p->s.options;

    session_introduce(&p->s, "p2p");
    report_head(p->s.report, json_pack("{s:{s:s, s:s, s:s, s:i, s:i, s:i, s:i}}", "options", "how",
                                       o->hows, "pattern", o->patterns, "blocks", o->blocks,
                                       "threads", (int)p->room.threads, "iters", o->iters, "warmup",
                                       o->warmup, "rounds", (int)p->room.rounds));
    report_say(p->s.report,
               "# up to %d repetitions of up to %d moves in one graph; %u threads a block",
               o->iters, p->s.emulated ? 2 : MOST_NOPS, p->room.threads);
}

/* Some patterns need more than two ranks. */
static symm_status check_patterns(struct p2p *p)
{
    const char *wanted = p->s.options->patterns;
    char reason[64];
    symm_status st = SYMM_OK;

    for (const struct p2p_pattern *each = p2p_patterns; each < p2p_patterns + P2P_NPATTERNS;
         each++) {
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

    p2p_room_destroy(&p.room);
    return !session_close(&p.s, failed ? error : NULL) || failed || p.nwrong > 0;
}
