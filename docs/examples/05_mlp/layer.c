#include "layer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "numbers.h"

enum { W1, B1, W2, X }; /* series of random numbers; X + step is that of a step */

/* As symm/matmul.h has it for rows: as even as it goes, the first ones having one more. */
static part part_of(int64_t all, int rank, int nranks)
{
    const int64_t each = all / nranks, more = all % nranks;

    return (part){rank * each + (rank < more ? rank : more), each + (rank < more)};
}

static symm_bf16 *elements(int64_t rows, int64_t columns)
{
    return calloc((size_t)(rows * columns) + 1, sizeof(symm_bf16)); /* also where there are none */
}

int layer_create(layer *l, int argc, char **argv, const int64_t sizes[3], int rank, int nranks)
{
    *l = (layer){.rank = rank,
                 .nranks = nranks,
                 .m = argc > 1 ? atoll(argv[1]) : sizes[0],
                 .k = argc > 2 ? atoll(argv[2]) : sizes[1],
                 .f = argc > 3 ? atoll(argv[3]) : sizes[2]};
    if (l->m < 1 || l->k < 1 || l->f < nranks) {
        fprintf(stderr, "usage: %s [m [k [f]]], f at least the number of ranks\n", argv[0]);
        return 2;
    }
    l->rows = part_of(l->m, rank, nranks);
    l->columns = part_of(l->f, rank, nranks);
    l->x = elements(l->rows.count, l->k);
    l->w1 = elements(l->k, l->columns.count);
    l->b1 = elements(1, l->columns.count);
    l->h = elements(l->m, l->columns.count);
    l->w2 = elements(l->columns.count, l->k);
    l->y = elements(l->rows.count, l->k);
    if (l->x && l->w1 && l->b1 && l->h && l->w2 && l->y)
        return 0;
    fprintf(stderr, "%s: out of memory\n", argv[0]);
    return 1;
}

static symm_bf16 x_at(const layer *l, int step, int64_t i, int64_t j)
{
    return to_bf16(random_number(l->seed, (uint64_t)(X + step), (uint64_t)(i * l->k + j)));
}

/* Sums of k such products are neither all small nor all large. */
static symm_bf16 w1_at(const layer *l, int64_t i, int64_t j)
{
    return to_bf16(random_number(l->seed, W1, (uint64_t)(i * l->f + j)) * 4 / sqrtf((float)l->k));
}

void layer_fill_weights(layer *l, uint64_t seed)
{
    const int64_t n = l->columns.count, first = l->columns.first;

    l->seed = seed;
    for (int64_t i = 0; i < l->k; i++)
        for (int64_t j = 0; j < n; j++)
            l->w1[i * n + j] = w1_at(l, i, first + j);
    for (int64_t j = 0; j < n; j++)
        l->b1[j] = to_bf16(random_number(seed, B1, (uint64_t)(first + j)));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < l->k; j++)
            l->w2[i * l->k + j] =
                to_bf16(random_number(seed, W2, (uint64_t)((first + i) * l->k + j)) * 4 /
                        sqrtf((float)l->f));
}

void layer_fill_rows(layer *l, int step)
{
    for (int64_t i = 0; i < l->rows.count; i++)
        for (int64_t j = 0; j < l->k; j++)
            l->x[i * l->k + j] = x_at(l, step, l->rows.first + i, j);
}

/* Column j of a row of h. sum: what comes of x and W1; size: of the absolute values. */
static int is_wrong(const layer *l, double got, int64_t j, double sum, double size)
{
    const double b1 = (double)from_bf16(l->b1[j]), before = sum + b1,
                 want = 0.5 * before * (1 + erf(before / sqrt(2)));
    /*
     * Each of k + 2 roundings in fp32, which GELU makes at most 1.13 times as large; GELU itself,
     * where 1 + erf may be a small difference; the rounding of h to 8 bits.
     */
    const double within = 1.13 * (double)(l->k + 2) * 0x1p-23 * (size + fabs(b1)) +
                          fabs(before) * 0x1p-21 + fabs(want) * 0x1p-8;

    return !(fabs(got - want) <= within);
}

