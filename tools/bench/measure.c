/* One row: a variant at a size, checked and timed. */
#include "measure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "statistics.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        st = (call);                                                                               \
        if (st != SYMM_OK)                                                                         \
            goto out;                                                                              \
    } while (0)

enum { POISON = 0xff }; /* a NaN in every type */

symm_status measure_create(struct measure *m, uint64_t nbytes)
{
    const struct bench_options *o = m->options;
    size_t n = nbytes > 0 ? (size_t)nbytes : 1;
    symm_status st;

    m->samples = malloc((size_t)o->iters * sizeof *m->samples);
    m->host = o->check ? malloc(n) : NULL;
    if (!m->samples || (o->check && !m->host))
        return SYMM_ERROR_MEMORY;
    TRY(symm_stream_create(m->ctx, &m->stream));
    TRY(symm_event_create(m->ctx, &m->begin));
    TRY(symm_event_create(m->ctx, &m->end));
    TRY(o->plain_memory ? symm_device_alloc(m->ctx, n, &m->in) : symm_alloc(m->group, n, &m->in));
    if (o->in_place)
        m->out = m->in;
    else
        TRY(o->plain_memory ? symm_device_alloc(m->ctx, n, &m->out)
                            : symm_alloc(m->group, n, &m->out));
    TRY(symm_fill(m->in, 0, n, m->stream));
    TRY(symm_fill(m->out, 0, n, m->stream));
    TRY(symm_synchronize(m->group, m->stream));
out:
    return st;
}

void measure_destroy(struct measure *m)
{
    if (m->options->plain_memory) {
        if (m->out && m->out != m->in)
            symm_device_free(m->ctx, m->out);
        if (m->in)
            symm_device_free(m->ctx, m->in);
    }
    symm_event_destroy(m->end);
    symm_event_destroy(m->begin);
    symm_stream_destroy(m->stream);
    free(m->host);
    free(m->samples);
}

static symm_status enqueue(const struct measure *m, const struct operation_call *call, int nops)
{
    symm_status st = SYMM_OK;

    for (int i = 0; i < nops && st == SYMM_OK; i++)
        st = m->options->operation->enqueue(call);
    return st;
}

/* Records nops operations; without --graph there is nothing to record. */
static symm_status record(const struct measure *m, const struct operation_call *call, int nops,
                          symm_graph *out)
{
    symm_status st;

    *out = NULL;
    if (!m->options->graph)
        return SYMM_OK;
    st = symm_graph_begin(call->stream);
    if (st != SYMM_OK)
        return st;
    st = enqueue(m, call, nops);
    symm_status ended = symm_graph_end(call->stream, out);
    if (st == SYMM_OK)
        return ended;
    if (ended == SYMM_OK)
        symm_graph_destroy(*out);
    *out = NULL;
    return st;
}

static symm_status repeat(const struct measure *m, const struct operation_call *call,
                          symm_graph graph, int nops)
{
    return graph ? symm_graph_launch(graph, call->stream) : enqueue(m, call, nops);
}

/* Compares the output with what it should be; adds up the ranks' wrong elements. Collective. */
static symm_status verify(const struct measure *m, const struct operation_call *call, uint64_t seed,
                          int64_t *wrong)
{
    size_t nbytes = call->count * call->element->nbytes;
    int rank = symm_rank(m->group), nranks = symm_nranks(m->group);
    struct sums_verdict verdict;
    uint64_t all[SYMM_MAX_RANKS], sum = 0;
    symm_status st;

    TRY(symm_copy(m->host, call->out, nbytes, call->stream));
    TRY(symm_synchronize(m->group, call->stream));
    sums_check(call->element, m->host, call->count, seed, nranks,
               m->options->operation->rule(m->group, call->variant, call->element), &verdict);
    if (verdict.wrong > 0)
        fprintf(stderr,
                "# rank %d: %s, %zu bytes: element %" PRIu64 " is %.9g and should be %.9g\n", rank,
                call->variant->name, nbytes, verdict.first, verdict.got, verdict.expected);
    TRY(symm_exchange(m->group, &verdict.wrong, sizeof verdict.wrong, all));
    for (int r = 0; r < nranks; r++)
        sum += all[r];
    *wrong = (int64_t)sum;
out:
    return st;
}

