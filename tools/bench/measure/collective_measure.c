/* One size: every variant checked and timed, by turns. */
#include "collective_measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "timing.h"

enum { POISON = 0xff /* a NaN in every floating type */ };

/* A variant, or the barrier alone, at one size. */
struct trial {
    const struct measure *m;
    const struct variant *variant; /* NULL: the barrier alone */
    struct operation_call call;
    struct measure_buffers buffers;
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
static struct operation_call nth_call(const struct trial *t, int i)
{
    struct operation_call call = t->call;

    if (t->m->s->options->timing == TIMING_CHAIN && !t->m->s->options->in_place && i % 2) {
        call.in = t->buffers.out;
        call.out = t->buffers.in;
    }
    return call;
}

static symm_status enqueue(const void *what, int nops)
{
    const struct trial *t = what;
    const struct measure *m = t->m;
    symm_status st = SYMM_OK;

    for (int i = 0; i < nops && st == SYMM_OK; i++) {
        const struct operation_call call = nth_call(t, i);

        if (m->s->options->timing == TIMING_ISOLATED)
            st = symm_barrier(m->s->group, m->s->stream);
        if (t->variant && st == SYMM_OK)
            st = m->operation->enqueue(&call);
    }
    return st;
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

/* Puts the input back as it was. */
static symm_status prepare(const void *what)
{
    const struct trial *t = what;
    const struct measure *m = t->m;

    return m->saved && t->variant ? symm_copy((char *)(uintptr_t)t->call.in, m->saved,
                                              in_nbytes(m, &t->call), m->s->stream)
                                  : SYMM_OK;
}

/* Runs nops operations over a poisoned output, and compares. Collective. */
static symm_status check(struct trial *t, const struct timed *timed, symm_graph graph, int nops,
                         uint64_t seed)
{
    const struct measure *m = t->m;
    const struct operation_call last = nth_call(t, nops - 1);
    const size_t nbytes = out_nbytes(m, &last);
    struct sums_verdict verdict;
    int64_t wrong;
    symm_status st;

    if (t->call.out != t->call.in && nbytes > 0)
        TRY(symm_fill(t->call.out, POISON, nbytes, m->s->stream));
    TRY(timing_line_up(m->s, timed));
    TRY(timing_repeat(m->s, timed, graph, nops));
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
static symm_status check_once(struct trial *t, const struct timed *timed, uint64_t seed)
{
    symm_graph graph = NULL;
    symm_status st;

    TRY(offer(t->m, t, seed));
    TRY(timing_record(t->m->s, timed, 1, &graph));
    TRY(check(t, timed, graph, 1, seed));
out:
    symm_graph_destroy(graph);
    return st;
}

/* ---------------------------------------------------------------------------------- all of them */

static struct trial make_trial(const struct measure *m, const struct variant *v, uint64_t nbytes)
{
    const struct bench_options *o = m->s->options;
    struct trial t = {
        .m = m,
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

/* Makes rows of the times, less the barrier's where there was one before each call. */
static symm_status make_rows(const struct measure *m, const struct trial *trials,
                             struct timed *timed, int ntrials, struct measure_row *rows)
{
    float times[2], barrier[2] = {0};
    symm_status st = SYMM_OK;

    if (ntrials > m->nvariants)
        TRY(timing_summarise(m->s, &timed[m->nvariants], barrier));
    for (int i = 0; i < m->nvariants; i++) {
        const struct operation_call *call = &trials[i].call;
        struct measure_row *row = &rows[i];

        TRY(timing_summarise(m->s, &timed[i], times));
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
    struct timed timed[MEASURE_MAX_VARIANTS + 1] = {{0}};
    const int ntrials = m->nvariants + (o->timing == TIMING_ISOLATED);
    float *samples = malloc((size_t)ntrials * (size_t)o->iters * sizeof *samples);
    symm_status st = samples || ntrials == 0 ? SYMM_OK : SYMM_ERROR_MEMORY;

    for (int i = 0; i < ntrials && samples; i++) {
        trials[i] = make_trial(m, i < m->nvariants ? m->variants[i] : NULL, nbytes);
        timed[i] = (struct timed){.enqueue = enqueue,
                                  .prepare = prepare,
                                  .what = &trials[i],
                                  .nops = m->nops,
                                  .samples = samples + (size_t)i * (size_t)o->iters};
    }
    TRY(st);
    for (int i = 0; i < m->nvariants && o->check; i++)
        TRY(check_once(&trials[i], &timed[i], seed));
    TRY(timing_run(m->s, timed, ntrials));
    /* Once more when calls have followed one another closely. */
    for (int i = 0; i < m->nvariants && o->check; i++) {
        TRY(offer(m, &trials[i], seed));
        TRY(check(&trials[i], &timed[i], timed[i].graph, m->nops, seed));
    }
    TRY(make_rows(m, trials, timed, ntrials, rows));
out:
    timing_clear(timed, ntrials);
    free(samples);
    return st;
}
