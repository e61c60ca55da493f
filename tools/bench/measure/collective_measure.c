/* Measures all variants of an operation at one size. */
#include "collective_measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "subject.h"

enum { POISON = 0xff /* a NaN in every floating type */ };

/* A variant, the barrier alone or the empty kernel, at one size. */
struct trial {
    const struct collective_measure *m;
    const struct variant *variant; /* NULL: the barrier alone, or the empty kernel */
    struct operation_call call;
    struct buffer_pair buffers;
    uint64_t seed; /* of the input */
};

/* Whether a repetition overwrites its input. */
static bool uses_up_input(const struct collective_measure *m)
{
    return m->s->options->in_place || m->s->options->timing == TIMING_CHAIN;
}

static size_t count_of(const struct collective_measure *m, uint64_t nbytes)
{
    const size_t count = nbytes / m->s->options->element->nbytes;

    return m->operation->norms ? norm_count(count, (size_t)m->s->options->hidden)
                               : operation_count(m->operation, count, m->s->nranks);
}

/* Device memory of the kind of the run. */
static symm_status allocate(const struct collective_measure *m, size_t nbytes, char **out)
{
    return m->s->options->plain_memory ? symm_device_alloc(m->s->ctx, nbytes, (void **)out)
                                       : symm_alloc(m->s->domain, nbytes, (void **)out);
}

static symm_status create_norm(struct collective_measure *m, size_t nbytes)
{
    struct norm_tensors *t = &m->norm;
    symm_status st;

    t->hidden = (size_t)m->s->options->hidden;
    t->host_residual = malloc(nbytes);
    t->host_weight = malloc(t->hidden * m->s->options->element->nbytes);
    t->host_residual_out = malloc(nbytes);
    if (!t->host_residual || !t->host_weight || !t->host_residual_out)
        return SYMM_ERROR_MEMORY;
    TRY(allocate(m, nbytes, &t->residual));
    TRY(allocate(m, t->hidden * m->s->options->element->nbytes, &t->weight));
    TRY(allocate(m, nbytes, &t->residual_out));
out:
    return st;
}

/* Residual and weight by the seed, and a poisoned new residual. */
static symm_status offer_norm(const struct collective_measure *m, size_t count, uint64_t seed)
{
    const struct element *e = m->s->options->element;
    const struct norm_tensors *t = &m->norm;
    symm_status st;

    norm_fill(t, e, count, seed);
    TRY(symm_copy(t->residual, t->host_residual, count * e->nbytes, m->s->stream));
    TRY(symm_copy(t->weight, t->host_weight, t->hidden * e->nbytes, m->s->stream));
    TRY(symm_fill(t->residual_out, POISON, count * e->nbytes, m->s->stream));
out:
    return st;
}

