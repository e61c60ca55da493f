/* Operands of products, and their expected results in double. */
#include "matmul.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "oracle/element.h"
#include "reference.h"

/* Streams of random numbers of a round. */
enum { OF_A, OF_B, OF_C = OF_B + MATMUL_B, OF_BIAS = OF_C + MATMUL_B, STREAMS = 16 };

static uint64_t stream_of(uint64_t round, int what, int rank)
{
    return (UINT64_C(1) << 50) + (round * STREAMS + (uint64_t)what) * 128 + (uint64_t)rank;
}

/* A small whole number, or one between 1/8 and 8 in size. */
static float value_of(const struct matmul_case *c, uint64_t u)
{
    const float fraction = 1 + (float)(u >> 41) / (float)(1 << 23);

    if (c->whole)
        return (float)(u % 9) - 4;
    return ldexpf(u & 1 ? -fraction : fraction, (int)(u >> 1 & 7) % 6 - 3);
}

/* ----------------------------------------------------------------------------------- operands */

/* An operand with its three dimensions. */
struct box {
    symm_dtype dtype;
    int64_t shape[3], strides[3];
};

static struct box box_of(const symm_tensor *t)
{
    struct box b = {.dtype = t->dtype, .shape = {1, 1, 1}};
    const int first = 3 - t->ndim;

    memcpy(b.shape + first, t->shape, sizeof *t->shape * (size_t)t->ndim);
    memcpy(b.strides + first, t->strides, sizeof *t->strides * (size_t)t->ndim);
    return b;
}

static size_t offset(const struct box *b, int64_t l, int64_t i, int64_t j)
{
    return (size_t)(l * b->strides[0] + i * b->strides[1] + j * b->strides[2]);
}

/* Visits the elements [l, i, j] of a box. */
#define EACH(b, l, i, j)                                                                           \
    for (int64_t l = 0; l < (b).shape[0]; l++)                                                     \
        for (int64_t i = 0; i < (b).shape[1]; i++)                                                 \
            for (int64_t j = 0; j < (b).shape[2]; j++)

/* A's element, on every rank the same; with alpha 0 some are not to be multiplied. */
static float a_value(const struct matmul_job *job, int nranks, int64_t l, int64_t row, int64_t k)
{
    const struct matmul_case *c = &job->c;
    float x;
    char rounded[4];

    if (matmul_alpha(c) == 0 && k == 0)
        return NAN;
    if (c->same == MATMUL_SAME_BATCHES)
        l = 0;
    if (c->same == MATMUL_SAME_ROWS) { /* of a rank: as its first one */
        int64_t first = 0;
        for (int r = 0; first + matmul_rows(c, r, nranks) <= row; r++)
            first += matmul_rows(c, r, nranks);
        row = first;
    }
    x = value_of(c, reference_random(stream_of(job->round, OF_A, 0),
                                     (uint64_t)((l * c->m + row) * c->k + k)));
    reference_set(rounded, 0, c->in, x);
    return reference_get(rounded, 0, c->in);
}

static void fill_a(const struct matmul_job *job, int rank, int nranks, char *const *image)
{
    const struct matmul_operand *a = &job->o.a;
    const struct box b = box_of(&a->t);
    int64_t first = 0;

    for (int r = 0; job->c.kind != SYMM_MATMUL && r < rank; r++)
        first += matmul_rows(&job->c, r, nranks);
    EACH(b, l, i, j)
    reference_set(image[a->region] + a->at, offset(&b, l, i, j), b.dtype,
                  a_value(job, nranks, l, first + i, j));
}

/* Fills an operand; elements that a product must not read are NaNs. */
static void fill(const struct matmul_job *job, const struct matmul_operand *x, int what, int rank,
                 bool unread, char *const *image)
{
    const uint64_t stream = stream_of(job->round, what, rank);
    uint64_t index = 0;

    if (!x->t.dtype)
        return;
    const struct box b = box_of(&x->t);
    EACH(b, l, i, j)
    reference_set(image[x->region] + x->at, offset(&b, l, i, j), b.dtype,
                  unread ? NAN : value_of(&job->c, reference_random(stream, index++)));
}

void matmul_fill(const struct matmul_job *job, int rank, int nranks, char *const *image)
{
    for (int i = 0; i < MATMUL_REGIONS; i++)
        reference_poison(image[i], job->nbytes[i],
                         reference_random(stream_of(job->round, STREAMS - 1, rank), (uint64_t)i));
    fill_a(job, rank, nranks, image);
    for (int i = 0; i < job->c.nb; i++) {
        fill(job, &job->o.b[i], OF_B + i, rank, matmul_alpha(&job->c) == 0, image);
        fill(job, &job->o.c[i], OF_C + i, rank, matmul_beta(&job->c) == 0, image);
        fill(job, &job->o.bias[i], OF_BIAS + i, rank, false, image);
    }
}

/* ---------------------------------------------------------------------------------- the result */

/* One batch of A and of a b, in doubles. */
struct factors {
    double *a, *b;
    int64_t m, k, n;
};

/* The expected value of a sum, and its bound. */
struct result {
    double value, error;
};

/*
 * Of k terms in fp32, in any order: k roundings of at most the sum of their sizes; then one each
 * with alpha, beta, c and bias. Whole numbers and such factors are exact.
 */
