/* One size: every variant checked and timed, by turns. */
#include "measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "statistics.h"

enum {
    POISON = 0xff, /* a NaN in every floating type */
    LINE_UP = 16   /* barriers before what is measured: some 60 microseconds */
};

/* A variant, or the barrier alone, at one size. */
struct trial {
    const struct variant *variant; /* NULL: the barrier alone */
    struct operation_call call;
    struct measure_buffers buffers;
    symm_graph graph; /* of a repetition; NULL without --graph */
    float *samples;   /* one for every repetition */
    int64_t wrong;
};

/* Whether a repetition leaves other data than it found. */
static bool uses_up_input(const struct measure *m)
{
    return m->s->options->in_place || m->s->options->timing == TIMING_CHAIN;
}

symm_status measure_create(struct measure *m, uint64_t most)
{
    const struct bench_options *o = m->s->options;
    struct session *s = m->s;
    const size_t count = operation_count(m->operation, most / o->element->nbytes, s->nranks);
    const size_t nbytes = count * o->element->nbytes, n = nbytes > 0 ? nbytes : 1;
    symm_status st;

    m->host = malloc(n);
    if (!m->host)
        return SYMM_ERROR_MEMORY;
    TRY(o->plain_memory ? symm_device_alloc(s->ctx, n, (void **)&m->ours.in)
                        : symm_alloc(s->group, n, (void **)&m->ours.in));
    if (o->in_place)
        m->ours.out = m->ours.in;
    else
        TRY(o->plain_memory ? symm_device_alloc(s->ctx, n, (void **)&m->ours.out)
                            : symm_alloc(s->group, n, (void **)&m->ours.out));
    if (uses_up_input(m))
        TRY(symm_device_alloc(s->ctx, n, (void **)&m->saved));
    TRY(symm_fill(m->ours.out, 0, n, s->stream));
    /* Zeros would be faster than data are. */
    sums_fill(o->element, m->host, count, s->seed, s->rank);
    TRY(symm_copy(m->ours.in, m->host, nbytes, s->stream));
    if (m->theirs.in)
        TRY(symm_copy(m->theirs.in, m->host, nbytes, s->stream));
    if (m->saved)
        TRY(symm_copy(m->saved, m->host, nbytes, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
out:
    return st;
}

void measure_destroy(struct measure *m)
{
    if (m->saved)
        symm_device_free(m->s->ctx, m->saved);
    if (m->s->options->plain_memory) {
        if (m->ours.out && m->ours.out != m->ours.in)
            symm_device_free(m->s->ctx, m->ours.out);
        if (m->ours.in)
            symm_device_free(m->s->ctx, m->ours.in);
    }
    free(m->host);
}

/* ------------------------------------------------------------------------------------ one trial */

/* The i-th call of a repetition; in a chain in and out change places. */
static struct operation_call nth_call(const struct measure *m, const struct trial *t, int i)
{
    struct operation_call call = t->call;

    if (m->s->options->timing == TIMING_CHAIN && !m->s->options->in_place && i % 2) {
        call.in = t->buffers.out;
        call.out = t->buffers.in;
    }
    return call;
}

static symm_status enqueue(const struct measure *m, const struct trial *t, int nops)
{
    symm_status st = SYMM_OK;

    for (int i = 0; i < nops && st == SYMM_OK; i++) {
        const struct operation_call call = nth_call(m, t, i);

        if (m->s->options->timing == TIMING_ISOLATED)
            st = symm_barrier(m->s->group, m->s->stream);
        if (t->variant && st == SYMM_OK)
            st = m->operation->enqueue(&call);
    }
    return st;
}

/* Records nops operations; without --graph there is nothing to record. */
static symm_status record(const struct measure *m, const struct trial *t, int nops, symm_graph *out)
{
    symm_status st;

    *out = NULL;
    if (!m->s->options->graph)
        return SYMM_OK;
    st = symm_graph_begin(m->s->stream);
    if (st != SYMM_OK)
        return st;
    st = enqueue(m, t, nops);
    symm_status ended = symm_graph_end(m->s->stream, out);
    if (st == SYMM_OK)
        return ended;
    if (ended == SYMM_OK)
        symm_graph_destroy(*out);
    *out = NULL;
    return st;
}

static symm_status repeat(const struct measure *m, const struct trial *t, symm_graph graph,
                          int nops)
{
    return graph ? symm_graph_launch(graph, m->s->stream) : enqueue(m, t, nops);
}

static size_t in_nbytes(const struct measure *m, const struct operation_call *call)
{
    return operation_in_count(m->operation, call->count, m->s->nranks) * call->element->nbytes;
}

static size_t out_nbytes(const struct measure *m, const struct operation_call *call)
{
    return operation_out_count(m->operation, call->count, m->s->nranks) * call->element->nbytes;
}

/* This rank's random input, into the input and where it is kept. */
static symm_status offer(const struct measure *m, const struct trial *t, uint64_t seed)
{
    const size_t nbytes = in_nbytes(m, &t->call);
    symm_status st;

    sums_fill(t->call.element, m->host, nbytes / t->call.element->nbytes, seed, m->s->rank);
    TRY(symm_copy((char *)(uintptr_t)t->call.in, m->host, nbytes, m->s->stream));
    if (m->saved)
        TRY(symm_copy(m->saved, m->host, nbytes, m->s->stream));
out:
    return st;
}

/* Makes the ranks begin together, with the input as it was. */
static symm_status line_up(const struct measure *m, const struct trial *t)
{
    symm_status st;

    if (m->saved && t->variant)
        TRY(symm_copy((char *)(uintptr_t)t->call.in, m->saved, in_nbytes(m, &t->call),
                      m->s->stream));
    /*
     * A peer that does not wait for the others at its beginning finds their data all the same.
     * While the GPU passes the barriers the host enqueues what is measured: after a single one the
     * GPU would wait for the host, some ranks longer than others, and that would be measured.
     */
    for (int i = 0; i < (m->s->emulated ? 1 : LINE_UP); i++)
        TRY(symm_barrier(m->s->group, m->s->stream));
out:
    return st;
}

/* Runs nops operations over a poisoned output, and compares. Collective. */
static symm_status check(const struct measure *m, struct trial *t, symm_graph graph, int nops,
                         uint64_t seed)
{
    const struct operation_call last = nth_call(m, t, nops - 1);
    const size_t nbytes = out_nbytes(m, &last);
    struct sums_verdict verdict;
    int64_t wrong;
    symm_status st;

    if (t->call.out != t->call.in && nbytes > 0)
        TRY(symm_fill(t->call.out, POISON, nbytes, m->s->stream));
    TRY(line_up(m, t));
    TRY(repeat(m, t, graph, nops));
    TRY(symm_copy(m->host, last.out, nbytes, m->s->stream));
    TRY(symm_synchronize(m->s->group, m->s->stream));
    operation_check(m->operation, &last, m->host, seed, uses_up_input(m) ? nops : 1, &verdict);
    if (verdict.wrong > 0)
        fprintf(stderr, "# rank %d: %s, %zu bytes: element %" PRIu64 " is %s and should be %s\n",
                m->s->rank, t->variant->name, nbytes, verdict.first, verdict.got, verdict.expected);
    TRY(session_sum(m->s, verdict.wrong, &wrong));
    t->wrong = wrong > t->wrong ? wrong : t->wrong;
out:
    return st;
}

/* Runs the operation once on fresh data. */
static symm_status check_once(const struct measure *m, struct trial *t, uint64_t seed)
{
    symm_graph graph = NULL;
    symm_status st;

    TRY(offer(m, t, seed));
    TRY(record(m, t, 1, &graph));
    TRY(check(m, t, graph, 1, seed));
out:
    symm_graph_destroy(graph);
    return st;
}

/* Times one repetition on this rank. */
static symm_status time_once(const struct measure *m, const struct trial *t, float *out)
{
    struct session *s = m->s;
    float us;
    symm_status st;

    TRY(line_up(m, t));
    TRY(symm_event_record(s->begin, s->stream));
    TRY(repeat(m, t, t->graph, m->nops));
    TRY(symm_event_record(s->end, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
    TRY(symm_event_elapsed_us(s->begin, s->end, &us));
    *out = us / (float)m->nops;
out:
    return st;
}

/* ---------------------------------------------------------------------------------- all of them */

static struct trial make_trial(const struct measure *m, const struct variant *v, uint64_t nbytes)
{
    const struct bench_options *o = m->s->options;
    struct trial t = {
        .variant = v,
        .call = {.group = m->s->group,
                 .nccl = m->nccl,
                 .variant = v,
                 .element = o->element,
                 .op = o->op,
                 .count = operation_count(m->operation, nbytes / o->element->nbytes, m->s->nranks),
                 .flags = o->plain_memory ? 0 : SYMM_SYMMETRIC,
                 .stream = m->s->stream},
        .buffers = v && v->symmetric ? m->theirs : m->ours,
        .wrong = o->check ? 0 : -1};

    t.call.in = t.buffers.in;
    t.call.out = t.buffers.out;
    if (o->in_place)
        operation_in_place(m->operation, &t.call, t.buffers.in);
    return t;
}

/* Times all trials, by turns, so that what changes with time changes for all of them. */
static symm_status time_all(const struct measure *m, struct trial *trials, int ntrials)
{
    const struct bench_options *o = m->s->options;
    symm_status st = SYMM_OK;
    float us;

    for (int t = 0; t < ntrials; t++)
        TRY(record(m, &trials[t], m->nops, &trials[t].graph));
    for (int i = -o->warmup; i < o->iters; i++) {
        for (int t = 0; t < ntrials; t++) {
            TRY(time_once(m, &trials[t], &us));
            if (i >= 0)
                trials[t].samples[i] = us;
        }
    }
out:
    return st;
}

/* The median and the 95th percentile of the slowest rank. Collective. */
static symm_status summarise(const struct measure *m, struct trial *t, float times[2])
{
    const size_t n = (size_t)m->s->options->iters;
    float mine[2];

    statistics_sort(t->samples, n);
    mine[0] = statistics_median(t->samples, n);
    mine[1] = statistics_percentile(t->samples, n, 95);
    return session_worst(m->s, mine, 2, times);
}

/* Makes rows of the times, less the barrier's where there was one before each call. */
static symm_status make_rows(const struct measure *m, struct trial *trials, int ntrials,
                             struct measure_row *rows)
{
    float times[2], barrier[2] = {0};
    symm_status st = SYMM_OK;

    if (ntrials > m->nvariants)
        TRY(summarise(m, &trials[m->nvariants], barrier));
    for (int i = 0; i < m->nvariants; i++) {
        const struct operation_call *call = &trials[i].call;
        struct measure_row *row = &rows[i];

        TRY(summarise(m, &trials[i], times));
        *row = (struct measure_row){.nbytes = call->count * call->element->nbytes,
                                    .count = call->count,
                                    .time_us = fmaxf(times[0] - barrier[0], 0),
                                    .p95_us = fmaxf(times[1] - barrier[0], 0),
                                    .wrong = trials[i].wrong};
        row->algbw = row->time_us > 0 ? (double)row->nbytes / row->time_us / 1e3 : 0;
        row->busbw = row->algbw * m->operation->bus_factor(m->s->nranks);
    }
out:
    return st;
}

symm_status measure_size(struct measure *m, uint64_t nbytes, uint64_t use, struct measure_row *rows)
{
    const struct bench_options *o = m->s->options;
    const uint64_t seed = sums_seed(m->s->seed, use);
    struct trial trials[MEASURE_MAX_VARIANTS + 1] = {{0}};
    const int ntrials = m->nvariants + (o->timing == TIMING_ISOLATED);
    float *samples = malloc((size_t)ntrials * (size_t)o->iters * sizeof *samples);
    symm_status st = samples || ntrials == 0 ? SYMM_OK : SYMM_ERROR_MEMORY;

    for (int i = 0; i < ntrials && samples; i++) {
        trials[i] = make_trial(m, i < m->nvariants ? m->variants[i] : NULL, nbytes);
        trials[i].samples = samples + (size_t)i * (size_t)o->iters;
    }
    TRY(st);
    for (int i = 0; i < m->nvariants && o->check; i++)
        TRY(check_once(m, &trials[i], seed));
    TRY(time_all(m, trials, ntrials));
    /* Once more when calls have followed one another closely. */
    for (int i = 0; i < m->nvariants && o->check; i++) {
        TRY(offer(m, &trials[i], seed));
        TRY(check(m, &trials[i], trials[i].graph, m->nops, seed));
    }
    TRY(make_rows(m, trials, ntrials, rows));
out:
    for (int i = 0; i < ntrials; i++)
        symm_graph_destroy(trials[i].graph);
    free(samples);
    return st;
}
