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

static float rounded(symm_dtype dtype, float x)
{
    char one[4];

    reference_set(one, 0, dtype, x);
    return reference_get(one, 0, dtype);
}

/*
 * A's element at a row of all ranks' rows if these are gathered, else of the rank's own A. With
 * alpha 0 some are not to be multiplied.
 */
static float a_value(const struct matmul_job *job, int rank, int nranks, int64_t l, int64_t row,
                     int64_t k)
{
    const struct matmul_case *c = &job->c;
    const bool gathers = c->kind == SYMM_ALL_GATHER_MATMUL;

    if (matmul_alpha(c) == 0 && k == 0)
        return NAN;
    if (c->same == MATMUL_SAME_BATCHES)
        l = 0;
    if (c->same == MATMUL_SAME_ROWS) { /* of a rank: as its first one */
        int r = 0;
        while (gathers && matmul_first(c->m, r + 1, nranks) <= row)
            r++;
        row = gathers ? matmul_first(c->m, r, nranks) : 0;
    }
    return rounded(c->in,
                   value_of(c, reference_random(stream_of(job->round, OF_A, gathers ? 0 : rank),
                                                (uint64_t)((l * c->m + row) * c->k + k))));
}

static void fill_a(const struct matmul_job *job, int rank, int nranks, char *const *image)
{
    const struct matmul_operand *a = &job->o.a;
    const struct box b = box_of(&a->t);
    const int64_t first =
        job->c.kind == SYMM_ALL_GATHER_MATMUL ? matmul_first(job->c.m, rank, nranks) : 0;

    EACH(b, l, i, j)
    reference_set(image[a->region] + a->at, offset(&b, l, i, j), b.dtype,
                  a_value(job, rank, nranks, l, first + i, j));
}

/* The index of an element; of several at one address it has that of the last, as fill() does. */
static int64_t last_of(const struct box *b, int dimension, int64_t i)
{
    return b->strides[dimension] ? i : b->shape[dimension] - 1;
}