static struct result sum_of(const struct matmul_job *job, const struct factors *f, int64_t i,
                            int64_t j, double addend, double bias)
{
    const double alpha = (double)matmul_alpha(&job->c), step = ldexp(1, -24);
    double sum = 0, sizes = 0;

    for (int64_t k = 0; k < (alpha == 0 ? 0 : f->k); k++) {
        const double x = f->a[i * f->k + k] * f->b[k * f->n + j];
        sum += x;
        sizes += fabs(x);
    }
    return (struct result){
        .value = alpha * sum + addend + bias,
        .error = job->c.whole ? 0
                              : step * (((double)f->k + 4) * fabs(alpha) * sizes +
                                        4 * fabs(addend) + fabs(bias)),
    };
}

/* Slopes are less than 1.2; of the function itself there are a few roundings. */
static struct result activated(symm_activation activation, struct result x)
{
    struct result y = x;

    if (activation == SYMM_NONE)
        return x;
    y.value = activation == SYMM_GELU ? x.value * (1 + erf(x.value / sqrt(2))) / 2
                                      : x.value / (1 + exp(-x.value));
    y.error = 1.2 * x.error + ldexp(fabs(x.value), -21);
    return y;
}

/* 2^-120: fp32 may flush smaller numbers to 0. */
static bool is_right(double got, struct result x, symm_dtype dtype)
{
    return element_is_near(element_by_dtype(dtype), got, x.value,
                           x.error > 0 ? x.error + ldexp(1, -120) : 0);
}

/* A byte for each of a region: whether the product writes there. */
static void mark(const struct matmul_operand *x, char *const *written)
{
    if (!x->t.dtype)
        return;
    const struct box b = box_of(&x->t);
    const size_t size = symm_dtype_size(b.dtype);
    EACH(b, l, i, j) memset(written[x->region] + x->at + offset(&b, l, i, j) * size, 1, size);
}

static double read_of(const struct matmul_operand *x, char *const *image, int64_t l, int64_t i,
                      int64_t j)
{
    const struct box b = box_of(&x->t);

    return (double)reference_get(image[x->region] + x->at, offset(&b, l, i, j), b.dtype);
}

/* One batch of one product. */
static int64_t product_wrong(const struct matmul_job *job, int which, int64_t l,
                             const struct factors *f)
{
    const struct matmul_operand *c = &job->o.c[which], *bias = &job->o.bias[which],
                                *d = &job->o.d[which];
    const bool reads_c = c->t.dtype && matmul_beta(&job->c) != 0;
    const int64_t bias_l = bias->t.ndim == 3 && bias->t.shape[0] > 1 ? l : 0;
    int64_t wrong = 0;

    for (int64_t i = 0; i < f->m; i++)
        for (int64_t j = 0; j < f->n; j++) {
            const double addend =
                             reads_c ? (double)matmul_beta(&job->c) * read_of(c, job->sent, l, i, j)
                                     : 0,
                         more = bias->t.dtype ? read_of(bias, job->sent, bias_l, 0, j) : 0;
            const struct result x =
                activated(job->c.activation, sum_of(job, f, i, j, addend, more));
            wrong += !is_right(read_of(d, job->got, l, i, j), x, d->t.dtype);
        }
    return wrong;
}

static bool same(double x, double y)
{
    return x == y || (isnan(x) && isnan(y));
}

static int64_t gathered_wrong(const struct matmul_job *job, int64_t l, const struct factors *f)
{
    int64_t wrong = 0;

    for (int64_t i = 0; i < f->m; i++)
        for (int64_t k = 0; k < f->k; k++)
            wrong += !same(read_of(&job->o.gathered, job->got, l, i, k), f->a[i * f->k + k]);
    return wrong;
}

/* All products of one batch. */
static int64_t batch_wrong(const struct matmul_job *job, int nranks, int64_t l)
{
    const struct matmul_case *c = &job->c;
    struct factors f = {.m = c->m, .k = c->k};
    int64_t wrong;

    f.a = malloc(sizeof *f.a * (size_t)(f.m * f.k));
    for (int64_t i = 0; i < f.m; i++)
        for (int64_t k = 0; k < f.k; k++)
            f.a[i * f.k + k] = (double)a_value(job, nranks, l, i, k);
    wrong = c->gathered ? gathered_wrong(job, l, &f) : 0;
    for (int which = 0; which < c->nb; which++) {
        f.n = box_of(&job->o.d[which].t).shape[2];
        f.b = malloc(sizeof *f.b * (size_t)(f.k * f.n));
        for (int64_t k = 0; k < f.k; k++)
            for (int64_t j = 0; j < f.n; j++)
                f.b[k * f.n + j] = read_of(&job->o.b[which], job->sent, l, k, j);
        wrong += product_wrong(job, which, l, &f);
        free(f.b);
    }
    free(f.a);
    return wrong;
}

/* Bytes that no product writes and that are not as they were sent. */
static int64_t changed(const struct matmul_job *job)
{
    char *written[MATMUL_REGIONS];
    int64_t wrong = 0;

    for (int i = 0; i < MATMUL_REGIONS; i++)
        written[i] = calloc(1, job->nbytes[i]);
    mark(&job->o.gathered, written);
    for (int i = 0; i < job->c.nb; i++)
        mark(&job->o.d[i], written);
    for (int i = 0; i < MATMUL_REGIONS; i++) {
        for (size_t at = 0; at < job->nbytes[i]; at++)
            wrong += !written[i][at] && job->sent[i][at] != job->got[i][at];
        free(written[i]);
    }
    return wrong;
}

int64_t matmul_wrong(const struct matmul_job *job, int nranks)
{
    int64_t wrong = changed(job);

    for (int64_t l = 0; l < job->c.l; l++)
        wrong += batch_wrong(job, nranks, l);
    return wrong;
}
