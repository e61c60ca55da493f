/* Random matrices, and the check of their product. */
#include "products.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "parallel.h"
#include "sums.h"

enum {
    BLOCK = 1024,   /* numbers that are converted at once; even */
    MAX_STEP = 64,  /* so that every tile of 64 x 64 has a compared element */
    LEAST_ROWS = 1, /* for a thread */
    LEAST_FILLED = 64 * BLOCK
};

/* Limits of a reference: multiplications, and elements. */
static const uint64_t most_products = (uint64_t)1 << 30, most_elements = (uint64_t)1 << 22;

size_t products_a_count(const struct products *p)
{
    return (size_t)p->l * (size_t)p->m * (size_t)p->k;
}

size_t products_b_count(const struct products *p)
{
    return (size_t)p->l * (size_t)p->k * (size_t)p->n;
}

size_t products_d_count(const struct products *p)
{
    return (size_t)p->l * (size_t)p->m * (size_t)p->n;
}

size_t products_compared(const struct products *p)
{
    return (size_t)p->l * (size_t)p->nrows * (size_t)p->ncolumns;
}

double products_eps(int k)
{
    return sqrt(k) * 0x1p-21;
}

/* ----------------------------------------------------------------------------------- the memory */

static int divide_up(int a, int b)
{
    return a / b + (a % b != 0);
}

static bool fits(const struct products *p, int step)
{
    const uint64_t elements =
        (uint64_t)p->l * (uint64_t)divide_up(p->m, step) * (uint64_t)divide_up(p->n, step);

    return elements <= most_elements && elements * (uint64_t)p->k <= most_products;
}

bool products_create(struct products *p)
{
    const size_t nbytes = p->element->nbytes;

    p->step = 1;
    while (p->step < MAX_STEP && !fits(p, p->step))
        p->step *= 2;
    p->nrows = divide_up(p->m, p->step);
    p->ncolumns = divide_up(p->n, p->step);
    const size_t count = products_compared(p);
    p->a = malloc(products_a_count(p) * nbytes);
    p->b = malloc(products_b_count(p) * nbytes);
    p->c = p->beta != 0 ? malloc(products_d_count(p) * nbytes) : NULL;
    p->rows = malloc((size_t)p->nrows * sizeof *p->rows);
    p->columns = malloc((size_t)p->ncolumns * sizeof *p->columns);
    p->sum = malloc(count * sizeof *p->sum);
    p->magnitude = malloc(count * sizeof *p->magnitude);
    return p->a && p->b && (p->c || p->beta == 0) && p->rows && p->columns && p->sum &&
           p->magnitude;
}

void products_destroy(struct products *p)
{
    free(p->a);
    free(p->b);
    free(p->c);
    free(p->rows);
    free(p->columns);
    free(p->sum);
    free(p->magnitude);
    *p = (struct products){0};
}

/* ------------------------------------------------------------------------------------- the data */

struct filling {
    const struct element *element;
    char *out;
    uint64_t key;
};

/* Two independent normal numbers, by the method of Box and Muller. */
static void normal_pair(uint64_t h, union element_number out[2])
{
    const double uniform = ((double)(h >> 32) + 1) * 0x1p-32, angle = (double)(uint32_t)h * 0x1p-32,
                 radius = sqrt(-2 * log(uniform));

    out[0].real = radius * cos(2 * 3.14159265358979323846 * angle);
    out[1].real = radius * sin(2 * 3.14159265358979323846 * angle);
}

/* Items are pairs of numbers. */
static void fill_part(void *argument, int part, size_t begin, size_t end)
{
    const struct filling *f = argument;
    union element_number x[BLOCK];

    (void)part;
    for (size_t at = begin; at < end; at += BLOCK / 2) {
        const size_t n = end - at < BLOCK / 2 ? end - at : BLOCK / 2;

        for (size_t i = 0; i < n; i++)
            normal_pair(sums_seed(f->key, at + i), x + 2 * i);
        element_narrow(f->element, x, f->out + 2 * at * f->element->nbytes, 2 * n);
    }
}

static void fill(const struct element *e, char *out, size_t count, uint64_t key)
{
    union element_number last[2];
    struct filling f = {e, out, key};

    parallel_run(count / 2, LEAST_FILLED, fill_part, &f);
    if (count % 2 == 0)
        return;
    normal_pair(sums_seed(key, count / 2), last);
    element_narrow(e, last, out + (count - 1) * e->nbytes, 1);
}

void products_fill(struct products *p, uint64_t seed, int rank)
{
    const uint64_t mine = sums_seed(seed, (uint64_t)rank + 3);

    fill(p->element, p->a, products_a_count(p), sums_seed(seed, 0));
    fill(p->element, p->b, products_b_count(p), sums_seed(mine, 1));
    if (p->c)
        fill(p->element, p->c, products_d_count(p), sums_seed(mine, 2));
}

/* -------------------------------------------------------------------------------- the reference */

