/* One shape of a product: every way checked and timed, by turns, on the same data. */
#include "matmul_measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "oracle/products.h"
#include "oracle/sums.h"
#include "timing.h"

enum { POISON = 0xff /* a NaN in every floating type */ };

/* No process has as many bytes; beyond them sizes could wrap. */
static const double too_many_bytes = 0x1p47;

/* A way at this shape. */
struct entry {
    struct product_call call;
    int64_t wrong;
};

/* Everything of one shape. */
struct round {
    struct contest *c;
    const struct cublas_shape *shape;
    struct product_buffers on; /* the device */
    struct products data;      /* on the host, with what d should be */
    char *got;                 /* d on the host */
    char *kept;                /* the same as the first strategy has left it, */
    const char *keeper;        /* its name; NULL: none has */
    struct entry entries[CONTEST_MAX_WAYS];
    struct timed timed[CONTEST_MAX_WAYS];
    float *samples;
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
    r->samples = malloc((size_t)r->n * (size_t)r->c->s->options->iters * sizeof *r->samples);
    r->got = malloc(products_d_count(&r->data) * r->data.element->nbytes);
    r->kept = malloc(products_d_count(&r->data) * r->data.element->nbytes);
    return products_create(&r->data) && r->samples && r->got && r->kept;
}

static symm_status allocate_host(struct round *r)
{
    const struct bench_options *o = r->c->s->options;
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
    snprintf(r->c->s->trouble, sizeof r->c->s->trouble,
             "m %d, n %d, k %d, l %d: no host memory for %.3g bytes", s->m, s->n, s->k, s->l,
             host_nbytes(r));
    return SYMM_ERROR_MEMORY;
}

/* Elements of this rank's part of A, or of the largest part. */
static size_t part_count(const struct round *r, int rank)
{
    return (size_t)product_rows(r->shape->m, r->c->s->nranks, rank) * (size_t)r->shape->k *
           (size_t)r->shape->l;
}

static symm_status allocate_device(struct round *r)
{
    struct session *s = r->c->s;
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
    struct session *s = r->c->s;
    void *const device[] = {r->on.a, r->on.b, r->on.c, r->on.d};

    timing_clear(r->timed, r->n);
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
    free(r->samples);
    free(r->got);
    free(r->kept);
    return st;
}

/* ------------------------------------------------------------------------------------- the data */

