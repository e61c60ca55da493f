/* Random data, conversions, sums and bounds. */
#include "reference.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

uint64_t reference_seed(void)
{
    static bool chosen;
    static uint64_t seed;
    if (!chosen) {
        const char *text = getenv("SYMM_TEST_SEED");
        if (text && text[0])
            seed = strtoull(text, NULL, 0);
        else if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
            seed = 1;
        char shared[24]; /* with the programs that a test starts */
        snprintf(shared, sizeof shared, "%llu", (unsigned long long)seed);
        setenv("SYMM_TEST_SEED", shared, 1);
        chosen = true;
    }
    return seed;
}

/* The finaliser of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t reference_random(uint64_t stream, uint64_t index)
{
    return mix(mix(reference_seed() + stream * UINT64_C(0x9e3779b97f4a7c15)) +
               index * UINT64_C(0xd1342543de82ef95));
}

size_t reference_size(symm_dtype dtype)
{
    switch (dtype) {
    case SYMM_FLOAT64:
    case SYMM_INT64:
        return 8;
    case SYMM_FLOAT32:
    case SYMM_INT32:
        return 4;
    case SYMM_FLOAT16:
    case SYMM_BFLOAT16:
        return 2;
    default:
        return 1;
    }
}

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

uint16_t reference_f32_to_bf16(float x)
{
    uint32_t u = bits_of(x);
    if (isnan(x))
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

float reference_bf16_to_f32(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

uint16_t reference_f32_to_f16(float x)
{
    const uint16_t sign = (uint16_t)(bits_of(x) >> 16 & 0x8000);
    const double magnitude = fabs((double)x);
    if (isnan(x))
        return sign | 0x7e00;
    if (magnitude >= 65520) /* halfway between the largest number and the next power */
        return sign | 0x7c00;
    /* In units of the last place: nearbyint rounds to nearest even, and a carry runs into the
     * exponent by itself. */
    int exponent;
    frexp(magnitude, &exponent);
    if (magnitude == 0 || exponent < -13)
        exponent = -13; /* subnormal */
    const uint32_t units = (uint32_t)nearbyint(ldexp(magnitude, 11 - exponent));
    return sign | (uint16_t)(((uint32_t)(exponent + 13) << 10) + units);
}

float reference_f16_to_f32(uint16_t bits)
{
    const int exponent = bits >> 10 & 31;
    const float fraction = (float)(bits & 1023);
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31)
        return fraction != 0 ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexpf(1024 + fraction, exponent - 25) : ldexpf(fraction, -24));
}

float reference_get(const void *array, size_t i, symm_dtype dtype)
{
    const char *at = (const char *)array + i * reference_size(dtype);
    uint16_t half;
    float x;
    if (dtype == SYMM_FLOAT32) {
        memcpy(&x, at, sizeof x);
        return x;
    }
    memcpy(&half, at, sizeof half);
    return dtype == SYMM_BFLOAT16 ? reference_bf16_to_f32(half) : reference_f16_to_f32(half);
}

void reference_set(void *array, size_t i, symm_dtype dtype, float x)
{
    char *at = (char *)array + i * reference_size(dtype);
    if (dtype == SYMM_FLOAT32) {
        memcpy(at, &x, sizeof x);
        return;
    }
    const uint16_t half =
        dtype == SYMM_BFLOAT16 ? reference_f32_to_bf16(x) : reference_f32_to_f16(x);
    memcpy(at, &half, sizeof half);
}

double reference_get_double(const void *array, size_t i, symm_dtype dtype)
{
    double x;
    if (dtype != SYMM_FLOAT64)
        return (double)reference_get(array, i, dtype);
    memcpy(&x, (const char *)array + i * sizeof x, sizeof x);
    return x;
}

void reference_set_double(void *array, size_t i, symm_dtype dtype, double x)
{
    if (dtype == SYMM_FLOAT64)
        memcpy((char *)array + i * sizeof x, &x, sizeof x);
    else
        reference_set(array, i, dtype, (float)x);
}

static bool is_integer(symm_dtype dtype)
{
    return dtype == SYMM_INT32 || dtype == SYMM_INT64;
}