/* Chooses one of each `step` indices. */
static void choose(int *out, int n, int step, int all, uint64_t key)
{
    for (int i = 0; i < n; i++) {
        const int first = i * step, width = all - first < step ? all - first : step;

        out[i] = first + (int)(sums_seed(key, (uint64_t)i) % (uint64_t)width);
    }
}

struct referring {
    struct products *p;
    int l;
    const float *columns; /* [k, ncolumns]: the chosen ones of b */
};

static float widened(const struct element *e, const char *at)
{
    union element_number x;

    element_widen(e, at, &x, 1);
    return (float)x.real;
}

/* Items are the chosen rows. */
static void refer_part(void *argument, int part, size_t begin, size_t end)
{
    const struct referring *r = argument;
    const struct products *p = r->p;
    const size_t n = (size_t)p->ncolumns, k = (size_t)p->k, nbytes = p->element->nbytes;

    (void)part;
    for (size_t i = begin; i < end; i++) {
        const size_t row = (size_t)r->l * (size_t)p->m + (size_t)p->rows[i],
                     at = ((size_t)r->l * (size_t)p->nrows + i) * n;
        double *sum = p->sum + at, *magnitude = p->magnitude + at;

        memset(sum, 0, n * sizeof *sum);
        memset(magnitude, 0, n * sizeof *magnitude);
        for (size_t j = 0; j < k; j++) {
            const double a = (double)widened(p->element, p->a + (row * k + j) * nbytes);
            const float *b = r->columns + j * n;

            for (size_t column = 0; column < n; column++) {
                sum[column] += a * (double)b[column];
                magnitude[column] += fabs(a * (double)b[column]);
            }
        }
    }
}

/* Items are the rows of b. */
static void take_columns(void *argument, int part, size_t begin, size_t end)
{
    const struct referring *r = argument;
    const struct products *p = r->p;
    const size_t nbytes = p->element->nbytes, n = (size_t)p->n;
    float *out = (float *)(uintptr_t)r->columns;

    (void)part;
    for (size_t j = begin; j < end; j++) {
        const char *row = p->b + ((size_t)r->l * (size_t)p->k + j) * n * nbytes;

        for (size_t i = 0; i < (size_t)p->ncolumns; i++)
            out[j * (size_t)p->ncolumns + i] =
                widened(p->element, row + (size_t)p->columns[i] * nbytes);
    }
}

bool products_refer(struct products *p, uint64_t seed)
{
    float *columns = malloc((size_t)p->k * (size_t)p->ncolumns * sizeof *columns);
    struct referring r = {.p = p, .columns = columns};

    if (!columns)
        return false;
    choose(p->rows, p->nrows, p->step, p->m, sums_seed(seed, 0));
    choose(p->columns, p->ncolumns, p->step, p->n, sums_seed(seed, 1));
    for (r.l = 0; r.l < p->l; r.l++) {
        parallel_run((size_t)p->k, LEAST_ROWS, take_columns, &r);
        parallel_run((size_t)p->nrows, LEAST_ROWS, refer_part, &r);
    }
    free(columns);
    return true;
}

/* ------------------------------------------------------------------------------------ the check */

/* The value of the element `at` of d, whose reference is number `i`, before its rounding. */
static double expect(const struct products *p, size_t i, size_t at, double *error)
{
    union element_number c = {.real = 0};

    if (p->c)
        element_widen(p->element, p->c + at * p->element->nbytes, &c, 1);
    *error = p->eps * (fabs(p->alpha) * p->magnitude[i] + fabs(p->beta * c.real));
    return p->alpha * p->sum[i] + p->beta * c.real;
}

/* Compares one element; returns whether it is wrong. */
static bool is_wrong(const struct products *p, size_t i, size_t at, const char *d,
                     struct products_verdict *v)
{
    const char *mine = d + at * p->element->nbytes;
    union element_number got;
    double error, value = expect(p, i, at, &error), expected;

    element_widen(p->element, mine, &got, 1);
    if (element_is_near(p->element, got.real, value, error))
        return false;
    if (v->wrong == 0) {
        v->off = fabs(got.real - value);
        v->bound = error + element_ulp(p->element, fabs(value) + error) / 2;
        element_narrow(p->element, &(union element_number){.real = value}, &expected, 1);
        element_print(p->element, mine, v->got);
        element_print(p->element, &expected, v->expected);
    }
    return true;
}

void products_check(const struct products *p, const void *d, struct products_verdict *out)
{
    size_t i = 0;

    *out = (struct products_verdict){0};
    for (int l = 0; l < p->l; l++) {
        for (int r = 0; r < p->nrows; r++) {
            for (int c = 0; c < p->ncolumns; c++, i++) {
                const size_t row = (size_t)l * (size_t)p->m + (size_t)p->rows[r],
                             at = row * (size_t)p->n + (size_t)p->columns[c];

                if (!is_wrong(p, i, at, d, out))
                    continue;
                if (out->wrong++ > 0)
                    continue;
                out->l = l;
                out->row = p->rows[r];
                out->column = p->columns[c];
            }
        }
    }
}