/* This rank's rows of A, which lie apart if there are several matrices. */
static symm_status offer_part(const struct round *r)
{
    const struct session *s = r->c->s;
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

/* Fresh data, and with --check what they come to. Collective. */
static symm_status offer(struct round *r, uint64_t seed)
{
    struct session *s = r->c->s;
    const size_t nbytes = s->options->element->nbytes;
    symm_status st;

    products_fill(&r->data, seed, s->rank);
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

static void complain(const struct round *r, const struct entry *e, const struct products_verdict *v)
{
    fprintf(stderr,
            "# rank %d: %s, %d x %d x %d: element [%d, %d, %d] is %s and should be %s: %.3g off, "
            "and no more than %.3g is right\n",
            r->c->s->rank, e->call.way->name, r->shape->m, r->shape->n, r->shape->k, v->l, v->row,
            v->column, v->got, v->expected, v->off, v->bound);
}

/*
 * All strategies have the same result, to the bit, where symm's kernels multiply. Returns how many
 * elements have not.
 */
static uint64_t differing(struct round *r, const struct entry *e)
{
    const size_t nbytes = r->data.element->nbytes, count = products_d_count(&r->data);
    uint64_t n = 0;

    if (e->call.way->kind != PRODUCT_GATHERED ||
        (!r->c->s->emulated && !product_is_symms(&e->call)))
        return 0;
    if (!r->keeper) {
        memcpy(r->kept, r->got, count * nbytes);
        r->keeper = e->call.way->name;
    }
    if (memcmp(r->kept, r->got, count * nbytes) == 0)
        return 0;
    for (size_t i = 0; i < count; i++)
        n += memcmp(r->kept + i * nbytes, r->got + i * nbytes, nbytes) != 0;
    fprintf(stderr,
            "# rank %d: %s, %d x %d x %d: elements with other bits than those of %s: %" PRIu64 "\n",
            r->c->s->rank, e->call.way->name, r->shape->m, r->shape->n, r->shape->k, r->keeper, n);
    return n;
}

/* Runs nops calls over a poisoned output, and compares. Collective. */
static symm_status check(struct round *r, int i, symm_graph graph, int nops)
{
    struct session *s = r->c->s;
    struct entry *e = &r->entries[i];
    const size_t nbytes = products_d_count(&r->data) * s->options->element->nbytes;
    struct products_verdict verdict;
    int64_t wrong;
    symm_status st;

    TRY(symm_fill(r->on.d, POISON, nbytes, s->stream));
    TRY(timing_line_up(s, &r->timed[i]));
    TRY(timing_repeat(s, &r->timed[i], graph, nops));
    TRY(symm_copy(r->got, r->on.d, nbytes, s->stream));
    TRY(symm_synchronize(s->group, s->stream));
    products_check(&r->data, r->got, &verdict);
    if (verdict.wrong > 0)
        complain(r, e, &verdict);
    const uint64_t others = differing(r, e);
    TRY(session_sum(s, others > verdict.wrong ? others : verdict.wrong, &wrong));
    e->wrong = wrong > e->wrong ? wrong : e->wrong;
out:
    return st;
}

/*
 * Checks what multiplies on fresh data: what is left from the data before is wrong now. Once, and
 * `closely` once more as it was timed, one call following the other.
 */
static symm_status check_all(struct round *r, uint64_t seed, bool closely)
{
    symm_graph graph = NULL;
    symm_status st;

    TRY(offer(r, seed));
    for (int i = 0; i < r->n && r->c->s->options->check; i++) {
        if (r->entries[i].call.way->kind == PRODUCT_GATHER)
            continue;
        TRY(timing_record(r->c->s, &r->timed[i], 1, &graph));
        TRY(check(r, i, graph, 1));
        symm_graph_destroy(graph);
        graph = NULL;
        if (closely)
            TRY(check(r, i, r->timed[i].graph, r->timed[i].nops));
    }
out:
    symm_graph_destroy(graph);
    return st;
}

/* ---------------------------------------------------------------------------------- all of them */

static symm_status enter(struct round *r, const struct product_way *const *ways)
{
    const struct session *s = r->c->s;
    symm_status st = SYMM_OK;

    for (int i = 0; i < r->n; i++) {
        struct entry *e = &r->entries[i];
        const bool checked = s->options->check && ways[i]->kind != PRODUCT_GATHER;

        e->wrong = checked ? 0 : -1;
        e->call = (struct product_call){.group = s->group,
                                        .nccl = r->c->nccl,
                                        .cublas = r->c->cublas,
                                        .way = ways[i],
                                        .shape = *r->shape,
                                        .buffers = r->on,
                                        .stream = s->stream};
        r->timed[i] = (struct timed){.enqueue = enqueue,
                                     .what = e,
                                     .nops = r->c->nops,
                                     .samples = r->samples + (size_t)i * (size_t)s->options->iters};
        TRY(product_prepare(&e->call));
    }
out:
    return st;
}

/* The time of the way of that kind; NAN: it is not there. */
static double time_of(const struct round *r, const struct contest_row *rows, enum product_kind kind)
{
    for (int i = 0; i < r->n; i++) {
        if (r->entries[i].call.way->kind == kind)
            return rows[i].time_us;
    }
    return NAN;
}

/* What follows from the times alone. */
static void compare(const struct round *r, struct contest_row *rows)
{
    const bool gathers = r->c->s->options->command == BENCH_ALL_GATHER_MATMUL;
    const struct cublas_shape *s = r->shape;
    const double operations = 2.0 * s->m * s->n * s->k * s->l,
                 alone = time_of(r, rows, PRODUCT_ALONE), gather = time_of(r, rows, PRODUCT_GATHER),
                 peer = time_of(r, rows, gathers ? PRODUCT_CUBLAS_NCCL : PRODUCT_CUBLAS);

    for (int i = 0; i < r->n; i++) {
        const enum product_kind kind = r->entries[i].call.way->kind;
        const double time = rows[i].time_us;

        rows[i].tflops = kind == PRODUCT_GATHER ? NAN : operations / time / 1e6;
        rows[i].speedup = kind == PRODUCT_GATHER ? NAN : peer / time;
        rows[i].hidden = kind == PRODUCT_GATHERED ? (alone + gather - time) / gather : NAN;
    }
}

static symm_status make_rows(struct round *r, struct contest_row *rows)
{
    float times[2];
    symm_status st = SYMM_OK;

    for (int i = 0; i < r->n; i++) {
        TRY(timing_summarise(r->c->s, &r->timed[i], times));
        rows[i] = (struct contest_row){.strategy = product_strategy(&r->entries[i].call),
                                       .time_us = (double)times[0],
                                       .p95_us = (double)times[1],
                                       .wrong = r->entries[i].wrong};
    }
    compare(r, rows);
out:
    return st;
}

symm_status contest_run(struct contest *c, const struct cublas_shape *shape,
                        const struct product_way *const *ways, int nways, uint64_t use,
                        struct contest_row *rows, struct contest_sample *sample)
{
    struct round r = {.c = c, .shape = shape, .n = nways};
    symm_status st;

    TRY(allocate_host(&r));
    TRY(allocate_device(&r));
    TRY(enter(&r, ways));
    TRY(check_all(&r, sums_seed(c->s->seed, 2 * use), false));
    TRY(timing_run(c->s, r.timed, r.n));
    if (c->s->options->check)
        TRY(check_all(&r, sums_seed(c->s->seed, 2 * use + 1), true));
    TRY(make_rows(&r, rows));
    *sample = (struct contest_sample){r.data.step, products_compared(&r.data),
                                      (uint64_t)products_d_count(&r.data)};
out:
    return release(&r, st);
}