/* Runs the operation once on fresh data, over an output that is poisoned. */
static symm_status check(const struct measure *m, const struct operation_call *call, uint64_t seed,
                         int64_t *wrong)
{
    size_t nbytes = call->count * call->element->nbytes;
    symm_graph graph = NULL;
    symm_status st;

    sums_fill(call->element, m->host, call->count, seed, symm_rank(m->group));
    TRY(symm_copy(m->in, m->host, nbytes, call->stream));
    if (call->out != call->in && nbytes > 0)
        TRY(symm_fill(call->out, POISON, nbytes, call->stream));
    TRY(record(m, call, 1, &graph));
    /* A peer that does not wait for the others at its beginning finds their data all the same. */
    TRY(symm_barrier(m->group, call->stream));
    TRY(repeat(m, call, graph, 1));
    TRY(symm_synchronize(m->group, call->stream));
    TRY(verify(m, call, seed, wrong));
out:
    symm_graph_destroy(graph);
    return st;
}

/* Times the repetitions on this rank. */
static symm_status sample(const struct measure *m, const struct operation_call *call)
{
    const struct bench_options *o = m->options;
    symm_graph graph = NULL;
    symm_status st;

    TRY(record(m, call, m->nops, &graph));
    for (int i = -o->warmup; i < o->iters; i++) {
        float us;

        TRY(symm_barrier(m->group, call->stream)); /* all start together */
        TRY(symm_event_record(m->begin, call->stream));
        TRY(repeat(m, call, graph, m->nops));
        TRY(symm_event_record(m->end, call->stream));
        TRY(symm_synchronize(m->group, call->stream));
        TRY(symm_event_elapsed_us(m->begin, m->end, &us));
        if (i >= 0)
            m->samples[i] = us / (float)m->nops;
    }
out:
    symm_graph_destroy(graph);
    return st;
}

/* The slowest rank's median and 95th percentile. Collective. */
static symm_status worst(const struct measure *m, struct report_row *row)
{
    size_t n = (size_t)m->options->iters;
    float mine[2], all[SYMM_MAX_RANKS][2];

    statistics_sort(m->samples, n);
    mine[0] = statistics_median(m->samples, n);
    mine[1] = statistics_percentile(m->samples, n, 95);
    symm_status st = symm_exchange(m->group, mine, sizeof mine, all);
    row->time_us = row->p95_us = 0;
    for (int r = 0; st == SYMM_OK && r < symm_nranks(m->group); r++) {
        if (all[r][0] > row->time_us)
            row->time_us = all[r][0];
        if (all[r][1] > row->p95_us)
            row->p95_us = all[r][1];
    }
    return st;
}

symm_status measure_row(struct measure *m, const struct variant *v, uint64_t nbytes, uint64_t use,
                        struct report_row *out)
{
    const struct bench_options *o = m->options;
    uint64_t seed = sums_seed(m->seed, use);
    struct operation_call call = {.group = m->group,
                                  .nccl = m->nccl,
                                  .variant = v,
                                  .element = o->element,
                                  .in = m->in,
                                  .out = m->out,
                                  .count = nbytes / o->element->nbytes,
                                  .stream = m->stream};
    struct report_row row = {.nbytes = nbytes,
                             .count = call.count,
                             .algo = v->name,
                             .in_place = o->in_place,
                             .wrong = -1};
    int64_t wrong_after;
    symm_status st;

    if (o->check)
        TRY(check(m, &call, seed, &row.wrong));
    TRY(sample(m, &call));
    /* Once more when calls have followed one another closely; in place the data are others by now.
     */
    if (o->check && !o->in_place) {
        TRY(verify(m, &call, seed, &wrong_after));
        if (wrong_after > row.wrong)
            row.wrong = wrong_after;
    }
    TRY(worst(m, &row));
    row.algbw = row.time_us > 0 ? (double)nbytes / row.time_us / 1e3 : 0;
    row.busbw = row.algbw * o->operation->bus_factor(symm_nranks(m->group));
    *out = row;
out:
    return st;
}
