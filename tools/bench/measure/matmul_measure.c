/* Measures all variants of a product at one shape, on the same data. */
#include "matmul_measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "oracle/products.h"
#include "oracle/sums.h"
#include "subject.h"
#include "timeline.h"

enum { POISON = 0xff /* a NaN in every floating type */ };

/*
 * Products that need less than this at full speed of a large GPU are short: as many calls make a
 * repetition as of a collective, since the first one waits for the graph and for the other ranks.
 */
static const double short_us = 20, operations_per_us = 700e6, bytes_per_us = 4e6;

/* No process has this memory; larger sizes could wrap. */
static const double too_many_bytes = 0x1p47;

/* A variant at this shape. */
struct entry {
    struct round *round;
    struct product_call call;
    const struct products *expected;
};

/* Everything of one shape. */
struct round {
    struct matmul_measure *m;
    const struct cublas_shape *shape;
    int rank, nranks;          /* of the product */
    struct product_buffers on; /* the device */
    struct products data;      /* on the host, with what d should be, */
    struct products part; /* and what this rank's product should be, if results are collected */
    bool has_data;        /* by this seed: */
    uint64_t seed;
    char *got;          /* a result on the host */
    char *kept;         /* another one to compare its bits with, */
    const char *keeper; /* the name of its variant; NULL: none yet */
    struct entry entries[MATMUL_MAX_VARIANTS];
    struct subject subjects[MATMUL_MAX_VARIANTS];
    int n;
};

/* ----------------------------------------------------------------------------------- the memory */

static symm_matmul_kind kind_of(const struct round *r)
{
    return r->m->s->options->kind;
}

/* a, b, c and twice the result. */
static double host_nbytes(const struct round *r)
{
    const double m = r->shape->m, n = r->shape->n, k = r->shape->k, l = r->shape->l,
                 ds = r->data.beta != 0 ? 3 : 2;

    return (m * k + k * n + ds * m * n) * l * (double)r->data.element->nbytes;
}

/* Bytes of the result of a call. */
static size_t result_nbytes(const struct products *expected)
{
    return products_d_count(expected) * expected->element->nbytes;
}

/* Of the larger result; at least one. */
static size_t most_nbytes(const struct round *r)
{
    const size_t d = result_nbytes(&r->data),
                 part = kind_collects(kind_of(r)) ? result_nbytes(&r->part) : 1;

    return d > part ? d : part;
}

/* Of this many products of k terms. */
static double eps_of(const struct round *r, int products)
{
    const double eps = r->m->s->options->eps;

    return eps > 0 ? eps : products_eps((int64_t)products * r->shape->k);
}

/* What this rank's product alone should be. */
static bool describe_part(struct round *r)
{
    const struct products *p = &r->data;

    if (!kind_collects(p->kind))
        return true;
    r->part = (struct products){.kind = SYMM_MATMUL,
                                .nranks = p->nranks,
                                .rank = p->rank,
                                .process = p->process,
                                .element = p->element,
                                .m = p->m,
                                .n = p->own.columns,
                                .k = p->k,
                                .l = p->l,
                                .b_by_columns = p->b_by_columns,
                                .d_by_columns = p->d_by_columns,
                                .alpha = p->alpha,
                                .beta = kind_sums(p->kind) ? 0 : p->beta,
                                .eps = eps_of(r, 1),
                                .reference_only = true};
    return products_create(&r->part);
}

static bool have_host(struct round *r)
{
    if (host_nbytes(r) >= too_many_bytes || !products_create(&r->data) || !describe_part(r))
        return false;
    r->got = malloc(most_nbytes(r));
    r->kept = malloc(most_nbytes(r));
    return r->got && r->kept;
}

static symm_status allocate_host(struct round *r)
{
    const struct bench_options *o = r->m->s->options;
    const struct cublas_shape *s = r->shape;

    r->data = (struct products){.kind = o->kind,
                                .nranks = r->nranks,
                                .rank = r->rank,
                                .process = o->as_if ? 1 + r->m->s->rank : 0,
                                .element = o->element,
                                .partial = o->partial,
                                .m = s->m,
                                .n = s->n,
                                .k = s->k,
                                .l = s->l,
                                .b_by_columns = s->b_by_columns,
                                .d_by_columns = s->d_by_columns,
                                .alpha = (double)s->alpha,
                                .beta = (double)s->beta,
                                .eps = eps_of(r, kind_sums(o->kind) ? r->nranks : 1)};
    if (have_host(r))
        return SYMM_OK;
    snprintf(r->m->s->trouble, sizeof r->m->s->trouble,
             "m %d, n %d, k %d, l %d: no host memory for %.3g bytes", s->m, s->n, s->k, s->l,
             host_nbytes(r));
    return SYMM_ERROR_MEMORY;
}

