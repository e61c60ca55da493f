#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "numbers.h"

enum { GAINS = SYMM_MAX_RANKS, TOKENS }; /* series of random numbers; TOKENS + step is a step's */

static symm_bf16 *elements(int64_t rows, int64_t columns)
{
    return calloc((size_t)(rows * columns), sizeof(symm_bf16));
}

int model_create(model *m, int argc, char **argv, const int64_t sizes[3], int rank, int nranks)
{
    int there = 1;

    *m = (model){.rank = rank,
                 .nranks = nranks,
                 .tokens = argc > 1 ? atoll(argv[1]) : sizes[0],
                 .hidden = argc > 2 ? atoll(argv[2]) : sizes[1],
                 .columns = argc > 3 ? atoll(argv[3]) : sizes[2],
                 .eps = 1e-6f};
    if (m->tokens < 1 || m->hidden < 1 || m->columns < 1) {
        fprintf(stderr, "usage: %s [tokens [hidden [columns of W1 on a rank]]]\n", argv[0]);
        return 2;
    }
    for (weights *w = m->layer; w < m->layer + LAYERS; w++) {
        w->w1 = elements(m->hidden, m->columns);
        w->w2 = elements(m->columns, m->hidden);
        w->gain = elements(1, m->hidden);
        there = there && w->w1 && w->w2 && w->gain;
    }
    for (state *s = m->states; s <= m->states + LAYERS; s++) {
        s->residual = elements(m->tokens, m->hidden);
        s->h = elements(m->tokens, m->hidden);
        there = there && s->residual && s->h;
    }
    if (there)
        return 0;
    fprintf(stderr, "%s: out of memory\n", argv[0]);
    return 1;
}

/* Goes on in a series from element *i. */
static void fill(const model *m, int series, uint64_t *i, symm_bf16 *out, int64_t n, float scale)
{
    for (int64_t j = 0; j < n; j++)
        out[j] = to_bf16(random_number(m->seed, (uint64_t)series, (*i)++) * scale);
}

void model_fill_weights(model *m, uint64_t seed)
{
    /* The scales keep sums over hidden and over all columns near 1. */
    const float in = 4 / sqrtf((float)m->hidden);
    const float out = 4 / sqrtf((float)(m->columns * m->nranks));
    uint64_t own = 0, common = 0;

    m->seed = seed;
    for (weights *w = m->layer; w < m->layer + LAYERS; w++) {
        fill(m, m->rank, &own, w->w1, m->hidden * m->columns, in);
        fill(m, m->rank, &own, w->w2, m->columns * m->hidden, out);
        fill(m, GAINS, &common, w->gain, m->hidden, 1);
    }
}

void model_fill_tokens(model *m, int step)
{
    uint64_t i = 0;

    fill(m, TOKENS + step, &i, m->states[0].residual, m->tokens * m->hidden, 1);
    memcpy(m->states[0].h, m->states[0].residual,
           (size_t)(m->tokens * m->hidden) * sizeof *m->states[0].h);
}

/* A value in double precision, and how far a computed one may be from it. */
typedef struct bounded {
    double value, within;
} bounded;

/* Column j of gelu(h W1). */
static bounded up(const model *m, const weights *w, const symm_bf16 *h, int64_t j)
{
    double sum = 0, size = 0;

    for (int64_t k = 0; k < m->hidden; k++) {
        const double product =
            (double)from_bf16(h[k]) * (double)from_bf16(w->w1[k * m->columns + j]);
        sum += product;
        size += fabs(product);
    }
    const double gelu = 0.5 * sum * (1 + erf(sum / sqrt(2)));
    /*
     * Each of hidden + 2 roundings in fp32, which GELU makes at most 1.13 times as large; GELU
     * itself, where 1 + erf may be a small difference; the rounding to 8 bits.
     */
    return (bounded){gelu, 1.13 * (double)(m->hidden + 2) * 0x1p-23 * size + fabs(sum) * 0x1p-21 +
                               fabs(gelu) * 0x1p-8};
}

/* This rank's partial sums of gelu(h W1) W2 for one token. */
static void multiply(const model *m, const weights *w, const symm_bf16 *h, bounded *out)
{
    memset(out, 0, (size_t)m->hidden * sizeof *out);
    for (int64_t j = 0; j < m->columns; j++) {
        const bounded u = up(m, w, h, j);
        const double error = u.within + (double)(m->columns + 2) * 0x1p-23 * fabs(u.value);
        for (int64_t i = 0; i < m->hidden; i++) {
            const double factor = (double)from_bf16(w->w2[j * m->hidden + i]);
            out[i].value += u.value * factor;
            out[i].within += error * fabs(factor);
        }
    }
    for (int64_t i = 0; i < m->hidden; i++)
        out[i].within += fabs(out[i].value) * 0x1p-8; /* a partial sum is a bfloat16 */
}

/* Wrong elements of a token's new residual, given the partial sums of all ranks. */
static long wrong_sums(const model *m, const bounded *all, const symm_bf16 *before,
                       const symm_bf16 *after)
{
    long wrong = 0;

    for (int64_t i = 0; i < m->hidden; i++) {
        double sum = 0, within = 0;
        for (int r = 0; r < m->nranks; r++) {
            sum += all[r * m->hidden + i].value;
            within += all[r * m->hidden + i].within;
        }
        const double want = (double)from_bf16(before[i]) + sum;
        within += (fabs(sum) + fabs(want)) * 0x1p-8; /* both are rounded to bfloat16 */
        wrong += !(fabs((double)from_bf16(after[i]) - want) <= within);
    }
    return wrong;
}

/* Wrong elements of the norm of a token's residual. */
static long wrong_norms(const model *m, const weights *w, const symm_bf16 *residual,
                        const symm_bf16 *h)
{
    double squares = 0;
    long wrong = 0;

    for (int64_t i = 0; i < m->hidden; i++)
        squares += (double)from_bf16(residual[i]) * (double)from_bf16(residual[i]);
    const double scale = 1 / sqrt(squares / (double)m->hidden + (double)m->eps);
    for (int64_t i = 0; i < m->hidden; i++) {
        const double want = (double)from_bf16(residual[i]) * scale * (double)from_bf16(w->gain[i]);
        wrong += !(fabs((double)from_bf16(h[i]) - want) <= fabs(want) * 0x1p-8 + 0x1p-130);
    }
    return wrong;
}

symm_status model_count_wrong(const model *m, symm_group *group, int64_t token, long *wrong)
{
    const size_t nbytes = (size_t)m->hidden * sizeof(bounded);
    const int64_t row = token * m->hidden;
    bounded *mine = malloc(nbytes), *all = malloc(nbytes * (size_t)m->nranks);
    symm_status st = mine && all ? SYMM_OK : SYMM_ERROR_MEMORY;

    for (int l = 0; st == SYMM_OK && l < LAYERS; l++) {
        const state *before = &m->states[l], *after = &m->states[l + 1];
        multiply(m, &m->layer[l], before->h + row, mine);
        st = symm_exchange(group, mine, nbytes, all);
        if (st != SYMM_OK)
            break;
        *wrong += wrong_sums(m, all, before->residual + row, after->residual + row);
        *wrong += wrong_norms(m, &m->layer[l], after->residual + row, after->h + row);
    }
    free(mine);
    free(all);
    return st;
}

void model_destroy(model *m)
{
    for (weights *w = m->layer; w < m->layer + LAYERS; w++) {
        free(w->w1);
        free(w->w2);
        free(w->gain);
    }
    for (state *s = m->states; s <= m->states + LAYERS; s++) {
        free(s->residual);
        free(s->h);
    }
}