symm_status collective_measure_create(struct collective_measure *m, uint64_t most)
{
    const struct bench_options *o = m->s->options;
    struct session *s = m->s;
    const size_t count = count_of(m, most);
    const size_t nbytes = count * o->element->nbytes, n = nbytes > 0 ? nbytes : 1;
    symm_status st;

    m->host = malloc(n);
    if (!m->host)
        return SYMM_ERROR_MEMORY;
    TRY(allocate(m, n, &m->ours.in));
    if (o->in_place)
        m->ours.out = m->ours.in;
    else
        TRY(allocate(m, n, &m->ours.out));
    if (m->operation->norms) {
        TRY(create_norm(m, n));
        TRY(offer_norm(m, count, s->seed));
    }
    if (uses_up_input(m))
        TRY(symm_device_alloc(s->ctx, n, (void **)&m->saved));
    if (o->timing == TIMING_HOST) {
        m->bare = bare_launch_open(s->ctx);
        if (!m->bare) {
            snprintf(s->trouble, sizeof s->trouble, "the driver does not load the empty kernel");
            return SYMM_ERROR_DRIVER;
        }
    }
    TRY(symm_fill(m->ours.out, 0, n, s->stream));
    /* Zeros would be faster than random data. */
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

void collective_measure_destroy(struct collective_measure *m)
{
    bare_launch_close(m->bare);
    if (m->saved)
        symm_device_free(m->s->ctx, m->saved);
    if (m->s->options->plain_memory) {
        if (m->ours.out && m->ours.out != m->ours.in)
            symm_device_free(m->s->ctx, m->ours.out);
        if (m->ours.in)
            symm_device_free(m->s->ctx, m->ours.in);
        symm_device_free(m->s->ctx, m->norm.residual);
        symm_device_free(m->s->ctx, m->norm.weight);
        symm_device_free(m->s->ctx, m->norm.residual_out);
    }
    free(m->norm.host_residual);
    free(m->norm.host_weight);
    free(m->norm.host_residual_out);
    free(m->host);
}

/* ------------------------------------------------------------------------------------ one trial */

/* The i-th call of a repetition; a chain swaps in and out. */
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
    const struct collective_measure *m = t->m;
    symm_status st = SYMM_OK;

    for (int i = 0; i < nops && st == SYMM_OK; i++) {
        const struct operation_call call = nth_call(t, i);

        if (m->s->options->timing == TIMING_ISOLATED)
            st = symm_barrier(m->s->group, m->s->stream);
        if (t->variant && st == SYMM_OK)
            st = operation_enqueue(m->operation, &call);
        if (!t->variant && m->bare)
            st = bare_launch_enqueue(m->bare, m->s->stream);
    }
    return st;
}

static size_t in_nbytes(const struct collective_measure *m, const struct operation_call *call)
{
    return operation_in_count(m->operation, call->count, m->s->nranks) * call->element->nbytes;
}

static size_t out_nbytes(const struct collective_measure *m, const struct operation_call *call)
{
    return operation_out_count(m->operation, call->count, m->s->nranks) * call->element->nbytes;
}

/* A poisoned output, and then, since the input may be a part of it, random input and its copy. */
static symm_status offer(void *what, uint64_t seed)
{
    struct trial *t = what;
    const struct collective_measure *m = t->m;
    const size_t in = in_nbytes(m, &t->call), out = out_nbytes(m, &t->call);
    symm_status st;

    t->seed = seed;
    if (out > 0)
        TRY(symm_fill(t->call.out, POISON, out, m->s->stream));
    sums_fill(t->call.element, m->host, in / t->call.element->nbytes, seed, m->s->rank);
    TRY(symm_copy((char *)(uintptr_t)t->call.in, m->host, in, m->s->stream));
    if (m->saved)
        TRY(symm_copy(m->saved, m->host, in, m->s->stream));
    if (t->call.norm)
        TRY(offer_norm(m, t->call.count, seed));
out:
    return st;
}

/* Restores the input. */
static symm_status prepare(const void *what)
{
    const struct trial *t = what;
    const struct collective_measure *m = t->m;

    return m->saved && t->variant ? symm_copy((char *)(uintptr_t)t->call.in, m->saved,
                                              in_nbytes(m, &t->call), m->s->stream)
                                  : SYMM_OK;
}

/* The same for `out`, which is on the host, and the new residual. */
static symm_status judge_norm(const struct trial *t, size_t nbytes, uint64_t *wrong)
{
    const struct collective_measure *m = t->m;
    struct norms_verdict v;
    symm_status st;

    TRY(symm_copy(m->norm.host_residual_out, m->norm.residual_out, nbytes, m->s->stream));
    TRY(symm_synchronize(m->s->group, m->s->stream));
    norm_check(&t->call, m->host, t->seed, &v);
    *wrong = v.wrong_norms + v.wrong_residuals;
    if (*wrong > 0)
        fprintf(stderr,
                "# rank %d: %s, %zu bytes: %" PRIu64 " residuals and %" PRIu64
                " norms are wrong; element %" PRIu64 " is %s and should be %s\n",
                m->s->rank, t->variant->name, nbytes, v.wrong_residuals, v.wrong_norms, v.first,
                v.got, v.expected);
out:
    return st;
}

