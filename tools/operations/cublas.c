/* Products by cuBLASLt. */
#include "cublas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/stream.h>
#include "abi/cublaslt.h"
#include "peer.h"

/* ALIGNMENT: of what symm_device_alloc() and symm_alloc() return, at least. */
enum { WORKSPACE_NBYTES = 64 << 20, ALIGNMENT = 256 };

struct cublas {
    symm_context *ctx;
    struct cublaslt lt;
    void *workspace;
    char error[CUBLASLT_WHY];
};

struct cublas_product {
    struct cublas *c;
    float alpha, beta;
    bool flipped; /* the caller's b is the first operand */
    struct cublaslt_shape shape;
    struct cublaslt_product product;
};

struct cublas *cublas_open(symm_context *ctx, char why[512], symm_status *st)
{
    struct cublas *c = calloc(1, sizeof *c);

    memset(why, 0, PEER_WHY);
    if (!c)
        snprintf(why, PEER_WHY, "out of memory");
    else if (symm__cublaslt_open(getenv("SYMM_CUBLASLT_LIBRARY"), &c->lt, why) &&
             symm_device_alloc(ctx, WORKSPACE_NBYTES, &c->workspace) != SYMM_OK)
        snprintf(why, PEER_WHY, "no memory for its workspace");
    if (c)
        c->ctx = ctx;
    *st = peer_agree(symm_context_world(ctx), why);
    if (*st == SYMM_OK && !why[0])
        return c;
    cublas_close(c);
    return NULL;
}

void cublas_close(struct cublas *c)
{
    if (!c)
        return;
    symm__cublaslt_close(&c->lt);
    if (c->workspace)
        symm_device_free(c->ctx, c->workspace);
    free(c);
}

const char *cublas_version(const struct cublas *c)
{
    return c->lt.version;
}

const char *cublas_error(const struct cublas *c)
{
    return c && c->error[0] ? c->error : NULL;
}

/* ------------------------------------------------------------------------------------ a product */

/*
 * The matrix in column-major order; one stored by rows is a transposed one. cuBLASLt makes d by
 * columns, else d' = b' a'.
 */
static struct cublaslt_matrix matrix(const struct cublas_shape *s, int rows, int columns,
                                     bool by_columns)
{
    const int stored_rows = by_columns ? rows : columns;

    return (struct cublaslt_matrix){.type = s->dtype == SYMM_BFLOAT16 ? CUBLASLT_TYPE_16BF
                                                                      : CUBLASLT_TYPE_16F,
                                    .transposed = by_columns != s->d_by_columns,
                                    .rows = (uint64_t)stored_rows,
                                    .columns = (uint64_t)(by_columns ? columns : rows),
                                    .ld = stored_rows,
                                    .batch = (int64_t)rows * columns};
}

struct cublas_product *cublas_product_create(struct cublas *c, const struct cublas_shape *shape)
{
    const struct cublaslt_matrix a = matrix(shape, shape->m, shape->k, false),
                                 b = matrix(shape, shape->k, shape->n, shape->b_by_columns);
    const struct cublaslt_shape asked = {.a = shape->d_by_columns ? a : b,
                                         .b = shape->d_by_columns ? b : a,
                                         .d =
                                             matrix(shape, shape->m, shape->n, shape->d_by_columns),
                                         .batches = shape->l,
                                         .alignment = ALIGNMENT,
                                         .workspace_nbytes = WORKSPACE_NBYTES};
    struct cublas_product *p = calloc(1, sizeof *p);

    if (!p) {
        snprintf(c->error, sizeof c->error, "out of memory");
        return NULL;
    }
    *p = (struct cublas_product){.c = c,
                                 .alpha = shape->alpha,
                                 .beta = shape->beta,
                                 .flipped = !shape->d_by_columns,
                                 .shape = asked};
    if (symm__cublaslt_product(&c->lt, &asked, &p->product, c->error))
        return p;
    free(p);
    return NULL;
}

void cublas_product_destroy(struct cublas_product *p)
{
    if (p)
        symm__cublaslt_forget(&p->c->lt, &p->product);
    free(p);
}

symm_status cublas_product_run(struct cublas_product *p, const void *a, const void *b,
                               const void *c, void *d, symm_stream stream)
{
    const struct cublaslt_operands on = {.a = p->flipped ? b : a,
                                         .b = p->flipped ? a : b,
                                         .c = c,
                                         .d = d,
                                         .alpha = p->alpha,
                                         .beta = p->beta,
                                         .workspace = p->c->workspace};

    return symm__cublaslt_multiply(&p->c->lt, &p->product, &on, stream, p->c->error)
               ? SYMM_OK
               : SYMM_ERROR_DRIVER;
}

/* --------------------------------------------------------------------------------- the fastest */

enum { CANDIDATES = 8, ROUNDS = 5, RUNS = 3 };

/* The operands of a product that is tuned, and the clock. */
struct trial {
    struct cublas_product *p;
    const void *a, *b, *c;
    void *d;
    symm_stream stream;
    symm_event from, to;
};

static symm_status run_some(const struct trial *t)
{
    symm_status st = SYMM_OK;

    for (int i = 0; i < RUNS && st == SYMM_OK; i++)
        st = cublas_product_run(t->p, t->a, t->b, t->c, t->d, t->stream);
    return st;
}

/* INFINITY: the algorithm does not run. */
static symm_status time_it(const struct trial *t, float *us)
{
    symm_status st = symm_event_record(t->from, t->stream);

    *us = INFINITY;
    if (st != SYMM_OK || run_some(t) != SYMM_OK)
        return st;
    st = symm_event_record(t->to, t->stream);
    if (st == SYMM_OK)
        st = symm_event_synchronize(t->to);
    if (st == SYMM_OK)
        st = symm_event_elapsed_us(t->from, t->to, us);
    return st;
}

/* Takes the candidate with the least time of some rounds, of which the first one warms up. */
static symm_status take_fastest(const struct trial *t, const cublaslt_heuristic *candidates, int n)
{
    float least[CANDIDATES], us;
    symm_status st = SYMM_OK;
    int best = 0;

    for (int i = 0; i < n; i++)
        least[i] = INFINITY;
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < n && st == SYMM_OK; i++) {
            t->p->product.chosen = candidates[i];
            st = time_it(t, &us);
            if (round > 0 && us < least[i])
                least[i] = us;
        }
    for (int i = 1; i < n; i++)
        if (least[i] < least[best])
            best = i;
    t->p->product.chosen = candidates[best];
    if (st == SYMM_OK && least[best] < INFINITY)
        t->p->c->error[0] = 0; /* of candidates that do not run */
    return st == SYMM_OK && least[best] == INFINITY ? SYMM_ERROR_DRIVER : st;
}

symm_status cublas_product_tune(struct cublas_product *p, const void *a, const void *b,
                                const void *c, void *d, symm_stream stream)
{
    struct trial t = {.p = p, .a = a, .b = b, .c = c, .d = d, .stream = stream};
    cublaslt_heuristic candidates[CANDIDATES];
    const int n = symm__cublaslt_algorithms(&p->c->lt, &p->shape, &p->product, candidates,
                                            CANDIDATES, p->c->error);
    symm_status st;

    if (n < 1)
        return SYMM_ERROR_DRIVER;
    st = symm_event_create(p->c->ctx, &t.from);
    if (st == SYMM_OK)
        st = symm_event_create(p->c->ctx, &t.to);
    if (st == SYMM_OK)
        st = take_fastest(&t, candidates, n);
    symm_event_destroy(t.from);
    symm_event_destroy(t.to);
    return st;
}
