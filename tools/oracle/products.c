/* The memory of products, and the check of their results. */
#include "products.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_STEP = 64 /* so that every tile of 64 x 64 has a compared element */ };

/* Limits of a reference: multiplications, and elements. */
static const uint64_t most_products = (uint64_t)1 << 30, most_elements = (uint64_t)1 << 22;

size_t products_a_count(const struct products *p)
{
    return (size_t)p->l * (size_t)p->m * (size_t)p->k;
}

size_t products_b_count(const struct products *p)
{
    return (size_t)p->l * (size_t)p->k * (size_t)p->own.columns;
}

size_t products_c_count(const struct products *p)
{
    return (size_t)p->l * (size_t)p->own.rows * (size_t)p->own.columns;
}

size_t products_d_count(const struct products *p)
{
    return (size_t)p->l * (size_t)p->own.rows * (size_t)p->n;
}

size_t products_compared(const struct products *p)
{
    return (size_t)p->l * (size_t)p->nrows * (size_t)p->ncolumns;
}

double products_eps(int64_t k)
{
    return sqrt((double)k) * 0x1p-21;
}

/* ----------------------------------------------------------------------------------- the memory */

static int divide_up(int a, int b)
{
    return a / b + (a % b != 0);
}

/* The products that an element of d adds up, over k. */
static int terms(const struct products *p)
{
    return kind_sums(p->kind) ? p->nranks : 1;
}

static bool fits(const struct products *p, int step)
{
    const uint64_t elements =
        (uint64_t)p->l * (uint64_t)divide_up(p->own.rows, step) * (uint64_t)divide_up(p->n, step);

    return elements <= most_elements &&
           elements * (uint64_t)p->k * (uint64_t)terms(p) <= most_products;
}

/* At least one byte, so that NULL says that memory is short. */
static void *room(size_t count, size_t nbytes)
{
    return malloc(count > 0 ? count * nbytes : 1);
}

static bool make_matrices(struct products *p)
{
    const size_t nbytes = p->element->nbytes;

    if (p->reference_only)
        return true;
    p->a = room(products_a_count(p), nbytes);
    p->b = room(products_b_count(p), nbytes);
    p->c = p->beta != 0 ? room(products_c_count(p), nbytes) : NULL;
    return p->a && p->b && (p->c || p->beta == 0);
}

bool products_create(struct products *p)
{
    if (p->nranks == 0)
        p->nranks = 1;
    p->own = extents_of(p->kind, p->m, p->n, p->nranks, p->rank);
    p->step = 1;
    while (p->step < MAX_STEP && !fits(p, p->step))
        p->step *= 2;
    p->nrows = divide_up(p->own.rows, p->step);
    p->ncolumns = divide_up(p->n, p->step);
    const size_t count = products_compared(p);
    p->rows = room((size_t)p->nrows, sizeof *p->rows);
    p->columns = room((size_t)p->ncolumns, sizeof *p->columns);
    p->sum = room(count, sizeof *p->sum);
    p->magnitude = room(count, sizeof *p->magnitude);
    p->rounding = room(count, sizeof *p->rounding);
    p->addend = room(count, sizeof *p->addend);
    p->part = room(count, sizeof *p->part);
    return make_matrices(p) && p->rows && p->columns && p->sum && p->magnitude && p->rounding &&
           p->addend && p->part;
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
    free(p->rounding);
    free(p->addend);
    free(p->part);
    *p = (struct products){0};
}

/* ------------------------------------------------------------------------------------ the check */

/* The value of an element of d, whose reference is number `i`, before its rounding. */
static double expect(const struct products *p, size_t i, int roundings, double *error)
{
    const double c = p->beta * p->addend[i];

    *error = p->eps * (fabs(p->alpha) * p->magnitude[i] + fabs(c)) + roundings * p->rounding[i];
    return p->alpha * p->sum[i] + c;
}

/* Compares one element; returns whether it is wrong. */
static bool is_wrong(const struct products *p, size_t i, const char *mine, int roundings,
                     struct products_verdict *v)
{
    union element_number got;
    double error, value = expect(p, i, roundings, &error), expected;

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

void products_check(const struct products *p, const void *d, int roundings,
                    struct products_verdict *out)
{
    size_t i = 0;

    *out = (struct products_verdict){0};
    for (int l = 0; l < p->l; l++) {
        for (int r = 0; r < p->nrows; r++) {
            for (int c = 0; c < p->ncolumns; c++, i++) {
                const size_t at =
                    matrix_at(p->d_by_columns, p->own.rows, p->n, l, p->rows[r], p->columns[c]);
                const char *mine = (const char *)d + at * p->element->nbytes;

                if (!is_wrong(p, i, mine, roundings, out))
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
