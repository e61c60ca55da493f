/* Random matrices, and the check of their product. */
#include "products.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "parallel.h"
#include "sums.h"

enum {
    BLOCK = 1024,   /* numbers that are converted at once */
    MAX_STEP = 64,  /* so that every tile of 64 x 64 has a compared element */
    LEAST_ROWS = 1, /* for a thread */
    LEAST_FILLED = 128 * BLOCK
};

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

/* ------------------------------------------------------------------------------------- the data */

enum matrix { MATRIX_A, MATRIX_B, MATRIX_C };

/* The number of the process that is a rank. */
static int process_of(const struct products *p, int rank)
{
    if (!p->process)
        return rank;
    return rank == 0 ? p->process - 1 : 2 - p->process;
}

/* From which a process draws the numbers of a matrix. All ranks of an all-gather have one A. */
static uint64_t key_of(const struct products *p, int process, enum matrix matrix)
{
    const uint64_t rest = sums_seed(p->seed, (uint64_t)process + 3);
    const bool shared = matrix == MATRIX_A && p->kind == SYMM_ALL_GATHER_MATMUL && !p->process;

    return sums_seed(shared ? p->seed : rest, matrix);
}

/* Two independent normal numbers, by the method of Box and Muller. */
static void normal_pair(uint64_t h, union element_number out[2])
{
    const double uniform = ((double)(h >> 32) + 1) * 0x1p-32, angle = (double)(uint32_t)h * 0x1p-32,
                 radius = sqrt(-2 * log(uniform));

    out[0].real = radius * cos(2 * 3.14159265358979323846 * angle);
    out[1].real = radius * sin(2 * 3.14159265358979323846 * angle);
}

/* Draws numbers `first` to first + n - 1 of a key: two of each pair. */
static void draw(const struct element *e, uint64_t key, size_t first, size_t n, char *out)
{
    union element_number x[BLOCK + 2];

    for (size_t done = 0; done < n;) {
        const size_t at = first + done, odd = at % 2, rest = n - done,
                     count = rest < BLOCK ? rest : BLOCK;

        for (size_t i = 0; i < odd + count; i += 2)
            normal_pair(sums_seed(key, (at + i) / 2), x + i);
        element_narrow(e, x + odd, out + done * e->nbytes, count);
        done += count;
    }
}

struct filling {
    const struct element *element;
    char *out;
    uint64_t key;
    size_t first; /* of the key's numbers */
};

/* Items are numbers. */
static void fill_part(void *argument, int part, size_t begin, size_t end)
{
    const struct filling *f = argument;

    (void)part;
    draw(f->element, f->key, f->first + begin, end - begin, f->out + begin * f->element->nbytes);
}

/* `count` numbers of a rank's matrix, from number `first` on. */
static void fill(const struct products *p, char *out, int rank, enum matrix matrix, size_t first,
                 size_t count)
{
    struct filling f = {p->element, out, key_of(p, process_of(p, rank), matrix), first};

    parallel_run(count, LEAST_FILLED, fill_part, &f);
}

/* The gathered A. Each rank's rows are the first of its process's. */
static void fill_played(const struct products *p)
{
    const size_t row = (size_t)p->k;
    char *out = p->a;

    for (int l = 0; l < p->l; l++)
        for (int rank = 0; rank < p->nranks; rank++) {
            const size_t count = (size_t)share_of(p->m, p->nranks, rank) * row;

            fill(p, out, rank, MATRIX_A, (size_t)l * (size_t)share_of(p->m, p->nranks, 0) * row,
                 count);
            out += count * p->element->nbytes;
        }
}

void products_fill(struct products *p, uint64_t seed)
{
    p->seed = seed;
    if (p->process && p->kind == SYMM_ALL_GATHER_MATMUL)
        fill_played(p);
    else
        fill(p, p->a, p->rank, MATRIX_A, 0, products_a_count(p));
    fill(p, p->b, p->rank, MATRIX_B, 0, products_b_count(p));
    if (p->c)
        fill(p, p->c, p->rank, MATRIX_C, 0, products_c_count(p));
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

/* The product of one batch by one process, as the rank that has the columns `theirs`. */
struct referring {
    struct products *p;
    int process, l;
    struct extents theirs;
    int first, ncolumns; /* the chosen columns that it computes */
    float *columns;      /* [k, ncolumns]: those of b */
};

/* As draw(), at most BLOCK numbers. */
static void draw_floats(const struct element *e, uint64_t key, size_t first, size_t n, float *out)
{
    union element_number x[BLOCK];
    char elements[BLOCK * sizeof(uint64_t)];

    draw(e, key, first, n, elements);
    element_widen(e, elements, x, n);
    for (size_t i = 0; i < n; i++)
        out[i] = (float)x[i].real;
}

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

    return process_of(p, all ? share_owner(p->m, p->nranks, row) : 0);
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
        return (struct source){process_of(p, owner),
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
    const uint64_t key = key_of(p, from.process, MATRIX_A);
    const size_t k = (size_t)p->k;
    float a[BLOCK];

    memset(p->part + at, 0, (size_t)r->ncolumns * sizeof *p->part);
    for (size_t j = 0; j < k; j += BLOCK) {
        const size_t n = k - j < BLOCK ? k - j : BLOCK;

        draw_floats(p->element, key, from.row * k + j, n, a);
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
    const uint64_t key = key_of(p, r->process, MATRIX_B);
    const int all = p->process ? p->own.columns : r->theirs.columns;

    (void)part;
    for (size_t j = begin; j < end; j++) {
        float *out = r->columns + j * (size_t)r->ncolumns;

        for (int i = 0; i < r->ncolumns; i++) {
            const int column = p->columns[r->first + i] - r->theirs.first_column;

            draw_floats(p->element, key,
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

    draw_floats(p->element, key_of(p, process_of(p, owner), MATRIX_C), at, 1, &c);
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
    float *columns = room((size_t)p->k * (size_t)p->ncolumns, sizeof *columns);

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

        add_product(p, by_process ? i : process_of(p, rank), rank, columns);
    }
    parallel_run((size_t)p->l * (size_t)p->nrows, LEAST_ROWS, take_addends, p);
    free(columns);
    return true;
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
