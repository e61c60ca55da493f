/* Random inputs of a reduction over ranks, and the check of its result, in blocks that stay in the
 * cache. */
#include "sums.h"

#include <math.h>
#include <string.h>
#include "parallel.h"

enum { BLOCK = 1024, LEAST_A_THREAD = 64 * BLOCK };

/* One part of the elements, for one thread. `got` NULL: fill `out`. */
struct part {
    const struct element *e;
    const char *got;
    char *out;
    size_t begin, end;
    struct sums_asked asked;
    struct sums_verdict verdict;
};

uint64_t sums_mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xe9846af9b1a615d5u;
    x ^= x >> 32;
    x *= 0xe9846af9b1a615d5u;
    return x ^ x >> 28;
}

uint64_t sums_seed(uint64_t seed, uint64_t use)
{
    return sums_mix(seed + sums_mix(use + 1) * 0x9e3779b97f4a7c15u);
}

/*
 * A sum of four uniform numbers is bell-shaped, but has 18 bits: sums of such numbers would be
 * exact in fp32 in any order. The factor from [0.5, 1) fills the fraction.
 */
static double bell_shaped(uint64_t h)
{
    const int32_t bell = (int32_t)(h & 0xffff) + (int32_t)(h >> 16 & 0xffff) +
                         (int32_t)(h >> 32 & 0xffff) + (int32_t)(h >> 48) - 131070;
    const double factor = (double)(h * 0xd6e8feb86659fd93u >> 12) * 0x1p-53 + 0.5;
    return bell * (1.0 / 131070) * factor;
}

/* The inputs of sums_fill(). At most BLOCK of them. */
static void random_block(const struct element *e, uint64_t seed, int rank, size_t first, size_t n,
                         void *out)
{
    const uint64_t key = sums_seed(seed, (uint64_t)rank);
    union element_number x[BLOCK];

    for (size_t i = 0; i < n; i++) {
        const uint64_t h = sums_mix(key + (first + i) * 0x9e3779b97f4a7c15u);

        if (e->integer)
            x[i].whole = (int64_t)h;
        else
            x[i].real = bell_shaped(h);
    }
    element_narrow(e, x, out, n);
}

void sums_inputs(const struct element *e, uint64_t seed, int rank, size_t first, size_t n,
                 void *out)
{
    for (size_t i = 0; i < n; i += BLOCK)
        random_block(e, seed, rank, first + i, n - i < BLOCK ? n - i : BLOCK,
                     (char *)out + i * e->nbytes);
}

static void fill_part(struct part *p)
{
    sums_inputs(p->e, p->asked.seed, p->asked.rank, p->begin, p->end - p->begin,
                p->out + p->begin * p->e->nbytes);
}

/* The right results of a block. */
struct reference {
    union element_number in_order[BLOCK]; /* in rank order, in the type of the arithmetic */
    union element_number mine[BLOCK];     /* the input of rank q->mine */
    double sum[BLOCK], magnitude[BLOCK];  /* of floating types: of the inputs, of their sizes */
};

/* A double operation that is rounded to fp32 equals the operation in fp32. */
static double rounded(const struct element *e, double x)
{
    return e->dtype == SYMM_FLOAT64 ? x : (float)x;
}

