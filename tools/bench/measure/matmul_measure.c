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

/* No process has this memory; larger sizes could wrap. */
static const double too_many_bytes = 0x1p47;

/* A variant at this shape. */
struct entry {
    struct round *round;
    struct product_call call;
};

/* Everything of one shape. */
struct round {
    struct matmul_measure *m;
    const struct cublas_shape *shape;
    struct product_buffers on; /* the device */
    struct products data;      /* on the host, with what d should be */
    bool has_data;             /* by this seed: */
    uint64_t seed;
    char *got;          /* d on the host */
    char *kept;         /* another d to compare its bits with, */
    const char *keeper; /* the name of its variant; NULL: none yet */
    struct entry entries[MATMUL_MAX_VARIANTS];
    struct subject subjects[MATMUL_MAX_VARIANTS];
    int n;
};

/* ----------------------------------------------------------------------------------- the memory */

/* a, b, c and twice d. */
static double host_nbytes(const struct round *r)
{
    const double m = r->shape->m, n = r->shape->n, k = r->shape->k, l = r->shape->l,
                 ds = r->data.beta != 0 ? 3 : 2;

    return (m * k + k * n + ds * m * n) * l * (double)r->data.element->nbytes;
}

static bool have_host(struct round *r)
{
    if (host_nbytes(r) >= too_many_bytes)
        return false;
    r->got = malloc(products_d_count(&r->data) * r->data.element->nbytes);
    r->kept = malloc(products_d_count(&r->data) * r->data.element->nbytes);
    return products_create(&r->data) && r->got && r->kept;
}

static symm_status allocate_host(struct round *r)
{
    const struct bench_options *o = r->m->s->options;
    const struct cublas_shape *s = r->shape;

    r->data = (struct products){.element = o->element,
                                .m = s->m,
                                .n = s->n,
                                .k = s->k,
                                .l = s->l,
                                .alpha = (double)s->alpha,
                                .beta = (double)s->beta,
                                .eps = o->eps > 0 ? o->eps : products_eps(s->k)};
    if (have_host(r))
        return SYMM_OK;
    snprintf(r->m->s->trouble, sizeof r->m->s->trouble,
             "m %d, n %d, k %d, l %d: no host memory for %.3g bytes", s->m, s->n, s->k, s->l,
             host_nbytes(r));
    return SYMM_ERROR_MEMORY;
}

/* Elements of this rank's part of A, or of the largest part. */
static size_t part_count(const struct round *r, int rank)
{
    return (size_t)product_rows(r->shape->m, r->m->s->nranks, rank) * (size_t)r->shape->k *
           (size_t)r->shape->l;
}

static symm_status allocate_device(struct round *r)
{
    struct session *s = r->m->s;
    const size_t nbytes = s->options->element->nbytes, part = part_count(r, 0) * nbytes,
                 d = products_d_count(&r->data) * nbytes;
    symm_status st;

    TRY(symm_device_alloc(s->ctx, products_a_count(&r->data) * nbytes, &r->on.a));
    TRY(symm_device_alloc(s->ctx, products_b_count(&r->data) * nbytes, &r->on.b));
    TRY(symm_device_alloc(s->ctx, d, &r->on.d));
    if (r->data.c)
        TRY(symm_device_alloc(s->ctx, d, &r->on.c));
    if (s->options->command == BENCH_ALL_GATHER_MATMUL) {
        TRY(symm_alloc(s->group, part, &r->on.part));
        TRY(symm_alloc(s->group, part * (size_t)s->nranks, &r->on.gathered));
    }
out:
    return st;
}

/* After a failure the symmetric memory goes with the context. */
static symm_status release(struct round *r, symm_status st)
{
    struct session *s = r->m->s;
    void *const device[] = {r->on.a, r->on.b, r->on.c, r->on.d};

    for (int i = 0; i < r->n; i++)
        product_release(&r->entries[i].call);
    for (size_t i = 0; i < sizeof device / sizeof device[0]; i++) {
        if (device[i])
            symm_device_free(s->ctx, device[i]);
    }
    if (st == SYMM_OK && r->on.part)
        st = symm_free(s->group, r->on.part);
    if (st == SYMM_OK && r->on.gathered)
        st = symm_free(s->group, r->on.gathered);
    products_destroy(&r->data);
    free(r->got);
    free(r->kept);
    return st;
}

/* ------------------------------------------------------------------------------------- the data */

/* Copies this rank's rows of each matrix A. */
static symm_status offer_part(const struct round *r)
{
    const struct session *s = r->m->s;
    const int first = product_first_row(r->shape->m, s->nranks, s->rank);
    const size_t row = (size_t)r->shape->k * s->options->element->nbytes,
                 nbytes = (size_t)product_rows(r->shape->m, s->nranks, s->rank) * row;
    symm_status st = SYMM_OK;

    for (size_t l = 0; l < (size_t)r->shape->l && nbytes > 0 && st == SYMM_OK; l++)
        st = symm_copy((char *)r->on.part + l * nbytes,
                       r->data.a + (l * (size_t)r->shape->m + (size_t)first) * row, nbytes,
                       s->stream);
    return st;
}

