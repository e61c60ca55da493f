/* Random data of the tests; the oracle computes the expected results. */
#include "reference.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include "oracle/sums.h"

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

uint64_t reference_random(uint64_t stream, uint64_t index)
{
    return sums_mix(sums_mix(reference_seed() + stream * UINT64_C(0x9e3779b97f4a7c15)) +
                    index * UINT64_C(0xd1342543de82ef95));
}

double reference_get(const void *array, size_t i, symm_dtype dtype)
{
    const struct element *e = element_by_dtype(dtype);
    union element_number x;

    element_widen(e, (const char *)array + i * e->nbytes, &x, 1);
    return x.real;
}

void reference_set(void *array, size_t i, symm_dtype dtype, double x)
{
    const struct element *e = element_by_dtype(dtype);

    element_narrow(e, &(union element_number){.real = x}, (char *)array + i * e->nbytes, 1);
}

uint16_t reference_half(double x, symm_dtype dtype)
{
    uint16_t bits;

    reference_set(&bits, 0, dtype, x);
    return bits;
}

/* Where the arithmetic of floats has its rules. */
static void put_special(void *array, size_t at, symm_dtype dtype, uint64_t u)
{
    static const float values[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, -1.0f};
    const uint64_t subnormal = 1 + u % 7;
    const uint64_t which = (u >> 8) % (1 + sizeof values / sizeof values[0]);

    if (which == sizeof values / sizeof values[0])
        memcpy((char *)array + at * symm_dtype_size(dtype), &subnormal, symm_dtype_size(dtype));
    else
        reference_set(array, at, dtype, (double)values[which]);
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
    char *element = (char *)array + at * symm_dtype_size(dtype);

    if (element_by_dtype(dtype)->integer) /* the low half first: it is a little-endian machine */
        memcpy(element, &u, symm_dtype_size(dtype));
    else if (round & REFERENCE_SPECIAL && u >> 8 & 1)
        put_special(array, at, dtype, u >> 9);
    else
        reference_set(array, at, dtype, dtype == SYMM_FLOAT64 ? wide : (double)x);
}

void reference_fill(void *array, size_t count, symm_dtype dtype, uint64_t round, int rank)
{
    for (size_t i = 0; i < count; i++)
        put_datum(array, i, dtype, round, rank, i);
}

void reference_source(const struct element *e, uint64_t round, int rank, size_t first, size_t n,
                      void *out)
{
    for (size_t i = 0; i < n; i++)
        put_datum(out, i, e->dtype, round, rank, first + i);
}

int64_t reference_reduction_wrong(const void *array, size_t first, size_t count, symm_dtype dtype,
                                  symm_redop op, uint64_t round, int nranks,
                                  enum reference_bound bound)
{
    const struct sums_asked asked = {.source = reference_source,
                                     .seed = round,
                                     .op = op,
                                     .nranks = nranks,
                                     .first = first,
                                     .rule = bound == REFERENCE_EXACT ? SUMS_EXACT : SUMS_SWITCH};
    struct sums_verdict verdict;

    sums_check(element_by_dtype(dtype), array, count, &asked, &verdict);
    return (int64_t)verdict.wrong;
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
        ((uint8_t *)bytes)[i] = (uint8_t)(sums_mix(tag + (i >> 3)) >> (i & 7) * 8);
}

int64_t reference_poison_wrong(const void *bytes, size_t nbytes, uint64_t tag)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < nbytes; i++)
        wrong += ((const uint8_t *)bytes)[i] != (uint8_t)(sums_mix(tag + (i >> 3)) >> (i & 7) * 8);
    return wrong;
}
