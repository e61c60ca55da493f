#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "numbers.h"

enum { BIAS_GAIN = SYMM_MAX_RANKS }; /* the series behind those of the ranks' x */

int problem_create(problem *p, int argc, char **argv, int rows, int hidden)
{
    *p = (problem){.rows = argc > 1 ? atoi(argv[1]) : rows,
                   .hidden = argc > 2 ? atoi(argv[2]) : hidden,
                   .eps = 1e-6f,
                   .roundings = 1};
    if (p->rows < 1 || p->hidden < 8 || p->hidden % 8 || p->hidden > NORM_HIDDEN_MAX) {
        fprintf(stderr, "usage: %s [rows [hidden]], hidden a multiple of 8 up to %d\n", argv[0],
                NORM_HIDDEN_MAX);
        return 2;
    }
    const uint32_t row = 8 * NORM_PACKS; /* what a thread takes of a row */
    p->threads = ((uint32_t)p->hidden + row - 1) / row;
    p->threads = (p->threads + 31) / 32 * 32;
    p->nbytes = sizeof *p->x * (size_t)p->rows * (size_t)p->hidden;
    p->x = malloc(p->nbytes);
    p->y = malloc(p->nbytes);
    p->bias_gain = malloc(2 * sizeof *p->bias_gain * (size_t)p->hidden);
    if (p->x && p->y && p->bias_gain)
        return 0;
    fprintf(stderr, "%s: out of memory\n", argv[0]);
    return 1;
}

void problem_fill(problem *p, uint64_t seed, int rank)
{
    p->seed = seed;
    for (size_t i = 0; i < p->nbytes / sizeof *p->x; i++)
        p->x[i] = to_bf16(random_number(seed, (uint64_t)rank, i));
    for (size_t i = 0; i < 2 * (size_t)p->hidden; i++)
        p->bias_gain[i] = to_bf16(random_number(seed, BIAS_GAIN, i));
}

long problem_count_wrong(const problem *p, int nranks)
{
    const size_t hidden = (size_t)p->hidden;
    double *sum = malloc(hidden * sizeof *sum), *z = malloc(hidden * sizeof *z);
    long wrong = 0;

    for (size_t row = 0; sum && z && row < (size_t)p->rows; row++) {
        double squares = 0;
        for (size_t i = 0; i < hidden; i++) {
            sum[i] = 0;
            for (int r = 0; r < nranks; r++)
                sum[i] += (double)from_bf16(
                    to_bf16(random_number(p->seed, (uint64_t)r, row * hidden + i)));
            z[i] = sum[i] + (double)from_bf16(p->bias_gain[i]);
            squares += z[i] * z[i];
        }
        const double scale = 1 / sqrt(squares / p->hidden + (double)p->eps);
        for (size_t i = 0; i < hidden; i++) {
            const double factor = scale * (double)from_bf16(p->bias_gain[hidden + i]);
            const double want = z[i] * factor, got = (double)from_bf16(p->y[row * hidden + i]);
            /*
             * A bf16 has 8 bits; the sum may be rounded to one, and y is one. An eighth more,
             * since what the sums of a row have been rounded by is in the factor as well.
             */
            const double within =
                (fabs(sum[i] * factor) + p->roundings * fabs(want)) * 0x1.2p-8 + 1e-6;
            wrong += !(fabs(got - want) <= within);
        }
    }
    if (!sum || !z)
        wrong = -1;
    free(sum);
    free(z);
    return wrong;
}

void problem_destroy(problem *p)
{
    free(p->x);
    free(p->y);
    free(p->bias_gain);
}