/* What a rank sends. No partial sum is smaller than an element. */
static symm_status allocate_symmetric(struct round *r)
{
    struct session *s = r->m->s;
    const size_t nbytes = s->options->partial->nbytes;
    symm_status st;

    TRY(symm_alloc(s->group, product_part_count(kind_of(r), r->shape, r->nranks) * nbytes,
                   &r->on.part));
    TRY(symm_alloc(s->group, product_gathered_count(kind_of(r), r->shape, r->nranks) * nbytes,
                   &r->on.gathered));
out:
    return st;
}

/* d is symmetric if results are collected, with the size of rank 0's, the largest. */
static symm_status allocate_d(struct round *r)
{
    struct session *s = r->m->s;
    const struct extents largest = extents_of(kind_of(r), r->shape->m, r->shape->n, r->nranks, 0);

    if (!kind_collects(kind_of(r)))
        return symm_device_alloc(s->ctx, result_nbytes(&r->data), &r->on.d);
    return symm_alloc(s->group,
                      (size_t)r->shape->l * (size_t)largest.rows * (size_t)r->shape->n *
                          r->data.element->nbytes,
                      &r->on.d);
}

static symm_status allocate_device(struct round *r)
{
    struct session *s = r->m->s;
    const size_t nbytes = s->options->element->nbytes, c = products_c_count(&r->data) * nbytes;
    symm_status st;

    TRY(symm_device_alloc(s->ctx, products_a_count(&r->data) * nbytes, &r->on.a));
    TRY(symm_device_alloc(s->ctx, products_b_count(&r->data) * nbytes, &r->on.b));
    if (r->data.c)
        TRY(symm_device_alloc(s->ctx, c > 0 ? c : 1, &r->on.c));
    TRY(allocate_d(r));
    if (kind_of(r) != SYMM_MATMUL)
        TRY(allocate_symmetric(r));
out:
    return st;
}

/* After a failure the symmetric memory goes with the context. */
static symm_status release(struct round *r, symm_status st)
{
    struct session *s = r->m->s;
    const bool collects = kind_collects(kind_of(r));
    void *const device[] = {r->on.a, r->on.b, r->on.c, collects ? NULL : r->on.d},
                *const symmetric[] = {r->on.part, r->on.gathered, collects ? r->on.d : NULL};

    for (int i = 0; i < r->n; i++)
        product_release(&r->entries[i].call);
    for (size_t i = 0; i < sizeof device / sizeof device[0]; i++) {
        if (device[i])
            symm_device_free(s->ctx, device[i]);
    }
    for (size_t i = 0; i < sizeof symmetric / sizeof symmetric[0] && st == SYMM_OK; i++) {
        if (symmetric[i])
            st = symm_free(s->group, symmetric[i]);
    }
    products_destroy(&r->data);
    products_destroy(&r->part);
    free(r->got);
    free(r->kept);
    return st;
}

/* ------------------------------------------------------------------------------------- the data */

/* Copies this rank's rows of each matrix A. */
static symm_status offer_part(const struct round *r)
{
    const struct session *s = r->m->s;
    const int first = share_begin(r->shape->m, r->nranks, r->rank);
    const size_t row = (size_t)r->shape->k * s->options->element->nbytes,
                 nbytes = (size_t)share_of(r->shape->m, r->nranks, r->rank) * row;
    symm_status st = SYMM_OK;

    for (size_t l = 0; l < (size_t)r->shape->l && nbytes > 0 && st == SYMM_OK; l++)
        st = symm_copy((char *)r->on.part + l * nbytes,
                       r->data.a + (l * (size_t)r->shape->m + (size_t)first) * row, nbytes,
                       s->stream);
    return st;
}