/* Makes the data of a seed, and with --check their products. */
static symm_status make_data(struct round *r, uint64_t seed)
{
    struct session *s = r->m->s;
    const size_t nbytes = s->options->element->nbytes;
    symm_status st;

    products_fill(&r->data, seed, s->rank);
    r->has_data = true;
    r->seed = seed;
    r->keeper = NULL;
    if (s->options->check && !products_refer(&r->data, sums_seed(seed, 0)))
        return SYMM_ERROR_MEMORY;
    TRY(symm_copy(r->on.a, r->data.a, products_a_count(&r->data) * nbytes, s->stream));
    TRY(symm_copy(r->on.b, r->data.b, products_b_count(&r->data) * nbytes, s->stream));
    if (r->on.c)
        TRY(symm_copy(r->on.c, r->data.c, products_d_count(&r->data) * nbytes, s->stream));
    if (r->on.part)
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

/* All variants get the same data. */
static symm_status offer(void *what, uint64_t seed)
{
    struct round *r = ((struct entry *)what)->round;
    symm_status st = SYMM_OK;

    if (!r->has_data || r->seed != seed)
        TRY(make_data(r, seed));
    TRY(symm_fill(r->on.d, POISON, products_d_count(&r->data) * r->data.element->nbytes,
                  r->m->s->stream));
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
    return e->call.variant->kind == PRODUCT_ALONE || e->call.variant->kind == PRODUCT_GATHERED;
}

static size_t d_nbytes(const struct round *r)
{
    return products_d_count(&r->data) * r->data.element->nbytes;
}

static symm_status fetch(struct round *r)
{
    const struct session *s = r->m->s;
    symm_status st;

    TRY(symm_copy(r->got, r->on.d, d_nbytes(r), s->stream));
    st = symm_synchronize(s->group, s->stream);
out:
    return st;
}

/* Keeps the result as that of its strategy. */
static void keep(struct round *r, const struct entry *e)
{
    memcpy(r->kept, r->got, d_nbytes(r));
    r->keeper = e->call.variant->name;
}

/* Counts the elements whose bits are not those of the kept result. */
static uint64_t differing(const struct round *r, const struct entry *e)
{
    const size_t nbytes = r->data.element->nbytes, count = products_d_count(&r->data);
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
 * Counts the elements with wrong bits of symm's product in `got`. By default it has the same bits
 * when it runs again; with --same-bits, those of symm's first product.
 */
static symm_status compare_bits(struct round *r, const struct entry *e, uint64_t *out)
{
    symm_status st = SYMM_OK;

    if (!e->call.same_bits) {
        keep(r, e);
        TRY(symm_fill(r->on.d, POISON, d_nbytes(r), r->m->s->stream));
        TRY(product_enqueue(&e->call));
        TRY(fetch(r));
    } else if (!r->keeper) {
        keep(r, e);
    }
    *out = differing(r, e);
out:
    return st;
}

/* Counts all wrong elements on the device, if the host compares a part of them only. */
static symm_status check_whole(const struct round *r, const struct entry *e,
                               const struct products_verdict *sample, uint64_t *wrong)
{
    symm_status st = SYMM_OK;

    *wrong = 0;
    if (r->data.step == 1)
        return SYMM_OK;
    TRY(whole_check_count(r->m->s, &r->m->whole, &r->data, &r->on, wrong));
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

static symm_status judge(void *what, int nops, uint64_t *wrong)
{
    const struct entry *e = what;
    struct round *r = e->round;
    struct products_verdict verdict;
    uint64_t whole, others = 0;
    symm_status st;

    (void)nops; /* each call has the same result */
    TRY(fetch(r));
    products_check(&r->data, r->got, &verdict);
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

static symm_status enter(struct round *r, const struct product_variant *const *variants)
{
    const struct session *s = r->m->s;
    symm_status st = SYMM_OK;

    for (int i = 0; i < r->n; i++) {
        struct entry *e = &r->entries[i];
        const bool checked = s->options->check && variants[i]->kind != PRODUCT_GATHER;

        e->round = r;
        e->call = (struct product_call){.group = s->group,
                                        .nccl = r->m->nccl,
                                        .cublas = r->m->cublas,
                                        .variant = variants[i],
                                        .shape = *r->shape,
                                        .buffers = r->on,
                                        .same_bits = s->options->same_bits,
                                        .stream = s->stream};
        r->subjects[i] = (struct subject){
            .kind = &entry_kind, .what = e, .nops = r->m->nops, .wrong = checked ? 0 : -1};
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

/* Columns that follow from the times. */
static void compare(const struct round *r, struct matmul_row *rows)
{
    const bool gathers = r->m->s->options->command == BENCH_ALL_GATHER_MATMUL;
    const struct cublas_shape *s = r->shape;
    const double operations = 2.0 * s->m * s->n * s->k * s->l,
                 alone = time_of(r, rows, PRODUCT_ALONE), gather = time_of(r, rows, PRODUCT_GATHER),
                 peer = time_of(r, rows, gathers ? PRODUCT_CUBLAS_NCCL : PRODUCT_CUBLAS);

    for (int i = 0; i < r->n; i++) {
        const enum product_kind kind = r->entries[i].call.variant->kind;
        const double time = rows[i].time_us;

        rows[i].tflops = kind == PRODUCT_GATHER ? NAN : operations / time / 1e6;
        rows[i].speedup = kind == PRODUCT_GATHER ? NAN : peer / time;
        rows[i].hidden = kind == PRODUCT_GATHERED ? (alone + gather - time) / gather : NAN;
    }
}

/* With --trace, a timeline of symm's first product of the command's kind. */
static symm_status make_timeline(const struct round *r)
{
    struct session *s = r->m->s;
    const enum product_kind kind =
        s->options->command == BENCH_ALL_GATHER_MATMUL ? PRODUCT_GATHERED : PRODUCT_ALONE;

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
    struct round r = {.m = m, .shape = shape, .n = nvariants};
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
    *sample = (struct matmul_sample){r.data.step, products_compared(&r.data),
                                     (uint64_t)products_d_count(&r.data)};
out:
    return release(&r, st);
}
