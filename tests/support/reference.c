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
    return dtype == SYMM_FLOAT32 ? 4 : 2;
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

/* Between 2^-6 and 8 in size, so that orders of summation differ in their rounding and nothing
 * overflows. */
static float datum(uint64_t round, int rank, size_t i)
{
    const uint64_t u = reference_random(round * 128 + (uint64_t)rank, i);
    const float fraction = 1 + (float)(u >> 41) / (float)(1 << 23);
    return ldexpf(u & 1 ? -fraction : fraction, (int)(u >> 1 & 7) - 6 + (int)(u >> 4 & 1));
}

void reference_fill(void *array, size_t count, symm_dtype dtype, uint64_t round, int rank)
{
    for (size_t i = 0; i < count; i++)
        reference_set(array, i, dtype, datum(round, rank, i));
}

static double ulp(double x, symm_dtype dtype)
{
    const int digits = dtype == SYMM_FLOAT32 ? 24 : dtype == SYMM_BFLOAT16 ? 8 : 11;
    const int least =
        dtype == SYMM_FLOAT16 ? -13 : -125; /* frexp's exponent of the smallest normal number */
    int exponent;
    frexp(x, &exponent);
    return ldexp(1, (exponent > least ? exponent : least) - digits);
}

static bool right(const void *array, size_t at, size_t i, symm_dtype dtype, uint64_t round,
                  int nranks, enum reference_bound bound)
{
    const float got = reference_get(array, at, dtype);
    char rounded[4];
    float sum = 0;
    double exact = 0, size = 0;
    for (int r = 0; r < nranks; r++) {
        reference_set(rounded, 0, dtype, datum(round, r, i));
        const float x = reference_get(rounded, 0, dtype);
        sum = r ? sum + x : x;
        exact += (double)x;
        size += fabs((double)x);
    }
    if (bound == REFERENCE_EXACT) {
        reference_set(rounded, 0, dtype, sum);
        return memcmp(rounded, (const char *)array + at * reference_size(dtype),
                      reference_size(dtype)) == 0;
    }
    return fabs((double)got - exact) <= (nranks - 1) * ldexp(1, -23) * size + ulp(exact, dtype);
}

int64_t reference_wrong(const void *array, size_t first, size_t count, symm_dtype dtype,
                        uint64_t round, int nranks, enum reference_bound bound)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += !right(array, i, first + i, dtype, round, nranks, bound);
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