static symm_status judge(void *what, int nops, uint64_t *wrong)
{
    const struct trial *t = what;
    const struct collective_measure *m = t->m;
    const struct operation_call last = nth_call(t, nops - 1);
    const size_t nbytes = out_nbytes(m, &last);
    struct sums_verdict verdict;
    symm_status st;

    TRY(symm_copy(m->host, last.out, nbytes, m->s->stream));
    TRY(symm_synchronize(m->s->group, m->s->stream));
    if (last.norm)
        return judge_norm(t, nbytes, wrong);
    operation_check(m->operation, &last, m->host, t->seed, uses_up_input(m) ? nops : 1, &verdict);
    if (verdict.wrong > 0)
        fprintf(stderr, "# rank %d: %s, %zu bytes: element %" PRIu64 " is %s and should be %s\n",
                m->s->rank, t->variant->name, nbytes, verdict.first, verdict.got, verdict.expected);
    *wrong = verdict.wrong;
out:
    return st;
}

static const struct subject_kind trial_kind = {enqueue, prepare, offer, judge};

/* ---------------------------------------------------------------------------------- all of them */

static struct trial make_trial(const struct collective_measure *m, const struct variant *v,
                               uint64_t nbytes)
{
    const struct bench_options *o = m->s->options;
    struct trial t = {.m = m,
                      .variant = v,
                      .call = {.group = m->s->group,
                               .nccl = m->nccl,
                               .variant = v,
                               .element = o->element,
                               .op = o->op,
                               .count = count_of(m, nbytes),
                               .norm = m->operation->norms ? &m->norm : NULL,
                               .root = o->root,
                               .flags = o->plain_memory || m->s->nhosts > 1 ? 0 : SYMM_SYMMETRIC,
                               .max_blocks = m->max_blocks,
                               .stream = m->s->stream},
                      .buffers = v && v->symmetric ? m->theirs : m->ours};

    t.call.in = t.buffers.in;
    t.call.out = t.buffers.out;
    if (o->in_place)
        operation_in_place(m->operation, &t.call, t.buffers.in);
    return t;
}

static struct collective_row make_row(const struct collective_measure *m, const struct subject *x,
                                      const struct subject *base)
{
    const struct operation_call *call = &((const struct trial *)x->what)->call;
    const double barrier_us = base && !m->bare ? (double)base->median : 0;
    struct collective_row row = {.nbytes = call->count * call->element->nbytes,
                                 .count = call->count,
                                 .time_us = fmax((double)x->median - barrier_us, 0),
                                 .p95_us = fmax((double)x->p95 - barrier_us, 0),
                                 .launch_us = m->bare ? (double)base->median : 0,
                                 .wrong = x->wrong};

    row.algbw = row.time_us > 0 ? (double)row.nbytes / row.time_us / 1e3 : 0;
    row.busbw = row.algbw * operation_bus_factor(m->operation, m->s->nranks);
    return row;
}

symm_status measure_size(struct collective_measure *m, uint64_t nbytes, uint64_t use,
                         struct collective_row *rows)
{
    const struct bench_options *o = m->s->options;
    /* The barrier alone, or the empty kernel, is the last one. */
    const bool has_base = o->timing == TIMING_ISOLATED || o->timing == TIMING_HOST;
    const int n = m->nvariants + has_base;
    struct trial trials[MEASURE_MAX_VARIANTS + 1];
    struct subject subjects[MEASURE_MAX_VARIANTS + 1];

    for (int i = 0; i < n; i++) {
        const struct variant *variant = i < m->nvariants ? m->variants[i] : NULL;

        trials[i] = make_trial(m, variant, nbytes);
        subjects[i] = (struct subject){.kind = &trial_kind,
                                       .what = &trials[i],
                                       .nops = m->nops,
                                       .wrong = o->check && variant ? 0 : -1};
    }
    symm_status st = subjects_measure(m->s, subjects, n, sums_seed(m->s->seed, use));
    for (int i = 0; i < m->nvariants && st == SYMM_OK; i++)
        rows[i] = make_row(m, &subjects[i], has_base ? &subjects[n - 1] : NULL);
    return st;
}
