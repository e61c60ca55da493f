/* The reference of the norms of rows, a row at a time. */
#include "norms.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "parallel.h"

/* One part of the rows, for one thread. */
struct part {
    const struct element *e;
    const char *out, *residual_out;
    const struct norms_asked *asked;
    struct norms_verdict verdict;
};

/* Buffers for a row. */
struct row {
    char *elements;
    union element_number *numbers, *weight;
    double *sum; /* each rounded to the type */
};

static bool row_create(struct row *r, const struct element *e, size_t hidden)
{
    r->elements = malloc(hidden * e->nbytes);
    r->numbers = malloc(hidden * sizeof *r->numbers);
    r->weight = malloc(hidden * sizeof *r->weight);
    r->sum = malloc(hidden * sizeof *r->sum);
    return r->elements && r->numbers && r->weight && r->sum;
}

static void row_destroy(struct row *r)
{
    free(r->elements);
    free(r->numbers);
    free(r->weight);
    free(r->sum);
}

/* x, which has been added in fp32, rounded to the type. */
static double rounded(const struct element *e, float x)
{
    char element[8];
    union element_number y;

    element_narrow(e, &(union element_number){.real = (double)x}, element, 1);
    element_widen(e, element, &y, 1);
    return y.real;
}

static void add_ranks(struct row *r, const struct part *p, size_t at)
{
    const struct norms_asked *q = p->asked;
    const sums_source source = q->source ? q->source : sums_inputs;

    for (int rank = 0; rank < q->nranks; rank++) {
        source(p->e, q->seed, rank, at, q->hidden, r->elements);
        element_widen(p->e, r->elements, r->numbers, q->hidden);
        for (size_t i = 0; i < q->hidden; i++)
            r->sum[i] =
                rank ? (double)((float)r->sum[i] + (float)r->numbers[i].real) : r->numbers[i].real;
    }
    for (size_t i = 0; i < q->hidden; i++)
        r->sum[i] = rounded(p->e, (float)r->sum[i]);
}

static void add_residual(struct row *r, const struct part *p, size_t at)
{
    const struct norms_asked *q = p->asked;

    if (!q->residual)
        return;
    element_widen(p->e, (const char *)q->residual + at * p->e->nbytes, r->numbers, q->hidden);
    for (size_t i = 0; i < q->hidden; i++)
        r->sum[i] = rounded(p->e, (float)r->sum[i] + (float)r->numbers[i].real);
}

/* Notes element i, and what it should be, if it is the first wrong one. */
static void note(struct part *p, const char *got, size_t i, double expected)
{
    struct norms_verdict *v = &p->verdict;
    char element[8];

    if (v->wrong_residuals + v->wrong_norms > 0)
        return;
    v->first = i;
    element_narrow(p->e, &(union element_number){.real = expected}, element, 1);
    element_print(p->e, element, v->expected);
    element_print(p->e, got, v->got);
}

static void check_residuals(struct row *r, struct part *p, size_t at)
{
    const char *got = p->residual_out + at * p->e->nbytes;

    for (size_t i = 0; i < p->asked->hidden; i++, got += p->e->nbytes) {
        char element[8];
        union element_number x;

        element_narrow(p->e, &(union element_number){.real = r->sum[i]}, element, 1);
        element_widen(p->e, got, &x, 1);
        if (memcmp(element, got, p->e->nbytes) == 0 || (isnan(r->sum[i]) && isnan(x.real)))
            continue;
        note(p, got, at + i, r->sum[i]);
        p->verdict.wrong_residuals++;
    }
}

static void check_norms(struct row *r, struct part *p, size_t at)
{
    const struct norms_asked *q = p->asked;
    const double hidden = (double)q->hidden, error = q->relative_error > 0
                                                         ? q->relative_error
                                                         : (12 + hidden / 16384) * 0x1p-23;
    const char *got = p->out + at * p->e->nbytes;
    double squares = 0;

    for (size_t i = 0; i < q->hidden; i++)
        squares += r->sum[i] * r->sum[i];
    const double scale = 1 / sqrt(squares / hidden + q->eps);
    element_widen(p->e, got, r->numbers, q->hidden);
    for (size_t i = 0; i < q->hidden; i++) {
        const double expected = r->sum[i] * scale * (q->weight ? r->weight[i].real : 1);

        if (isnan(expected)
                ? isnan(r->numbers[i].real)
                : element_is_near(p->e, r->numbers[i].real, expected, fabs(expected) * error))
            continue;
        note(p, got + i * p->e->nbytes, at + i, expected);
        p->verdict.wrong_norms++;
    }
}

static void check_rows(void *argument, int index, size_t begin, size_t end)
{
    struct part *p = (struct part *)argument + index;
    const struct norms_asked *q = p->asked;
    struct row r = {0};

    if (!row_create(&r, p->e, q->hidden)) {
        p->verdict.wrong_norms = (end - begin) * q->hidden; /* nothing is known to be right */
        end = begin;
    } else if (q->weight) {
        element_widen(p->e, q->weight, r.weight, q->hidden);
    }
    for (size_t row = begin; row < end; row++) {
        const size_t at = row * q->hidden;

        add_ranks(&r, p, at);
        add_residual(&r, p, at);
        check_residuals(&r, p, at);
        check_norms(&r, p, at);
    }
    row_destroy(&r);
}

void norms_check(const struct element *e, const void *out, const void *residual_out,
                 const struct norms_asked *asked, struct norms_verdict *verdict)
{
    struct part parts[PARALLEL_MAX];

    for (int i = 0; i < PARALLEL_MAX; i++)
        parts[i] = (struct part){.e = e, .out = out, .residual_out = residual_out, .asked = asked};
    const int nparts = parallel_run(asked->rows, 1, check_rows, parts);
    *verdict = (struct norms_verdict){0};
    for (int i = 0; i < nparts; i++) {
        struct norms_verdict *part = &parts[i].verdict;

        part->wrong_residuals += verdict->wrong_residuals;
        part->wrong_norms += verdict->wrong_norms;
        if (verdict->wrong_residuals + verdict->wrong_norms == 0) {
            *verdict = *part;
        } else {
            verdict->wrong_residuals = part->wrong_residuals;
            verdict->wrong_norms = part->wrong_norms;
        }
    }
}
