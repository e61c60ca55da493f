/* Memory and data of a product at one shape. */
#include "matmul_round.h"

#include <stdio.h>
#include <stdlib.h>
#include "oracle/sums.h"

/* No process has this memory; larger sizes could wrap. */
static const double too_many_bytes = 0x1p47;

/* ----------------------------------------------------------------------------------- the memory */

/* a, b, c and twice the result. */
static double host_nbytes(const struct matmul_round *r)
{
    const double m = r->shape->m, n = r->shape->n, k = r->shape->k, l = r->shape->l,
                 ds = r->data.beta != 0 ? 3 : 2;

    return (m * k + k * n + ds * m * n) * l * (double)r->data.element->nbytes;
}

size_t matmul_result_nbytes(const struct products *expected)
{
    return products_d_count(expected) * expected->element->nbytes;
}

/* Of the larger result; at least one. */
static size_t most_nbytes(const struct matmul_round *r)
{
    const size_t d = matmul_result_nbytes(&r->data),
                 part = kind_collects(r->data.kind) ? matmul_result_nbytes(&r->part) : 1;

    return d > part ? d : part;
}

static struct products describe(const struct matmul_round *r, symm_matmul_kind kind)
{
    const struct bench_options *o = r->s->options;
    struct products p = product_data(kind, r->shape, r->rank, r->nranks);

    p.process = o->as_if ? 1 + r->s->rank : 0;
    if (o->eps > 0)
        p.eps = o->eps;
    return p;
}

/* What this rank's product alone should be, if results are collected. */
static bool create_part(struct matmul_round *r)
{
    const symm_matmul_kind kind = r->data.kind;

    if (!kind_collects(kind))
        return true;
    r->part = describe(r, SYMM_MATMUL);
    r->part.n = r->data.own.columns;
    r->part.reference_only = true;
    if (kind_sums(kind))
        r->part.beta = 0;
    return products_create(&r->part);
}

static bool have_host(struct matmul_round *r)
{
    if (host_nbytes(r) >= too_many_bytes || !products_create(&r->data) || !create_part(r))
        return false;
    r->got = malloc(most_nbytes(r));
    r->kept = malloc(most_nbytes(r));
    return r->got && r->kept;
}

static symm_status allocate_host(struct matmul_round *r)
{
    const struct cublas_shape *s = r->shape;

    r->data = describe(r, r->s->options->kind);
    r->data.partial = r->s->options->partial;
    if (have_host(r))
        return SYMM_OK;
    snprintf(r->s->trouble, sizeof r->s->trouble,
             "m %d, n %d, k %d, l %d: no host memory for %.3g bytes", s->m, s->n, s->k, s->l,
             host_nbytes(r));
    return SYMM_ERROR_MEMORY;
}

/* What a rank sends. No partial sum is smaller than an element. */
static symm_status allocate_symmetric(struct matmul_round *r)
{
    struct session *s = r->s;
    const size_t nbytes = s->options->partial->nbytes;
    symm_status st;

    TRY(symm_alloc(s->group, product_part_count(r->data.kind, r->shape, r->nranks) * nbytes,
                   &r->on.part));
    TRY(symm_alloc(s->group, product_gathered_count(r->data.kind, r->shape, r->nranks) * nbytes,
                   &r->on.gathered));
out:
    return st;
}

/* d is symmetric if results are collected, with the size of rank 0's, the largest. */
static symm_status allocate_d(struct matmul_round *r)
{
    struct session *s = r->s;
    const struct extents largest = extents_of(r->data.kind, r->shape->m, r->shape->n, r->nranks, 0);

    if (!kind_collects(r->data.kind))
        return symm_device_alloc(s->ctx, matmul_result_nbytes(&r->data), &r->on.d);
    return symm_alloc(s->group,
                      (size_t)r->shape->l * (size_t)largest.rows * (size_t)r->shape->n *
                          r->data.element->nbytes,
                      &r->on.d);
}

static symm_status allocate_device(struct matmul_round *r)
{
    struct session *s = r->s;
    const size_t nbytes = s->options->element->nbytes, c = products_c_count(&r->data) * nbytes;
    symm_status st;

    TRY(symm_device_alloc(s->ctx, products_a_count(&r->data) * nbytes, &r->on.a));
    TRY(symm_device_alloc(s->ctx, products_b_count(&r->data) * nbytes, &r->on.b));
    if (r->data.c)
        TRY(symm_device_alloc(s->ctx, c > 0 ? c : 1, &r->on.c));
    TRY(allocate_d(r));
    if (r->data.kind != SYMM_MATMUL)
        TRY(allocate_symmetric(r));
out:
    return st;
}

symm_status matmul_round_open(struct matmul_round *r)
{
    symm_status st;

    TRY(allocate_host(r));
    TRY(allocate_device(r));
out:
    return st;
}

symm_status matmul_round_close(struct matmul_round *r, symm_status st)
{
    struct session *s = r->s;
    const bool collects = kind_collects(r->data.kind);
    void *const device[] = {r->on.a, r->on.b, r->on.c, collects ? NULL : r->on.d},
                *const symmetric[] = {r->on.part, r->on.gathered, collects ? r->on.d : NULL};

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
static symm_status offer_part(const struct matmul_round *r)
{
    const struct session *s = r->s;
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
static bool refer(struct matmul_round *r, uint64_t seed)
{
    const uint64_t choice = sums_seed(seed, 0);

    return products_refer(&r->data, seed, choice) &&
           (!kind_collects(r->data.kind) || products_refer(&r->part, seed, choice));
}

symm_status matmul_round_offer(struct matmul_round *r, uint64_t seed)
{
    struct session *s = r->s;
    const size_t nbytes = s->options->element->nbytes;
    symm_status st;

    if (r->has_data && r->seed == seed)
        return SYMM_OK;
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
    if (r->data.kind == SYMM_ALL_GATHER_MATMUL)
        TRY(offer_part(r));
    TRY(symm_synchronize(s->group, s->stream));
out:
    return st;
}
