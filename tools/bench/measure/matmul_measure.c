/* Measures all variants of a product at one shape, on the same data. */
#include "matmul_measure.h"

#include <math.h>
#include "matmul_entry.h"
#include "oracle/sums.h"
#include "timeline.h"

/*
 * Products that need less than this at full speed of a large GPU are short: as many calls make a
 * repetition as of a collective, since the first one waits for the graph and for the other ranks.
 */
static const double short_us = 20, operations_per_us = 700e6, bytes_per_us = 4e6;

/* Everything of one shape. */
struct comparison {
    struct matmul_measure *m;
    struct matmul_round round;
    struct matmul_entry entries[MATMUL_MAX_VARIANTS];
    struct subject subjects[MATMUL_MAX_VARIANTS];
    int n;
};

static symm_matmul_kind kind_of(const struct comparison *c)
{
    return c->m->s->options->kind;
}

/* Operations of one rank; of an all-scatter by its mean number of columns. */
static double operations_of(const struct comparison *c)
{
    const struct cublas_shape *s = c->round.shape;
    const double parts = kind_of(c) == SYMM_MATMUL_ALL_SCATTER ? c->round.nranks : 1;

    return 2.0 * s->m * s->n * s->k * s->l / parts;
}

/* The calls of a repetition. */
static int ncalls(const struct comparison *c)
{
    const struct cublas_shape *s = c->round.shape;
    const double b_nbytes = (double)s->n * s->k * s->l * (double)c->round.data.element->nbytes;

    return fmax(operations_of(c) / operations_per_us, b_nbytes / bytes_per_us) < short_us
               ? c->m->short_nops
               : c->m->nops;
}

static bool is_checked(const struct matmul_entry *e)
{
    return e->round->s->options->check && e->call.variant->kind != PRODUCT_COMMUNICATION &&
           !product_is_apart(&e->call);
}

static symm_status enter(struct comparison *c, const struct product_variant *const *variants)
{
    const struct session *s = c->m->s;
    struct matmul_round *r = &c->round;
    symm_status st = SYMM_OK;

    for (int i = 0; i < c->n; i++) {
        struct matmul_entry *e = &c->entries[i];

        e->round = r;
        e->whole = &c->m->whole;
        e->call = (struct product_call){.group = s->group,
                                        .nccl = c->m->peers.nccl,
                                        .cublas = c->m->peers.cublas,
                                        .rank = r->rank,
                                        .nranks = r->nranks,
                                        .variant = variants[i],
                                        .kind = kind_of(c),
                                        .shape = *r->shape,
                                        .partial = s->options->partial->dtype,
                                        .buffers = r->on,
                                        .same_bits = s->options->same_bits,
                                        .any_order = s->options->any_order,
                                        .constant_b = s->options->constant_b,
                                        .stream = s->stream};
        e->expected = product_is_part(&e->call) ? &r->part : &r->data;
        c->subjects[i] = (struct subject){.kind = &matmul_entry_kind,
                                          .what = e,
                                          .nops = ncalls(c),
                                          .wrong = is_checked(e) ? 0 : -1};
        TRY(product_prepare(&e->call));
    }
out:
    return st;
}

/* The time of the variant of this kind; NAN: not measured. */
static double time_of(const struct comparison *c, const struct matmul_row *rows,
                      enum product_kind kind)
{
    for (int i = 0; i < c->n; i++) {
        if (c->entries[i].call.variant->kind == kind)
            return rows[i].time_us;
    }
    return NAN;
}

/* The time of the product that an entry has besides its communication; NAN: it has not both. */
static double product_us(enum product_kind kind, double alone, double cublas)
{
    switch (kind) {
    case PRODUCT_TOGETHER:
        return alone;
    case PRODUCT_CUBLAS_SYMM:
    case PRODUCT_CUBLAS_NCCL:
        return cublas;
    default:
        return NAN;
    }
}

/* Columns that follow from the times. */
static void compare(const struct comparison *c, struct matmul_row *rows)
{
    const enum product_kind rival =
        kind_of(c) == SYMM_MATMUL ? PRODUCT_CUBLAS : PRODUCT_CUBLAS_NCCL;
    const double alone = time_of(c, rows, PRODUCT_ALONE), cublas = time_of(c, rows, PRODUCT_CUBLAS),
                 communication = time_of(c, rows, PRODUCT_COMMUNICATION),
                 peer = time_of(c, rows, rival);

    for (int i = 0; i < c->n; i++) {
        const enum product_kind kind = c->entries[i].call.variant->kind;
        const bool multiplies = kind != PRODUCT_COMMUNICATION;
        const double time = rows[i].time_us;

        rows[i].product_us = product_us(kind, alone, cublas);
        rows[i].exposed_us = time - rows[i].product_us;
        rows[i].tflops = multiplies ? operations_of(c) / time / 1e6 : NAN;
        rows[i].speedup = multiplies ? peer / time : NAN;
        rows[i].hidden =
            kind == PRODUCT_TOGETHER ? (alone + communication - time) / communication : NAN;
    }
}

/* With --trace, a timeline of symm's first product of the command's kind. */
static symm_status make_timeline(const struct comparison *c)
{
    struct session *s = c->m->s;
    const enum product_kind kind =
        s->options->command == BENCH_MATMUL ? PRODUCT_ALONE : PRODUCT_TOGETHER;

    for (int i = 0; s->options->trace && i < c->n; i++)
        if (c->entries[i].call.variant->kind == kind)
            return timeline_make(s, &c->entries[i].call, s->options->trace);
    return SYMM_OK;
}

/* Measures the variants that have entered. */
static symm_status measure(struct comparison *c, uint64_t seed, struct matmul_row *rows)
{
    symm_status st;

    TRY(matmul_round_offer(&c->round, seed));
    for (int i = 0; i < c->n; i++)
        TRY(product_tune(&c->entries[i].call));
    TRY(subjects_measure(c->m->s, c->subjects, c->n, seed));
    for (int i = 0; i < c->n; i++)
        rows[i] = (struct matmul_row){.strategy = product_strategy(&c->entries[i].call),
                                      .time_us = (double)c->subjects[i].median,
                                      .p95_us = (double)c->subjects[i].p95,
                                      .wrong = c->subjects[i].wrong};
    compare(c, rows);
    TRY(make_timeline(c));
out:
    return st;
}

symm_status matmul_measure_shape(struct matmul_measure *m, const struct cublas_shape *shape,
                                 const struct product_variant *const *variants, int nvariants,
                                 uint64_t use, struct matmul_row *rows,
                                 struct matmul_sample *sample)
{
    struct session *s = m->s;
    struct comparison c = {.m = m,
                           .round = {.s = s,
                                     .shape = shape,
                                     .rank = s->options->as_if ? 0 : s->rank,
                                     .nranks = matmul_nranks(s)},
                           .n = nvariants};
    const struct products *data = &c.round.data;
    symm_status st;

    TRY(matmul_round_open(&c.round));
    TRY(enter(&c, variants));
    TRY(measure(&c, sums_seed(s->seed, use), rows));
    *sample = (struct matmul_sample){.step = data->step,
                                     .whole = matmul_is_own(data),
                                     .eps = data->eps,
                                     .compared = products_compared(data),
                                     .all = products_d_count(data)};
out:
    for (int i = 0; i < c.n; i++)
        product_release(&c.entries[i].call);
    return matmul_round_close(&c.round, st);
}