/* Computes what the results should be. */
static bool refer(struct round *r, uint64_t seed)
{
    const uint64_t choice = sums_seed(seed, 0);

    return products_refer(&r->data, seed, choice) &&
           (!kind_collects(kind_of(r)) || products_refer(&r->part, seed, choice));
}

/* Makes the data of a seed, and with --check their products. */
static symm_status make_data(struct round *r, uint64_t seed)
{
    struct session *s = r->m->s;
    const size_t nbytes = s->options->element->nbytes;
    symm_status st;

    products_fill(&r->data, seed);
    r->has_data = true;
    r->seed = seed;
    r->keeper = NULL;
    if (s->options->check && !refer(r, seed))
        return SYMM_ERROR_MEMORY;
    TRY(symm_copy(r->on.a, r->data.a, products_a_count(&r->data) * nbytes, s->stream));
    TRY(symm_copy(r->on.b, r->data.b, products_b_count(&r->data) * nbytes, s->stream));
    if (r->on.c && products_c_count(&r->data) > 0)
        TRY(symm_copy(r->on.c, r->data.c, products_c_count(&r->data) * nbytes, s->stream));
    if (kind_of(r) == SYMM_ALL_GATHER_MATMUL)
        TRY(offer_part(r));
    TRY(symm_synchronize(s->group, s->stream));
out:
    return st;
}

/* ------------------------------------------------------------------------------------ one entry */

static symm_status enqueue(const void *what, int nops)
{
    const struct entry *e = what;
    symm_status st = SYMM_OK;

    for (int i = 0; i < nops && st == SYMM_OK; i++)
        st = product_enqueue(&e->call);
    return st;
}

/* Where the result of a call is. */
static void *result_of(const struct entry *e)
{
    return e->expected == &e->round->part ? e->round->on.part : e->round->on.d;
}

static symm_status poison(const struct entry *e)
{
    const size_t nbytes = result_nbytes(e->expected);

    return nbytes > 0 ? symm_fill(result_of(e), POISON, nbytes, e->round->m->s->stream) : SYMM_OK;
}

/* All variants get the same data. */
static symm_status offer(void *what, uint64_t seed)
{
    struct round *r = ((struct entry *)what)->round;
    symm_status st = SYMM_OK;

    if (!r->has_data || r->seed != seed)
        TRY(make_data(r, seed));
    TRY(poison(what));
out:
    return st;
}

static void complain(const struct round *r, const struct entry *e, const struct products_verdict *v)
{
    fprintf(stderr,
            "# rank %d: %s, %d x %d x %d: element [%d, %d, %d] is %s and should be %s: %.3g off, "
            "and no more than %.3g is right\n",
            r->m->s->rank, e->call.variant->name, r->shape->m, r->shape->n, r->shape->k, v->l,
            v->row, v->column, v->got, v->expected, v->off, v->bound);
}

static bool is_symms(const struct entry *e)
{
    return e->call.variant->kind == PRODUCT_ALONE || e->call.variant->kind == PRODUCT_TOGETHER;
}

