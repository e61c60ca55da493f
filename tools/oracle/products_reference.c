/* The reference of products, in double precision. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "parallel.h"
#include "products_data.h"
#include "sums.h"

enum { LEAST_ROWS = 1 /* for a thread */ };

/* Chooses one of each `step` indices. */
static void choose(int *out, int n, int step, int all, uint64_t key)
{
    for (int i = 0; i < n; i++) {
        const int first = i * step, width = all - first < step ? all - first : step;

        out[i] = first + (int)(sums_seed(key, (uint64_t)i) % (uint64_t)width);
    }
}

/* The product of one batch by one process, as the rank that has the columns `theirs`. */
struct referring {
    struct products *p;
    int process, l;
    struct extents theirs;
    int first, ncolumns; /* the chosen columns that it computes */
    float *columns;      /* [k, ncolumns]: those of b */
};

/*
 * The largest error in d of rounding a partial sum, before or after it is multiplied by alpha.
 * Below the normal numbers a rounding has a constant error.
 */
static double rounding_of(const struct products *p, double partial)
{
    const struct element *e = p->partial ? p->partial : p->element;
    const double alpha = fabs(p->alpha);

    if (!kind_sums(p->kind) || alpha == 0)
        return 0;
    return ldexp(alpha * fabs(partial), -1 - e->fraction_bits) +
           fmax(alpha, 1) * element_ulp(e, 0) / 2;
}

/* A row of a process's A, by its number in all of its rows. */
struct source {
    int process;
    size_t row;
};

/* The process whose sum a row of d is, by its number in all m. */
static int summing_process(const struct products *p, int row)
{
    const bool all = p->kind == SYMM_MATMUL_ALL_REDUCE;

    return products_process(p, all ? share_owner(p->m, p->nranks, row) : 0);
}

/* The rows of A of which this process adds the products to a row of d. */
static int count_sources(const struct referring *r, int row)
{
    const struct products *p = r->p;
    const bool sent = p->process && kind_sums(p->kind) && r->process != summing_process(p, row);

    return sent ? p->nranks - 1 : 1;
}

/* Number `index` of them. */
static struct source source_of(const struct referring *r, int row, int index)
{
    const struct products *p = r->p;
    const bool gathers = p->kind == SYMM_ALL_GATHER_MATMUL;
    const int owner = share_owner(p->m, p->nranks, row),
              in_share = row - share_begin(p->m, p->nranks, owner);
    const size_t first = (size_t)r->l * (size_t)p->m;

    if (!p->process || !(gathers || kind_sums(p->kind)))
        return (struct source){r->process, first + (size_t)row};
    if (gathers)
        return (struct source){products_process(p, owner),
                               (size_t)r->l * (size_t)share_of(p->m, p->nranks, 0) +
                                   (size_t)in_share};
    const int sent_to = r->process == summing_process(p, row) ? 0 : 1 + index;
    return (struct source){r->process,
                           first + (size_t)(share_begin(p->m, p->nranks, sent_to) + in_share)};
}

/* Adds a row of this rank's product to the sums, from element `at` on. */
static void add_row(const struct referring *r, size_t at)
{
    struct products *p = r->p;

    for (size_t i = at; i < at + (size_t)r->ncolumns; i++) {
        p->sum[i] += p->part[i];
        p->rounding[i] += rounding_of(p, p->part[i]);
    }
}

/* Multiplies n elements of a row of a, from number j of the row on. */
static void multiply(const struct referring *r, const float *a, size_t j, size_t n, size_t at)
{
    const size_t ncolumns = (size_t)r->ncolumns;
    double *part = r->p->part + at, *magnitude = r->p->magnitude + at;

    for (size_t i = 0; i < n; i++) {
        const float *b = r->columns + (j + i) * ncolumns;

        for (size_t column = 0; column < ncolumns; column++) {
            const double x = (double)a[i] * (double)b[column];

            part[column] += x;
            magnitude[column] += fabs(x);
        }
    }
}

/* Adds the products of a row of A to the sums, from element `at` on. */
static void refer_row(const struct referring *r, struct source from, size_t at)
{
    struct products *p = r->p;
    const uint64_t key = products_key(p, from.process, MATRIX_A);
    const size_t k = (size_t)p->k;
    float a[PRODUCTS_BLOCK];

    memset(p->part + at, 0, (size_t)r->ncolumns * sizeof *p->part);
    for (size_t j = 0; j < k; j += PRODUCTS_BLOCK) {
        const size_t n = k - j < PRODUCTS_BLOCK ? k - j : PRODUCTS_BLOCK;

        products_draw(p->element, key, from.row * k + j, n, a);
        multiply(r, a, j, n, at);
    }
    add_row(r, at);
}

