/* The check of norms: it accepts what is right, and finds each wrong element. */
#include <math.h>
#include <string.h>
#include "oracle/norms.h"
#include "oracle/parallel.h"
#include "test.h"

enum { ROWS = 5, HIDDEN = 37, COUNT = ROWS * HIDDEN, RANKS = 3 };

static uint16_t out[COUNT], residual_out[COUNT], residual[COUNT], weight[HIDDEN];

static double get(const struct element *e, const uint16_t *x)
{
    union element_number number;

    element_widen(e, x, &number, 1);
    return number.real;
}

static void set(const struct element *e, uint16_t *x, double value)
{
    element_narrow(e, &(union element_number){.real = value}, x, 1);
}

/* The results by the definition, an element at a time. */
static struct norms_asked make(const struct element *e, uint64_t seed, bool plain)
{
    uint16_t in[RANKS][COUNT];

    sums_fill(e, residual, COUNT, seed + 1, 0);
    sums_fill(e, weight, HIDDEN, seed + 2, 0);
    for (int r = 0; r < RANKS; r++)
        sums_fill(e, in[r], COUNT, seed, r);
    for (int i = 0; i < COUNT; i++) {
        float sum = (float)get(e, &in[0][i]);
        for (int r = 1; r < RANKS; r++)
            sum += (float)get(e, &in[r][i]);
        set(e, &residual_out[i], (double)sum);
        if (!plain)
            set(e, &residual_out[i],
                (double)((float)get(e, &residual_out[i]) + (float)get(e, &residual[i])));
    }
    for (int i = 0; i < COUNT; i++) {
        double squares = 0;
        for (int j = i / HIDDEN * HIDDEN; j < (i / HIDDEN + 1) * HIDDEN; j++)
            squares += pow(get(e, &residual_out[j]), 2);
        set(e, &out[i],
            get(e, &residual_out[i]) / sqrt(squares / HIDDEN + 0.01) *
                (plain ? 1 : get(e, &weight[i % HIDDEN])));
    }
    return (struct norms_asked){.seed = seed,
                                .nranks = RANKS,
                                .rows = ROWS,
                                .hidden = HIDDEN,
                                .eps = 0.01,
                                .residual = plain ? NULL : residual,
                                .weight = plain ? NULL : weight};
}

static struct norms_verdict check(const struct element *e, const struct norms_asked *asked)
{
    struct norms_verdict verdict;

    norms_check(e, out, residual_out, asked, &verdict);
    return verdict;
}

TEST_GROUP(norms, 20);

TEST_LOOP(norms, right_results_are_right_and_each_wrong_one_is_found, 0, 8)
{
    const struct element *e = element_by_dtype(_i & 1 ? SYMM_BFLOAT16 : SYMM_FLOAT16);
    const struct norms_asked asked = make(e, 77 + (uint64_t)_i, _i & 2);
    struct norms_verdict v;

    parallel_threads(_i & 4 ? 3 : 1);
    v = check(e, &asked);
    ck_assert_uint_eq(v.wrong_norms + v.wrong_residuals, 0);
    for (int i = 0; i < COUNT; i++) {
        out[i] ^= 2; /* two units in the last place */
        v = check(e, &asked);
        ck_assert_uint_eq(v.wrong_norms, 1);
        ck_assert_uint_eq(v.wrong_residuals, 0);
        ck_assert_uint_eq(v.first, i);
        out[i] ^= 2;
        residual_out[i] ^= 1;
        v = check(e, &asked);
        ck_assert_uint_eq(v.wrong_norms, 0);
        ck_assert_uint_eq(v.wrong_residuals, 1);
        ck_assert_uint_eq(v.first, i);
        ck_assert_str_ne(v.got, v.expected);
        residual_out[i] ^= 1;
    }
    memset(out, 0xff, sizeof out); /* NaNs */
    v = check(e, &asked);
    ck_assert_uint_eq(v.wrong_norms, COUNT);
    ck_assert_uint_eq(v.wrong_residuals, 0);
}

TEST(norms, no_rows_are_right)
{
    struct norms_asked asked = make(element_by_dtype(SYMM_BFLOAT16), 1, false);

    asked.rows = 0;
    ck_assert_uint_eq(check(element_by_dtype(SYMM_BFLOAT16), &asked).wrong_norms, 0);
}