static symm_status fetch(struct round *r, const struct entry *e)
{
    const struct session *s = r->m->s;
    const size_t nbytes = result_nbytes(e->expected);
    symm_status st = SYMM_OK;

    if (nbytes > 0)
        TRY(symm_copy(r->got, result_of(e), nbytes, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
out:
    return st;
}

/* Keeps the result as that of its strategy. */
static void keep(struct round *r, const struct entry *e)
{
    memcpy(r->kept, r->got, result_nbytes(e->expected));
    r->keeper = e->call.variant->name;
}

/* Counts the elements whose bits are not those of the kept result. */
static uint64_t differing(const struct round *r, const struct entry *e)
{
    const size_t nbytes = r->data.element->nbytes, count = products_d_count(e->expected);
    uint64_t n = 0;

    if (memcmp(r->kept, r->got, count * nbytes) == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        n += memcmp(r->kept + i * nbytes, r->got + i * nbytes, nbytes) != 0;
    fprintf(stderr,
            "# rank %d: %s, %d x %d x %d: elements with other bits than those of %s: %" PRIu64 "\n",
            r->m->s->rank, e->call.variant->name, r->shape->m, r->shape->n, r->shape->k, r->keeper,
            n);
    return n;
}

/*
 * Counts the elements with wrong bits of symm's product in `got`. By default, compares with another
 * run of the product. --same-bits: with symm's first product of the same result. --any-order:
 * compares nothing.
 */
static symm_status compare_bits(struct round *r, const struct entry *e, uint64_t *out)
{
    const bool again = !e->call.same_bits || product_is_part(&e->call);
    symm_status st = SYMM_OK;

    *out = 0;
    if (e->call.any_order)
        return SYMM_OK;
    if (again || !r->keeper)
        keep(r, e);
    if (again) {
        TRY(poison(e));
        TRY(product_enqueue(&e->call));
        TRY(fetch(r, e));
    }
    *out = differing(r, e);
    if (again)
        r->keeper = NULL;
out:
    return st;
}

/* Whether a kernel can compare all of it: it has the data of this rank only. */
static bool is_own(const struct products *expected)
{
    return !kind_collects(expected->kind);
}

/* Counts all wrong elements on the device, if the host compares a part of them only. */
static symm_status check_whole(const struct round *r, const struct entry *e,
                               const struct products_verdict *sample, uint64_t *wrong)
{
    struct product_buffers on = r->on;
    symm_status st = SYMM_OK;

    *wrong = 0;
    if (e->expected->step == 1 || !is_own(e->expected))
        return SYMM_OK;
    on.c = e->expected->beta != 0 ? on.c : NULL;
    on.d = result_of(e);
    TRY(whole_check_count(r->m->s, &r->m->whole, e->expected, &on, wrong));
    if (*wrong > 0 && sample->wrong == 0)
        fprintf(stderr, "# rank %d: %s, %d x %d x %d: wrong elements: %" PRIu64 "\n", r->m->s->rank,
                e->call.variant->name, r->shape->m, r->shape->n, r->shape->k, *wrong);
out:
    return st;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* How often a partial sum may be rounded: NCCL rounds each of its additions. */
static int roundings(const struct entry *e)
{
    return e->call.variant->kind == PRODUCT_CUBLAS_NCCL ? e->round->nranks : 1;
}

static symm_status judge(void *what, int nops, uint64_t *wrong)
{
    const struct entry *e = what;
    struct round *r = e->round;
    struct products_verdict verdict;
    uint64_t whole, others = 0;
    symm_status st;

    (void)nops; /* each call has the same result */
    TRY(fetch(r, e));
    products_check(e->expected, r->got, roundings(e), &verdict);
    if (verdict.wrong > 0)
        complain(r, e, &verdict);
    TRY(check_whole(r, e, &verdict, &whole));
    if (is_symms(e))
        TRY(compare_bits(r, e, &others));
    *wrong = larger(larger(verdict.wrong, whole), others);
out:
    return st;
}

static const struct subject_kind entry_kind = {enqueue, NULL, offer, judge};

/* ---------------------------------------------------------------------------------- all of them */

/* Operations of one rank; of an all-scatter by its mean number of columns. */
static double operations_of(const struct round *r)
{
    const struct cublas_shape *s = r->shape;
    const double parts = kind_of(r) == SYMM_MATMUL_ALL_SCATTER ? r->nranks : 1;

    return 2.0 * s->m * s->n * s->k * s->l / parts;
}

/* The calls of a repetition. */
static int ncalls(const struct round *r)
{
    const struct cublas_shape *s = r->shape;
    const double b_nbytes = (double)s->n * s->k * s->l * (double)r->data.element->nbytes;

    return fmax(operations_of(r) / operations_per_us, b_nbytes / bytes_per_us) < short_us
               ? r->m->short_nops
               : r->m->nops;
}

static bool is_checked(const struct entry *e)
{
    return e->round->m->s->options->check && e->call.variant->kind != PRODUCT_COMMUNICATION &&
           !product_is_apart(&e->call);
}

static symm_status enter(struct round *r, const struct product_variant *const *variants)
{
    const struct session *s = r->m->s;
    symm_status st = SYMM_OK;

    for (int i = 0; i < r->n; i++) {
        struct entry *e = &r->entries[i];

        e->round = r;
        e->call = (struct product_call){.group = s->group,
                                        .nccl = r->m->nccl,
                                        .cublas = r->m->cublas,
                                        .rank = r->rank,
                                        .nranks = r->nranks,
                                        .variant = variants[i],
                                        .kind = kind_of(r),
                                        .shape = *r->shape,
                                        .partial = s->options->partial->dtype,
                                        .buffers = r->on,
                                        .same_bits = s->options->same_bits,
                                        .any_order = s->options->any_order,
                                        .constant_b = s->options->constant_b,
                                        .stream = s->stream};
        e->expected = product_is_part(&e->call) ? &r->part : &r->data;
        r->subjects[i] = (struct subject){
            .kind = &entry_kind, .what = e, .nops = ncalls(r), .wrong = is_checked(e) ? 0 : -1};
        TRY(product_prepare(&e->call));
    }
out:
    return st;
}

/* The time of the variant of this kind; NAN: not measured. */
static double time_of(const struct round *r, const struct matmul_row *rows, enum product_kind kind)
{
    for (int i = 0; i < r->n; i++) {
        if (r->entries[i].call.variant->kind == kind)
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
static void compare(const struct round *r, struct matmul_row *rows)
{
    const enum product_kind rival =
        kind_of(r) == SYMM_MATMUL ? PRODUCT_CUBLAS : PRODUCT_CUBLAS_NCCL;
    const double alone = time_of(r, rows, PRODUCT_ALONE), cublas = time_of(r, rows, PRODUCT_CUBLAS),
                 communication = time_of(r, rows, PRODUCT_COMMUNICATION),
                 peer = time_of(r, rows, rival);

    for (int i = 0; i < r->n; i++) {
        const enum product_kind kind = r->entries[i].call.variant->kind;
        const bool multiplies = kind != PRODUCT_COMMUNICATION;
        const double time = rows[i].time_us;

        rows[i].product_us = product_us(kind, alone, cublas);
        rows[i].exposed_us = time - rows[i].product_us;
        rows[i].tflops = multiplies ? operations_of(r) / time / 1e6 : NAN;
        rows[i].speedup = multiplies ? peer / time : NAN;
        rows[i].hidden =
            kind == PRODUCT_TOGETHER ? (alone + communication - time) / communication : NAN;
    }
}

/* With --trace, a timeline of symm's first product of the command's kind. */
static symm_status make_timeline(const struct round *r)
{
    struct session *s = r->m->s;
    const enum product_kind kind =
        s->options->command == BENCH_MATMUL ? PRODUCT_ALONE : PRODUCT_TOGETHER;

    for (int i = 0; s->options->trace && i < r->n; i++)
        if (r->entries[i].call.variant->kind == kind)
            return timeline_make(s, &r->entries[i].call, s->options->trace);
    return SYMM_OK;
}

symm_status matmul_measure_shape(struct matmul_measure *m, const struct cublas_shape *shape,
                                 const struct product_variant *const *variants, int nvariants,
                                 uint64_t use, struct matmul_row *rows,
                                 struct matmul_sample *sample)
{
    const int as_if = m->s->options->as_if;
    struct round r = {.m = m,
                      .shape = shape,
                      .rank = as_if ? 0 : m->s->rank,
                      .nranks = as_if ? as_if : m->s->nranks,
                      .n = nvariants};
    const uint64_t seed = sums_seed(m->s->seed, use);
    symm_status st;

    TRY(allocate_host(&r));
    TRY(allocate_device(&r));
    TRY(enter(&r, variants));
    TRY(make_data(&r, seed));
    for (int i = 0; i < r.n; i++)
        TRY(product_tune(&r.entries[i].call));
    TRY(subjects_measure(m->s, r.subjects, r.n, seed));
    for (int i = 0; i < r.n; i++)
        rows[i] = (struct matmul_row){.strategy = product_strategy(&r.entries[i].call),
                                      .time_us = (double)r.subjects[i].median,
                                      .p95_us = (double)r.subjects[i].p95,
                                      .wrong = r.subjects[i].wrong};
    compare(&r, rows);
    TRY(make_timeline(&r));
    *sample = (struct matmul_sample){.step = r.data.step,
                                     .whole = is_own(&r.data),
                                     .eps = r.data.eps,
                                     .compared = products_compared(&r.data),
                                     .all = products_d_count(&r.data)};
out:
    return release(&r, st);
}