static void fold_integers(symm_redop op, union element_number *into, const union element_number *x,
                          size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int64_t a = into[i].whole, b = x[i].whole;

        into[i].whole = op == SYMM_MIN   ? (a < b ? a : b)
                        : op == SYMM_MAX ? (a > b ? a : b)
                                         : (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

static void fold_reals(const struct element *e, symm_redop op, union element_number *into,
                       const union element_number *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double a = into[i].real, b = x[i].real;
        const bool keeps_a = op == SYMM_MIN ? a < b : a > b;

        /* Of equal numbers min and max keep the later one; of a number and a NaN the number. */
        if (op == SYMM_SUM || op == SYMM_AVG)
            into[i].real = rounded(e, a + b);
        else if (!keeps_a && !isnan(b))
            into[i].real = b;
    }
}

/* The further calls of a chain of integer sums. */
static void chain_integers(const struct sums_asked *q, struct reference *ref, size_t n)
{
    const uint64_t further = q->links > 1 ? (uint64_t)q->links - 1 : 0;
    uint64_t times = 1;

    for (uint64_t link = 0; link < further; link++)
        times *= (uint64_t)q->nranks;
    for (size_t i = 0; i < n; i++) {
        const uint64_t sum = (uint64_t)ref->in_order[i].whole;

        ref->in_order[i].whole =
            (int64_t)(q->alone ? sum + further * (sum - (uint64_t)ref->mine[i].whole)
                               : sum * times);
    }
}

static void reference_block(const struct part *p, size_t at, size_t n, struct reference *ref)
{
    const struct sums_asked *q = &p->asked;
    const sums_source source = q->source ? q->source : random_block;
    const bool real = !p->e->integer;
    union element_number x[BLOCK];
    char narrow[sizeof x];

    for (int r = 0; r < q->nranks; r++) {
        source(p->e, q->seed, q->rank + r, q->first + at, n, narrow);
        element_widen(p->e, narrow, r == 0 ? ref->in_order : x, n);
        if (q->alone && r == q->mine - q->rank)
            element_widen(p->e, narrow, ref->mine, n);
        if (r > 0 && real)
            fold_reals(p->e, q->op, ref->in_order, x, n);
        if (r > 0 && !real)
            fold_integers(q->op, ref->in_order, x, n);
        for (size_t i = 0; real && i < n; i++) {
            const double each = r == 0 ? ref->in_order[i].real : x[i].real;

            ref->sum[i] = r == 0 ? each : ref->sum[i] + each;
            ref->magnitude[i] = r == 0 ? fabs(each) : ref->magnitude[i] + fabs(each);
        }
    }
    for (size_t i = 0; q->op == SYMM_AVG && i < n; i++)
        ref->in_order[i].real = rounded(p->e, ref->in_order[i].real / q->nranks);
    if (q->links > 1 && !real && q->op == SYMM_SUM)
        chain_integers(q, ref, n);
}

/* Whether ref->in_order is the only right result. */
static bool is_exact(const struct part *p)
{
    const struct sums_asked *q = &p->asked;

    return p->e->integer || q->op == SYMM_MIN || q->op == SYMM_MAX ||
           (q->rule == SUMS_EXACT && q->links <= 1);
}

/* A number, and its largest right error. */
struct estimate {
    double value, bound;
};

/* Of the type in which the rule adds. */
static int addition_bits(const struct part *p)
{
    return p->asked.rule != SUMS_TYPE && p->e->fraction_bits < 23 ? 23 : p->e->fraction_bits;
}

/* Of each call whose elements are divided in the type: quotients of the smallest have few bits. */
static double smallest_quotients(const struct part *p)
{
    const struct sums_asked *q = &p->asked;

    return q->op == SYMM_AVG && q->rule == SUMS_TYPE ? q->nranks * element_ulp(p->e, 0) : 0;
}

/* A sum or an average of floating numbers, by one call. */
static struct estimate estimate_call(const struct part *p, double sum, double magnitude)
{
    const struct sums_asked *q = &p->asked;
    struct estimate x = {sum, (q->nranks - 1) * exp2(-addition_bits(p)) * magnitude +
                                  element_ulp(p->e, sum)};

    if (q->op == SYMM_AVG) {
        x.value /= q->nranks;
        x.bound = x.bound / q->nranks + element_ulp(p->e, x.value) + smallest_quotients(p);
    }
    return x;
}

/*
 * What the further calls of a chain add to a number, over its size. Each adds nranks equal numbers:
 * nranks - 1 additions, each rounded, and then a rounding to the type, of an average one before and
 * one behind the division. A rounding changes the size by a factor of at most 1 + u, u half an ulp
 * of 1. Small numbers of the type are no exception: they have sums without a rounding.
 */
static double growth_of_chain(const struct part *p)
{
    const struct sums_asked *q = &p->asked;
    const double addition = log1p(exp2(-addition_bits(p) - 1)),
                 rounding = log1p(exp2(-p->e->fraction_bits - 1));

    return expm1((q->links - 1) *
                 ((q->nranks - 1) * addition + (q->op == SYMM_AVG ? 2 : 1) * rounding));
}

/* A sum or an average by a chain of calls. */
static struct estimate estimate(const struct part *p, double sum, double magnitude)
{
    const struct sums_asked *q = &p->asked;
    const double times = q->op == SYMM_SUM ? pow(q->nranks, q->links - 1) : 1;
    struct estimate x = estimate_call(p, sum, magnitude);

    if (q->links > 1) {
        x.bound += (q->links - 1) * smallest_quotients(p);
        x.bound += growth_of_chain(p) * (fabs(x.value) + x.bound);
        x.value *= times;
        x.bound *= times;
    }
    return x;
}

/* The same by a chain of one rank's elements alone. */
static struct estimate estimate_alone(const struct part *p, double sum, double magnitude,
                                      double mine)
{
    const struct sums_asked *q = &p->asked;
    const double inherited = q->op == SYMM_AVG ? 1.0 / q->nranks : 1;
    struct estimate x = estimate_call(p, sum, magnitude);

    for (int link = 1; link < q->links; link++) {
        const double before = x.bound, most = magnitude - fabs(mine) + fabs(x.value) + before;

        x = estimate_call(p, sum - mine + x.value, most);
        /* Both are inherited: the error before, and that of the others' sum, which counts in fp64:
         * it is a difference of numbers as large as the magnitude. */
        x.bound += inherited * (before + q->nranks * 0x1p-53 * magnitude);
    }
    return x;
}

static void note_wrong(struct part *p, size_t at, const void *got, const void *expected)
{
    if (p->verdict.wrong++ > 0)
        return;
    p->verdict.first = at;
    element_print(p->e, got, p->verdict.got);
    element_print(p->e, expected, p->verdict.expected);
}

/* Whether the only right value is `expected`. */
static bool is_expected(const struct part *p, const char *got, const char *expected)
{
    union element_number a, b;

    if (memcmp(got, expected, p->e->nbytes) == 0)
        return true;
    if (p->e->integer)
        return false;
    element_widen(p->e, got, &a, 1);
    element_widen(p->e, expected, &b, 1);
    if (isnan(b.real))
        return isnan(a.real);
    return p->asked.rule == SUMS_SWITCH && a.real == b.real; /* the sign of a zero */
}

/* Whether element i of a block is within its bound. */
static bool is_near(const struct part *p, const char *got, const struct reference *ref, size_t i,
                    char expected[sizeof(double)])
{
    const struct estimate x =
        p->asked.alone ? estimate_alone(p, ref->sum[i], ref->magnitude[i], ref->mine[i].real)
                       : estimate(p, ref->sum[i], ref->magnitude[i]);
    union element_number a;

    element_widen(p->e, got, &a, 1);
    element_narrow(p->e, &(union element_number){.real = x.value}, expected, 1);
    if (isnan(x.value))
        return isnan(a.real);
    return isinf(x.value) ? a.real == x.value : fabs(a.real - x.value) <= x.bound;
}

static void check_part(struct part *p)
{
    const bool exact = is_exact(p);
    const size_t nbytes = p->e->nbytes;
    struct reference ref;
    char expected[sizeof ref.in_order], *want;

    for (size_t at = p->begin; at < p->end; at += BLOCK) {
        const size_t n = p->end - at < BLOCK ? p->end - at : BLOCK;
        const char *got = p->got + at * nbytes;

        reference_block(p, at, n, &ref);
        element_narrow(p->e, ref.in_order, expected, n);
        if ((exact || p->asked.links <= 1) && memcmp(got, expected, n * nbytes) == 0)
            continue; /* right by every rule */
        for (size_t i = 0; i < n; i++, got += nbytes) {
            want = expected + i * nbytes;
            if (exact ? !is_expected(p, got, want) : !is_near(p, got, &ref, i, want))
                note_wrong(p, at + i, got, want);
        }
    }
}

static void run_part(void *parts, int index, size_t begin, size_t end)
{
    struct part *p = (struct part *)parts + index;

    p->begin = begin;
    p->end = end;
    if (p->got)
        check_part(p);
    else
        fill_part(p);
}

/* Splits count elements into parts that are all like this one. Returns their number. */
static int run_parts(const struct part *whole, size_t count, struct part parts[PARALLEL_MAX])
{
    for (int i = 0; i < PARALLEL_MAX; i++)
        parts[i] = *whole;
    return parallel_run(count, LEAST_A_THREAD, run_part, parts);
}

void sums_fill(const struct element *e, void *out, size_t count, uint64_t seed, int rank)
{
    struct part parts[PARALLEL_MAX];

    run_parts(&(struct part){.e = e, .out = out, .asked = {.seed = seed, .rank = rank}}, count,
              parts);
}

void sums_check(const struct element *e, const void *got, size_t count,
                const struct sums_asked *asked, struct sums_verdict *out)
{
    struct part parts[PARALLEL_MAX];
    struct part whole = {.e = e, .got = got, .asked = *asked};
    int nparts = run_parts(&whole, count, parts);

    *out = (struct sums_verdict){0};
    for (int i = 0; i < nparts; i++) {
        if (out->wrong == 0)
            *out = parts[i].verdict;
        else
            out->wrong += parts[i].verdict.wrong;
    }
}