/* An element of another operand of a rank. */
static double value_at(const struct matmul_job *job, const struct matmul_operand *x, int what,
                       int rank, int64_t l, int64_t i, int64_t j)
{
    const struct box b = box_of(&x->t);
    const uint64_t index =
        (uint64_t)((last_of(&b, 0, l) * b.shape[1] + last_of(&b, 1, i)) * b.shape[2] +
                   last_of(&b, 2, j));

    return (double)rounded(
        b.dtype, value_of(&job->c, reference_random(stream_of(job->round, what, rank), index)));
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

/* One batch of a rank's A and of a b, in doubles. */
struct factors {
    double *a, *b;
    int64_t m, k, n;
};

/* A rank whose product is in the result. */
struct party {
    int rank;
    struct matmul_operands o;
    struct factors f;
};

/* The expected value of a sum, and its bound. */
struct result {
    double value, error;
};

/* Half the distance of numbers of a type, relative. */
static double unit_roundoff(symm_dtype dtype)
{
    return ldexp(1, dtype == SYMM_BFLOAT16 ? -8 : dtype == SYMM_FLOAT16 ? -11 : -24);
}

/* Adds row i times column j: the value, the sizes of its terms, their number, the partial sums. */
struct terms {
    double sum, sizes, count, partial_sizes;
};

static void add_terms(struct terms *all, const struct factors *f, int64_t i, int64_t j)
{
    double sum = 0;

    for (int64_t k = 0; k < f->k; k++) {
        const double x = f->a[i * f->k + k] * f->b[k * f->n + j];
        sum += x;
        all->sizes += fabs(x);
    }
    all->sum += sum;
    all->count += (double)f->k;
    all->partial_sizes += fabs(sum);
}

/*
 * Of k terms in fp32, in any order: k roundings of at most the sum of their sizes; one for each
 * partial sum; then one each with alpha, beta, c and bias. Whole numbers and such factors are
 * exact, but not partial sums of 16 bits.
 */
static struct result sum_of(const struct matmul_job *job, const struct party *parties, int n,
                            int64_t i, int64_t j, symm_dtype partial, double addend, double bias)
{
    const double alpha = (double)matmul_alpha(&job->c), step = ldexp(1, -24);
    struct terms t = {0};
    struct result x;

    for (int p = 0; alpha != 0 && p < n; p++)
        add_terms(&t, &parties[p].f, i, j);
    x = (struct result){
        .value = alpha * t.sum + addend + bias,
        .error = job->c.whole ? 0
                              : step * ((t.count + n + 4) * fabs(alpha) * t.sizes +
                                        4 * fabs(addend) + fabs(bias)),
    };
    if (n > 1 && !(job->c.whole && partial == SYMM_FLOAT32))
        x.error += unit_roundoff(partial) * fabs(alpha) * t.partial_sizes;
    return x;
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

/*
 * The element in row i and column j of the sum of n parties' products. `adder` adds c and bias; its
 * c has the element in row c_row.
 */
static struct result expected(const struct matmul_job *job, int which, const struct party *parties,
                              int n, const struct party *adder, int64_t l, int64_t i, int64_t c_row,
                              int64_t j)
{
    const struct matmul_operand *c = &adder->o.c[which], *bias = &adder->o.bias[which];
    const int64_t bias_l = bias->t.ndim == 3 && bias->t.shape[0] > 1 ? l : 0;
    const double addend = c->t.dtype && matmul_beta(&job->c) != 0
                              ? (double)matmul_beta(&job->c) *
                                    value_at(job, c, OF_C + which, adder->rank, l, c_row, j)
                              : 0,
                 more = bias->t.dtype
                            ? value_at(job, bias, OF_BIAS + which, adder->rank, bias_l, 0, j)
                            : 0;

    return activated(
        job->c.activation,
        sum_of(job, parties, n, i, j, job->c.partial ? job->c.partial : job->c.out, addend, more));
}

/* The rank that has column j of n, or row j. */
static int owner_of(int64_t j, int64_t n, int nranks)
{
    int r = 0;

    while (matmul_first((int32_t)n, r + 1, nranks) <= j)
        r++;
    return r;
}

/* An element of d. parties: this rank first, then the ranks after it. */
static struct result element(const struct matmul_job *job, int which, const struct party *parties,
                             int nranks, int64_t l, int64_t i, int64_t j)
{
    const int rank = parties[0].rank;
    const struct party *other = parties;
    int owner;

    switch (job->c.kind) {
    case SYMM_MATMUL_REDUCE_SCATTER:
        return expected(job, which, parties, nranks, parties, l,
                        matmul_first(job->c.m, rank, nranks) + i, i, j);
    case SYMM_MATMUL_ALL_REDUCE:
        other += (owner_of(i, job->c.m, nranks) - rank + nranks) % nranks;
        return expected(job, which, parties, nranks, other, l, i, i, j);
    case SYMM_MATMUL_ALL_SCATTER: {
        const int32_t n = (int32_t)job->o.d[which].t.shape[job->o.d[which].t.ndim - 1];
        owner = owner_of(j, n, nranks);
        other += (owner - rank + nranks) % nranks;
        return expected(job, which, other, 1, other, l, i, i, j - matmul_first(n, owner, nranks));
    }
    default:
        return expected(job, which, parties, 1, parties, l, i, i, j);
    }
}

/* One batch of one product. */
static int64_t product_wrong(const struct matmul_job *job, int which, int64_t l,
                             const struct party *parties, int nranks)
{
    const struct matmul_operand *d = &job->o.d[which];
    const struct box b = box_of(&d->t);
    int64_t wrong = 0;

    for (int64_t i = 0; i < b.shape[1]; i++)
        for (int64_t j = 0; j < b.shape[2]; j++)
            wrong += !is_right(read_of(d, job->got, l, i, j),
                               element(job, which, parties, nranks, l, i, j), d->t.dtype);
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

/* joined: if their columns have one address, every b is the last one. */
static void fill_factors(const struct matmul_job *job, struct party *p, int nranks, int which,
                         int64_t l)
{
    const struct box b = box_of(&p->o.b[which].t);
    const int of = job->c.joined && b.strides[2] == 0 ? job->c.nb - 1 : which;
    struct factors *f = &p->f;

    *f = (struct factors){.m = job->c.m, .k = b.shape[1], .n = b.shape[2]};
    f->a = malloc(sizeof *f->a * (size_t)(f->m * f->k));
    f->b = malloc(sizeof *f->b * (size_t)(f->k * f->n));
    for (int64_t i = 0; i < f->m; i++)
        for (int64_t k = 0; k < f->k; k++)
            f->a[i * f->k + k] = (double)a_value(job, p->rank, nranks, l, i, k);
    for (int64_t k = 0; k < f->k; k++)
        for (int64_t j = 0; j < f->n; j++)
            f->b[k * f->n + j] = value_at(job, &p->o.b[of], OF_B + of, p->rank, l, k, j);
}

/* One product of one batch, and with the first one what it gathers. */
static int64_t batch_wrong(const struct matmul_job *job, int nranks, int which, int64_t l)
{
    const int rank = symm_rank(job->group), n = matmul_collects(&job->c) ? nranks : 1;
    struct party *parties = calloc((size_t)n, sizeof *parties);
    int64_t wrong = 0;

    for (int p = 0; p < n; p++) {
        parties[p].rank = (rank + p) % nranks;
        matmul_lay_out(&job->c, parties[p].rank, nranks, &parties[p].o);
        fill_factors(job, &parties[p], nranks, which, l);
    }
    if (job->c.gathered && which == 0)
        wrong += gathered_wrong(job, l, &parties[0].f);
    wrong += product_wrong(job, which, l, parties, nranks);
    for (int p = 0; p < n; p++) {
        free(parties[p].f.a);
        free(parties[p].f.b);
    }
    free(parties);
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
        for (int which = 0; which < job->c.nb; which++)
            wrong += batch_wrong(job, nranks, which, l);
    return wrong;
}
