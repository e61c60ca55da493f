/* Random inputs of a sum over ranks, and the check of its result. Works through blocks that stay in
 * the cache. */
#include "sums.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <symm/types.h>

enum { BLOCK = 1024, MAX_THREADS = 16, LEAST_A_THREAD = 64 * BLOCK };

static int threads_wanted = 1;

void sums_threads(int nthreads)
{
    threads_wanted = nthreads < 1 ? 1 : nthreads > MAX_THREADS ? MAX_THREADS : nthreads;
}

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
 * The sum of four uniform numbers is bell-shaped; it has 18 bits, and sums of such numbers would be
 * exact in fp32 in any order. The factor from [0.5, 1) fills up the fraction.
 */
static void random_block(uint64_t key, size_t first, size_t n, float *out)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t h = mix(key + (first + i) * 0x9e3779b97f4a7c15u);
        int32_t bell = (int32_t)(h & 0xffff) + (int32_t)(h >> 16 & 0xffff) +
                       (int32_t)(h >> 32 & 0xffff) + (int32_t)(h >> 48) - 131070;
        int32_t factor = (int32_t)(h * 0xd6e8feb86659fd93u >> 41) + (1 << 23);
        out[i] = (float)bell * (1.0f / 131070) * ((float)factor * 0x1p-24f);
    }
}

static void fill_part(struct part *p)
{
    uint64_t key = sums_seed(p->asked.seed, (uint64_t)p->asked.rank);
    float block[BLOCK];

    for (size_t at = p->begin; at < p->end; at += BLOCK) {
        size_t n = p->end - at < BLOCK ? p->end - at : BLOCK;

        random_block(key, at, n, block);
        element_narrow(p->e, block, p->out + at * p->e->nbytes, n);
    }
}

/* How many times the sum of one call a chain's result is. */
static double growth(const struct sums_asked *q)
{
    return q->links > 1 ? pow(q->nranks, q->links - 1) : 1;
}

static bool is_right(const struct part *p, float got, double sum, double magnitude)
{
    const struct sums_asked *q = &p->asked;
    double bits = q->rule == SUMS_SWITCH ? 23 : p->e->fraction_bits, times = growth(q);
    double bound = (q->nranks - 1) * exp2(-bits) * magnitude + element_ulp(p->e, sum);

    if (q->links > 1)
        bound += (q->links - 1) * q->nranks * exp2(-p->e->fraction_bits) * (fabs(sum) + bound);
    return fabs(got - times * sum) <= times * bound; /* false for a NaN */
}

/* What the sums of a block of elements are: in fp32 rank by rank, in double, and of absolute
 * values. */
struct reference {
    float in_order[BLOCK];
    double sum[BLOCK], magnitude[BLOCK];
};

static void reference_block(const struct part *p, const uint64_t *keys, size_t at, size_t n,
                            struct reference *ref)
{
    float x[BLOCK];
    char narrow[BLOCK * sizeof(float)];

    for (int r = 0; r < p->asked.nranks; r++) {
        random_block(keys[r], p->asked.first + at, n, x);
        element_narrow(p->e, x, narrow, n);
        element_widen(p->e, narrow, x, n);
        for (size_t i = 0; i < n; i++) {
            ref->in_order[i] = r == 0 ? x[i] : ref->in_order[i] + x[i];
            ref->sum[i] = r == 0 ? x[i] : ref->sum[i] + x[i];
            ref->magnitude[i] = r == 0 ? fabsf(x[i]) : ref->magnitude[i] + fabsf(x[i]);
        }
    }
}

static void note_wrong(struct part *p, size_t at, double got, double expected)
{
    if (p->verdict.wrong++ == 0) {
        p->verdict.first = at;
        p->verdict.got = got;
        p->verdict.expected = expected;
    }
}

static void check_part(struct part *p)
{
    uint64_t keys[SYMM_MAX_RANKS];
    struct reference ref;
    float got[BLOCK];
    char expected[BLOCK * sizeof(float)];
    size_t nbytes = p->e->nbytes;
    bool exact = p->asked.rule == SUMS_EXACT && p->asked.links <= 1;
    double times = growth(&p->asked);

    for (int r = 0; r < p->asked.nranks; r++)
        keys[r] = sums_seed(p->asked.seed, (uint64_t)(p->asked.rank + r));
    for (size_t at = p->begin; at < p->end; at += BLOCK) {
        size_t n = p->end - at < BLOCK ? p->end - at : BLOCK;
        const char *block = p->got + at * nbytes;

        reference_block(p, keys, at, n, &ref);
        element_narrow(p->e, ref.in_order, expected, n);
        if (p->asked.links <= 1 && memcmp(block, expected, n * nbytes) == 0)
            continue; /* right by every rule */
        element_widen(p->e, block, got, n);
        for (size_t i = 0; i < n; i++) {
            bool right = exact ? memcmp(block + i * nbytes, expected + i * nbytes, nbytes) == 0
                               : is_right(p, got[i], ref.sum[i], ref.magnitude[i]);
            if (!right)
                note_wrong(p, at + i, got[i], exact ? ref.in_order[i] : times * ref.sum[i]);
        }
    }
}

static void *run_part(void *arg)
{
    struct part *p = arg;

    if (p->got)
        check_part(p);
    else
        fill_part(p);
    return NULL;
}

/* Splits count elements into at most MAX_THREADS parts, runs them side by side, and returns how
 * many. */
static int run_parts(const struct part *whole, size_t count, struct part *parts)
{
    pthread_t threads[MAX_THREADS];
    bool started[MAX_THREADS] = {false};
    size_t nparts = count / LEAST_A_THREAD;

    nparts = nparts < 1 ? 1 : nparts > (size_t)threads_wanted ? (size_t)threads_wanted : nparts;
    size_t each = (count + nparts - 1) / nparts;
    for (size_t i = 0; i < nparts; i++) {
        parts[i] = *whole;
        parts[i].begin = i * each < count ? i * each : count;
        parts[i].end = (i + 1) * each < count ? (i + 1) * each : count;
        if (i > 0)
            started[i] = pthread_create(&threads[i], NULL, run_part, &parts[i]) == 0;
    }
    for (size_t i = 0; i < nparts; i++) {
        if (started[i])
            pthread_join(threads[i], NULL);
        else
            run_part(&parts[i]);
    }
    return (int)nparts;
}

void sums_fill(const struct element *e, void *out, size_t count, uint64_t seed, int rank)
{
    struct part parts[MAX_THREADS];

    run_parts(&(struct part){.e = e, .out = out, .asked = {.seed = seed, .rank = rank}}, count,
              parts);
}

void sums_check(const struct element *e, const void *got, size_t count,
                const struct sums_asked *asked, struct sums_verdict *out)
{
    struct part parts[MAX_THREADS];
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
