/* Random inputs of a reduction over ranks, and the check of its result. Works through blocks that
 * stay in the cache. */
#include "sums.h"

#include <math.h>
#include <string.h>
#include <symm/types.h>
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

/* Bijective mixing of 64 bits: every bit of the result depends on every bit of x. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= 0xe9846af9b1a615d5u;
    x ^= x >> 32;
    x *= 0xe9846af9b1a615d5u;
    return x ^ x >> 28;
}

uint64_t sums_seed(uint64_t seed, uint64_t use)
{
    return mix(seed + mix(use + 1) * 0x9e3779b97f4a7c15u);
}

/*
 * A sum of four uniform numbers is bell-shaped; it has 18 bits, and sums of such numbers would be
 * exact in fp32 in any order. The factor from [0.5, 1) fills up the fraction.
 */
static double bell_shaped(uint64_t h)
{
    const int32_t bell = (int32_t)(h & 0xffff) + (int32_t)(h >> 16 & 0xffff) +
                         (int32_t)(h >> 32 & 0xffff) + (int32_t)(h >> 48) - 131070;
    const double factor = (double)(h * 0xd6e8feb86659fd93u >> 12) * 0x1p-53 + 0.5;
    return bell * (1.0 / 131070) * factor;
}

static void random_block(const struct element *e, uint64_t key, size_t first, size_t n, void *out)
{
    union element_number x[BLOCK];

    for (size_t i = 0; i < n; i++) {
        const uint64_t h = mix(key + (first + i) * 0x9e3779b97f4a7c15u);

        if (e->integer)
            x[i].whole = (int64_t)h;
        else
            x[i].real = bell_shaped(h);
    }
    element_narrow(e, x, out, n);
}

static void fill_part(struct part *p)
{
    uint64_t key = sums_seed(p->asked.seed, (uint64_t)p->asked.rank);

    for (size_t at = p->begin; at < p->end; at += BLOCK)
        random_block(p->e, key, at, p->end - at < BLOCK ? p->end - at : BLOCK,
                     p->out + at * p->e->nbytes);
}

/* What a block of elements should come to. */
struct reference {
    union element_number in_order[BLOCK]; /* rank by rank, in the type it is done in */
    union element_number mine[BLOCK];     /* one rank's, of a chain that is its alone */
    double sum[BLOCK], magnitude[BLOCK];  /* of floating types: of the values and their sizes */
};

/* What fp32 would make of it, except of fp64. A double's operation rounded to fp32 is fp32's. */
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

        into[i].real = op == SYMM_MIN   ? (a < b ? a : b)
                       : op == SYMM_MAX ? (a > b ? a : b)
                                        : rounded(e, a + b);
    }
}

/* What further calls of a chain make of the sums of integers. */
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

static void reference_block(const struct part *p, const uint64_t *keys, size_t at, size_t n,
                            struct reference *ref)
{
    const struct sums_asked *q = &p->asked;
    const bool real = !p->e->integer;
    union element_number x[BLOCK];
    char narrow[sizeof x];

    for (int r = 0; r < q->nranks; r++) {
        random_block(p->e, keys[r], q->first + at, n, narrow);
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

/* Whether there is but one right result, ref->in_order. */
static bool is_exact(const struct part *p)
{
    const struct sums_asked *q = &p->asked;

    return p->e->integer || q->op == SYMM_MIN || q->op == SYMM_MAX ||
           (q->rule == SUMS_EXACT && q->links <= 1);
}

/* A number that may be off by so much. */
struct estimate {
    double value, bound;
};

/* A sum or an average of floating numbers, by one call. */
static struct estimate estimate_call(const struct part *p, double sum, double magnitude)
{
    const struct sums_asked *q = &p->asked;
    const int bits = q->rule == SUMS_SWITCH && p->e->fraction_bits < 23 ? 23 : p->e->fraction_bits;
    struct estimate x = {sum, (q->nranks - 1) * exp2(-bits) * magnitude + element_ulp(p->e, sum)};

    if (q->op == SYMM_AVG) {
        x.value /= q->nranks;
        x.bound = x.bound / q->nranks + element_ulp(p->e, x.value);
        if (q->rule == SUMS_TYPE) /* quotients of the smallest numbers have few bits */
            x.bound += q->nranks * element_ulp(p->e, 0);
    }
    return x;
}

/* The same by a chain of calls. */
static struct estimate estimate(const struct part *p, double sum, double magnitude)
{
    const struct sums_asked *q = &p->asked;
    const double times = q->op == SYMM_SUM ? pow(q->nranks, q->links - 1) : 1;
    struct estimate x = estimate_call(p, sum, magnitude);

    if (q->links > 1) {
        x.bound +=
            (q->links - 1) * q->nranks * exp2(-p->e->fraction_bits) * (fabs(x.value) + x.bound);
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
        /* What was off stays so, and this here rounds as well, which counts in fp64. */
        x.bound += inherited * before + 0x1p-51 * most;
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

/* Elements of which more than one value may be right. */
static void check_estimates(struct part *p, size_t at, size_t n, const struct reference *ref)
{
    const size_t nbytes = p->e->nbytes;
    union element_number got[BLOCK];
    double expected;

    element_widen(p->e, p->got + at * nbytes, got, n);
    for (size_t i = 0; i < n; i++) {
        const struct estimate x =
            p->asked.alone ? estimate_alone(p, ref->sum[i], ref->magnitude[i], ref->mine[i].real)
                           : estimate(p, ref->sum[i], ref->magnitude[i]);

        if (fabs(got[i].real - x.value) <= x.bound) /* false for a NaN */
            continue;
        element_narrow(p->e, &(union element_number){.real = x.value}, &expected, 1);
        note_wrong(p, at + i, p->got + (at + i) * nbytes, &expected);
    }
}

static void check_part(struct part *p)
{
    const bool exact = is_exact(p);
    const size_t nbytes = p->e->nbytes;
    uint64_t keys[SYMM_MAX_RANKS];
    struct reference ref;
    char expected[sizeof ref.in_order];

    for (int r = 0; r < p->asked.nranks; r++)
        keys[r] = sums_seed(p->asked.seed, (uint64_t)(p->asked.rank + r));
    for (size_t at = p->begin; at < p->end; at += BLOCK) {
        const size_t n = p->end - at < BLOCK ? p->end - at : BLOCK;
        const char *block = p->got + at * nbytes;

        reference_block(p, keys, at, n, &ref);
        element_narrow(p->e, ref.in_order, expected, n);
        if ((exact || p->asked.links <= 1) && memcmp(block, expected, n * nbytes) == 0)
            continue; /* right by every rule */
        if (!exact)
            check_estimates(p, at, n, &ref);
        for (size_t i = 0; exact && i < n; i++)
            if (memcmp(block + i * nbytes, expected + i * nbytes, nbytes) != 0)
                note_wrong(p, at + i, block + i * nbytes, expected + i * nbytes);
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

/* Does count elements in parts that are all like this one. Returns how many. */
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