/* Where the arithmetic of floats has its rules. */
static void put_special(void *array, size_t at, symm_dtype dtype, uint64_t u)
{
    static const float values[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, -1.0f};
    const uint64_t subnormal = 1 + u % 7;
    const uint64_t which = (u >> 8) % (1 + sizeof values / sizeof values[0]);

    if (which == sizeof values / sizeof values[0])
        memcpy((char *)array + at * reference_size(dtype), &subnormal, reference_size(dtype));
    else
        reference_set_double(array, at, dtype, (double)values[which]);
}

/*
 * Floats between 2^-6 and 8 in size, so that orders of summation differ in their rounding and
 * nothing overflows; doubles that need all of their bits; integers whose sums wrap around.
 */
static void put_datum(void *array, size_t at, symm_dtype dtype, uint64_t round, int rank, size_t i)
{
    const uint64_t u = reference_random(round * 128 + (uint64_t)rank, i);
    const float fraction = 1 + (float)(u >> 41) / (float)(1 << 23);
    const float x = ldexpf(u & 1 ? -fraction : fraction, (int)(u >> 1 & 7) - 6 + (int)(u >> 4 & 1));
    const double wide = (double)x + ldexp((double)(u >> 8 & 0x1fffffff), -58);
    char *element = (char *)array + at * reference_size(dtype);

    if (is_integer(dtype)) /* the low half first: it is a little-endian machine */
        memcpy(element, &u, reference_size(dtype));
    else if (round & REFERENCE_SPECIAL && u >> 8 & 1)
        put_special(array, at, dtype, u >> 9);
    else
        reference_set_double(array, at, dtype, dtype == SYMM_FLOAT64 ? wide : (double)x);
}

void reference_fill(void *array, size_t count, symm_dtype dtype, uint64_t round, int rank)
{
    for (size_t i = 0; i < count; i++)
        put_datum(array, i, dtype, round, rank, i);
}

static int64_t get_integer(const void *element, symm_dtype dtype)
{
    int64_t wide;
    int32_t narrow;
    if (dtype == SYMM_INT64) {
        memcpy(&wide, element, sizeof wide);
        return wide;
    }
    memcpy(&narrow, element, sizeof narrow);
    return narrow;
}

double reference_ulp(double x, symm_dtype dtype)
{
    const int digits = dtype == SYMM_FLOAT64    ? 53
                       : dtype == SYMM_FLOAT32  ? 24
                       : dtype == SYMM_BFLOAT16 ? 8
                                                : 11;
    /* frexp's exponent of the smallest normal number */
    const int least = dtype == SYMM_FLOAT64 ? -1021 : dtype == SYMM_FLOAT16 ? -13 : -125;
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, (exponent > least ? exponent : least) - digits);
}

/* What the ranks' elements come to, each in its turn. */
struct reduction {
    int64_t integer;
    double wide, magnitudes; /* in doubles; and the sum of what was added, without signs */
    float narrow;            /* in floats */
};

static void fold(struct reduction *into, const char *element, symm_dtype dtype, symm_redop op)
{
    if (is_integer(dtype)) {
        const int64_t x = get_integer(element, dtype);
        into->integer = op == SYMM_MIN   ? (x < into->integer ? x : into->integer)
                        : op == SYMM_MAX ? (x > into->integer ? x : into->integer)
                                         : (int64_t)((uint64_t)into->integer + (uint64_t)x);
        return;
    }
    const double x = reference_get_double(element, 0, dtype);
    into->magnitudes += fabs(x);
    if (op == SYMM_SUM || op == SYMM_AVG) {
        into->wide += x;
        into->narrow += (float)x;
    } else if (!isnan(x) && !(op == SYMM_MIN ? into->wide < x : into->wide > x)) {
        into->wide = x;
        into->narrow = (float)x;
    }
}

static struct reduction first_of(const char *element, symm_dtype dtype)
{
    struct reduction x = {0};
    if (is_integer(dtype)) {
        x.integer = get_integer(element, dtype);
        return x;
    }
    x.wide = reference_get_double(element, 0, dtype);
    x.narrow = (float)x.wide;
    x.magnitudes = fabs(x.wide);
    return x;
}

