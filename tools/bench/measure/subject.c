/* Subjects of a comparison: timed alternately, and checked before and after. */
#include "subject.h"

#include <stdlib.h>
#include <time.h>
#include "oracle/sums.h"
#include "statistics.h"

enum { LINE_UP = 16 /* barriers before what is measured: some 60 microseconds */ };

/* Records nops calls; without --graph there is nothing to record. */
static symm_status record(const struct session *s, const struct subject *x, int nops,
                          symm_graph *out)
{
    symm_status st;

    *out = NULL;
    if (!s->options->graph || x->idle)
        return SYMM_OK;
    st = symm_graph_begin(s->stream);
    if (st != SYMM_OK)
        return st;
    st = x->kind->enqueue(x->what, nops);
    symm_status ended = symm_graph_end(s->stream, out);
    if (st == SYMM_OK)
        return ended;
    if (ended == SYMM_OK)
        symm_graph_destroy(*out);
    *out = NULL;
    return st;
}

/*
 * Prepares a repetition and makes the ranks begin it together. A peer library that does not wait
 * for the other ranks finds their data all the same. While the GPU passes the barriers the host
 * enqueues the repetition: after a single barrier the GPU would wait for the host, and the wait
 * would be measured.
 */
static symm_status line_up(const struct session *s, const struct subject *x)
{
    symm_status st = SYMM_OK;

    if (x->kind->prepare)
        TRY(x->kind->prepare(x->what));
    for (int i = 0; i < (s->emulated ? 1 : LINE_UP); i++)
        TRY(symm_barrier(s->group, s->stream));
out:
    return st;
}

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Runs one repetition of nops calls; *out: microseconds of a call on this rank. */
static symm_status repeat(const struct session *s, const struct subject *x, symm_graph graph,
                          int nops, float *out)
{
    int64_t host_ns;
    float us;
    symm_status st;

    TRY(line_up(s, x));
    TRY(symm_event_record(s->begin, s->stream));
    host_ns = now_ns();
    if (!x->idle)
        TRY(graph ? symm_graph_launch(graph, s->stream) : x->kind->enqueue(x->what, nops));
    host_ns = now_ns() - host_ns;
    TRY(symm_event_record(s->end, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
    TRY(symm_event_elapsed_us(s->begin, s->end, &us));
    if (s->options->timing == TIMING_HOST)
        us = (float)host_ns / 1e3f;
    *out = x->idle ? 0 : us / (float)nops;
out:
    return st;
}

static symm_status check(struct session *s, struct subject *x, symm_graph graph, int nops,
                         uint64_t seed)
{
    uint64_t mine;
    int64_t wrong;
    symm_status st;

    TRY(x->kind->offer(x->what, seed));
    TRY(repeat(s, x, graph, nops, &x->once_us));
    TRY(x->kind->judge(x->what, nops, &mine));
    TRY(session_sum(s, mine, &wrong));
    x->wrong = wrong > x->wrong ? wrong : x->wrong;
out:
    return st;
}

symm_status subject_check(struct session *s, struct subject *x, uint64_t seed)
{
    symm_graph graph;
    symm_status st = record(s, x, 1, &graph);

    if (st == SYMM_OK)
        st = check(s, x, graph, 1, seed);
    symm_graph_destroy(graph);
    return st;
}

/* The median and the 95th percentile of this rank's samples, of the slowest rank. Collective. */
static symm_status summarise(struct session *s, struct subject *x, float *samples, int iters)
{
    const size_t n = (size_t)iters;
    float times[2];

    statistics_sort(samples, n);
    times[0] = statistics_median(samples, n);
    times[1] = statistics_percentile(samples, n, 95);
    symm_status st = session_worst(s, times, 2, times);
    x->median = times[0];
    x->p95 = times[1];
    return st;
}

/* Leaves the graphs there. */
static symm_status time_all(struct session *s, struct subject *all, int n, int iters)
{
    float *samples = malloc((size_t)(n > 0 ? n : 1) * (size_t)iters * sizeof *samples), us;
    symm_status st = samples ? SYMM_OK : SYMM_ERROR_MEMORY;

    TRY(st);
    for (int i = 0; i < n; i++)
        TRY(record(s, &all[i], all[i].nops, &all[i].graph));
    for (int r = -s->options->warmup; r < iters; r++) {
        for (int i = 0; i < n; i++) {
            TRY(repeat(s, &all[i], all[i].graph, all[i].nops, &us));
            if (r >= 0)
                samples[i * iters + r] = us;
        }
    }
    for (int i = 0; i < n; i++)
        TRY(summarise(s, &all[i], samples + (size_t)i * (size_t)iters, iters));
out:
    free(samples);
    return st;
}

static void clear(struct subject *all, int n)
{
    for (int i = 0; i < n; i++) {
        symm_graph_destroy(all[i].graph);
        all[i].graph = NULL;
    }
}

symm_status subject_time(struct session *s, struct subject *x, int iters)
{
    symm_status st = time_all(s, x, 1, iters);

    clear(x, 1);
    return st;
}

symm_status subjects_measure(struct session *s, struct subject *all, int n, uint64_t seed)
{
    symm_status st = SYMM_OK;

    for (int i = 0; i < n; i++) {
        if (all[i].wrong >= 0)
            TRY(subject_check(s, &all[i], seed));
    }
    TRY(time_all(s, all, n, s->options->iters));
    for (int i = 0; i < n; i++) {
        if (all[i].wrong >= 0)
            TRY(check(s, &all[i], all[i].graph, all[i].nops, sums_seed(seed, 0)));
    }
out:
    clear(all, n);
    return st;
}