/* Items are the chosen rows. */
static void refer_part(void *argument, int part, size_t begin, size_t end)
{
    const struct referring *r = argument;
    const struct products *p = r->p;

    (void)part;
    for (size_t i = begin; i < end; i++) {
        const int row = p->own.first_row + p->rows[i];
        const size_t at =
            ((size_t)r->l * (size_t)p->nrows + i) * (size_t)p->ncolumns + (size_t)r->first;

        for (int s = 0; s < count_sources(r, row); s++)
            refer_row(r, source_of(r, row, s), at);
    }
}

/* Items are the rows of b. */
static void take_columns(void *argument, int part, size_t begin, size_t end)
{
    const struct referring *r = argument;
    const struct products *p = r->p;
    const uint64_t key = products_key(p, r->process, MATRIX_B);
    const int all = p->process ? p->own.columns : r->theirs.columns;

    (void)part;
    for (size_t j = begin; j < end; j++) {
        float *out = r->columns + j * (size_t)r->ncolumns;

        for (int i = 0; i < r->ncolumns; i++) {
            const int column = p->columns[r->first + i] - r->theirs.first_column;

            products_draw(p->element, key,
                          matrix_at(p->b_by_columns, p->k, all, r->l, (int)j, column), 1, out + i);
        }
    }
}

/* Adds what a process contributes to the chosen elements, as a rank. */
static void add_product(struct products *p, int process, int rank, float *columns)
{
    struct referring r = {.p = p, .process = process, .columns = columns};

    r.theirs = extents_of(p->kind, p->m, p->n, p->nranks, rank);
    while (r.first < p->ncolumns && p->columns[r.first] < r.theirs.first_column)
        r.first++;
    while (r.first + r.ncolumns < p->ncolumns &&
           p->columns[r.first + r.ncolumns] < r.theirs.first_column + r.theirs.columns)
        r.ncolumns++;
    for (r.l = 0; r.l < p->l; r.l++) {
        parallel_run((size_t)p->k, LEAST_ROWS, take_columns, &r);
        parallel_run((size_t)p->nrows, LEAST_ROWS, refer_part, &r);
    }
}

/* The rank whose c an element of d gets, by its indices in all m and n. */
static int owner_of(const struct products *p, int row, int column)
{
    return p->kind == SYMM_MATMUL_ALL_REDUCE    ? share_owner(p->m, p->nranks, row)
           : p->kind == SYMM_MATMUL_ALL_SCATTER ? share_owner(p->n, p->nranks, column)
                                                : p->rank;
}

static double addend_of(const struct products *p, int l, int row, int column)
{
    const int owner = owner_of(p, row, column);
    const struct extents e = extents_of(p->kind, p->m, p->n, p->nranks, owner);
    const size_t at = matrix_at(p->d_by_columns, e.rows, e.columns, l, row - e.first_row,
                                column - e.first_column);
    float c;

    products_draw(p->element, products_key(p, products_process(p, owner), MATRIX_C), at, 1, &c);
    return (double)c;
}

/* Items are the chosen rows of all batches. */
static void take_addends(void *argument, int part, size_t begin, size_t end)
{
    const struct products *p = argument;

    (void)part;
    for (size_t i = begin; i < end; i++) {
        const int l = (int)(i / (size_t)p->nrows), row = p->rows[i % (size_t)p->nrows];

        for (int j = 0; j < p->ncolumns; j++)
            p->addend[i * (size_t)p->ncolumns + (size_t)j] =
                p->beta == 0 ? 0 : addend_of(p, l, p->own.first_row + row, p->columns[j]);
    }
}

bool products_refer(struct products *p, uint64_t seed, uint64_t choice)
{
    const bool all = kind_collects(p->kind);
    const bool by_process = p->process && kind_sums(p->kind);
    const int contributors = !all ? 1 : by_process ? 2 : p->nranks;
    const size_t nbytes = products_compared(p) * sizeof *p->sum;
    float *columns = malloc(((size_t)p->k * (size_t)p->ncolumns + 1) * sizeof *columns);

    if (!columns)
        return false;
    p->seed = seed;
    choose(p->rows, p->nrows, p->step, p->own.rows, sums_seed(choice, 0));
    choose(p->columns, p->ncolumns, p->step, p->n, sums_seed(choice, 1));
    memset(p->sum, 0, nbytes);
    memset(p->magnitude, 0, nbytes);
    memset(p->rounding, 0, nbytes);
    for (int i = 0; i < contributors; i++) {
        const int rank = all ? i : p->rank;

        add_product(p, by_process ? i : products_process(p, rank), rank, columns);
    }
    parallel_run((size_t)p->l * (size_t)p->nrows, LEAST_ROWS, take_addends, p);
    free(columns);
    return true;
}