/* sum, size: room for as many numbers as there are columns. */
static long wrong_in_row(const layer *l, int step, int64_t i, double *sum, double *size)
{
    const int64_t n = l->columns.count;
    long wrong = 0;

    memset(sum, 0, (size_t)n * sizeof *sum);
    memset(size, 0, (size_t)n * sizeof *size);
    for (int64_t k = 0; k < l->k; k++) {
        const double x = (double)from_bf16(x_at(l, step, i, k));
        for (int64_t j = 0; j < n; j++) {
            const double product = x * (double)from_bf16(l->w1[k * n + j]);
            sum[j] += product;
            size[j] += fabs(product);
        }
    }
    for (int64_t j = 0; j < n; j++)
        wrong += is_wrong(l, (double)from_bf16(l->h[i * n + j]), j, sum[j], size[j]);
    return wrong;
}

static symm_status count_wrong_of_h(const layer *l, int step, int64_t apart, long *wrong)
{
    const size_t n = (size_t)l->columns.count;
    double *sum = malloc(n * sizeof *sum), *size = malloc(n * sizeof *size);
    const symm_status st = sum && size ? SYMM_OK : SYMM_ERROR_MEMORY;

    for (int64_t i = 0; st == SYMM_OK && i < l->m; i += apart)
        *wrong += wrong_in_row(l, step, i, sum, size);
    free(sum);
    free(size);
    return st;
}

/* An element of this rank's h W2, and the sum of the absolute values. */
typedef struct partial {
    double sum, size;
} partial;

static void multiply_row(const layer *l, int64_t i, partial *out)
{
    memset(out, 0, (size_t)l->k * sizeof *out);
    for (int64_t f = 0; f < l->columns.count; f++) {
        const double h = (double)from_bf16(l->h[i * l->columns.count + f]);
        for (int64_t j = 0; j < l->k; j++) {
            const double product = h * (double)from_bf16(l->w2[f * l->k + j]);
            out[j].sum += product;
            out[j].size += fabs(product);
        }
    }
}

/* Column j of a row of y, of all ranks' partial sums [nranks, k]. */
static int is_wrong_sum(const layer *l, double got, int64_t j, const partial *all)
{
    double want = 0, size = 0, within = 0;

    for (int r = 0; r < l->nranks; r++) {
        const partial *p = &all[r * l->k + j];
        want += p->sum;
        size += p->size;
        within += fabs(p->sum) * 0x1p-8; /* each partial sum is a bfloat16 */
    }
    within += (double)(l->f + l->nranks + 2) * 0x1p-23 * size + fabs(want) * 0x1p-8;
    return !(fabs(got - want) <= within);
}

/* All ranks together: each brings its partial sums of a row, and the row's rank checks it. */
static symm_status count_wrong_of_y(const layer *l, symm_group *group, int64_t apart, long *wrong)
{
    const size_t nbytes = (size_t)l->k * sizeof(partial);
    partial *mine = malloc(nbytes), *all = malloc(nbytes * (size_t)l->nranks);
    symm_status st = mine && all ? SYMM_OK : SYMM_ERROR_MEMORY;

    for (int64_t i = 0; st == SYMM_OK && i < l->m; i += apart) {
        const int64_t row = i - l->rows.first;
        multiply_row(l, i, mine);
        st = symm_exchange(group, mine, nbytes, all);
        for (int64_t j = 0; st == SYMM_OK && row >= 0 && row < l->rows.count && j < l->k; j++)
            *wrong += is_wrong_sum(l, (double)from_bf16(l->y[row * l->k + j]), j, all);
    }
    free(mine);
    free(all);
    return st;
}

symm_status layer_count_wrong(const layer *l, symm_group *group, int step, int64_t rows,
                              long *wrong)
{
    const int64_t apart = rows < l->m ? l->m / rows : 1;
    symm_status st = count_wrong_of_h(l, step, apart, wrong);

    return st == SYMM_OK ? count_wrong_of_y(l, group, apart, wrong) : st;
}

void layer_destroy(layer *l)
{
    free(l->x);
    free(l->w1);
    free(l->b1);
    free(l->h);
    free(l->w2);
    free(l->y);
}