static bool equals(const char *got, const struct reduction *x, symm_dtype dtype, symm_redop op,
                   int nranks)
{
    const float narrow = op == SYMM_AVG ? x->narrow / (float)nranks : x->narrow;
    const double wide = op == SYMM_AVG ? x->wide / nranks : x->wide;
    char want[8];

    if (is_integer(dtype))
        memcpy(want, &x->integer, reference_size(dtype));
    else if (dtype == SYMM_FLOAT64)
        memcpy(want, &wide, sizeof wide);
    else
        reference_set(want, 0, dtype, narrow);
    if (!is_integer(dtype) && isnan(reference_get_double(want, 0, dtype)))
        return isnan(reference_get_double(got, 0, dtype));
    return memcmp(want, got, reference_size(dtype)) == 0;
}

/* An average by the switch is rounded as a sum and as an average. */
static bool is_near(const char *got, const struct reduction *x, symm_dtype dtype, symm_redop op,
                    int nranks)
{
    const double step = ldexp(1, dtype == SYMM_FLOAT64 ? -52 : -23);
    const double by = op == SYMM_AVG ? nranks : 1;
    if (op == SYMM_MIN || op == SYMM_MAX || !isfinite(x->wide))
        return isnan(x->wide) ? isnan(reference_get_double(got, 0, dtype))
                              : reference_get_double(got, 0, dtype) == x->wide;
    double allowed = ((nranks - 1) * step * x->magnitudes + reference_ulp(x->wide, dtype)) / by;
    if (op == SYMM_AVG)
        allowed += reference_ulp(x->wide / by, dtype);
    return fabs(reference_get_double(got, 0, dtype) - x->wide / by) <= allowed;
}

int64_t reference_reduction_wrong(const void *array, size_t first, size_t count, symm_dtype dtype,
                                  symm_redop op, uint64_t round, int nranks,
                                  enum reference_bound bound)
{
    const bool exact = bound == REFERENCE_EXACT || is_integer(dtype);
    int64_t wrong = 0;

    for (size_t i = 0; i < count; i++) {
        const char *got = (const char *)array + i * reference_size(dtype);
        char element[8];
        put_datum(element, 0, dtype, round, 0, first + i);
        struct reduction x = first_of(element, dtype);
        for (int r = 1; r < nranks; r++) {
            put_datum(element, 0, dtype, round, r, first + i);
            fold(&x, element, dtype, op);
        }
        wrong += exact ? !equals(got, &x, dtype, op, nranks) : !is_near(got, &x, dtype, op, nranks);
    }
    return wrong;
}

int64_t reference_wrong(const void *array, size_t first, size_t count, symm_dtype dtype,
                        uint64_t round, int nranks, enum reference_bound bound)
{
    return reference_reduction_wrong(array, first, count, dtype, SYMM_SUM, round, nranks, bound);
}

static uint32_t word_of_bits(uint64_t round, int rank, size_t i)
{
    const uint64_t u = reference_random(~(round * 128 + (uint64_t)rank), i);
    const uint32_t word = (uint32_t)(u >> 32);
    switch (u % 8) {
    case 0:
        return word % 64; /* the first epochs */
    case 1:
        return ~(word % 64); /* and the last ones */
    default:
        return word;
    }
}

void reference_bits(void *bytes, size_t nbytes, uint64_t round, int rank)
{
    for (size_t i = 0; i < nbytes; i += 4) {
        const uint32_t word = word_of_bits(round, rank, i / 4);
        memcpy((char *)bytes + i, &word, nbytes - i < 4 ? nbytes - i : 4);
    }
}

int64_t reference_bits_wrong(const void *bytes, size_t nbytes, uint64_t round, int rank)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < nbytes; i++) {
        const uint32_t word = word_of_bits(round, rank, i / 4);
        wrong += ((const uint8_t *)bytes)[i] != (uint8_t)(word >> i % 4 * 8);
    }
    return wrong;
}

void reference_poison(void *bytes, size_t nbytes, uint64_t tag)
{
    for (size_t i = 0; i < nbytes; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(mix(tag + (i >> 3)) >> (i & 7) * 8);
}

int64_t reference_poison_wrong(const void *bytes, size_t nbytes, uint64_t tag)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < nbytes; i++)
        wrong += ((const uint8_t *)bytes)[i] != (uint8_t)(mix(tag + (i >> 3)) >> (i & 7) * 8);
    return wrong;
}
