/*
 * Fresh random data and what its sums must be. Conversions are written out bit by bit here, apart
 * from those of the library, so that both cannot be wrong in the same way.
 */
#ifndef TEST_REFERENCE_H
#define TEST_REFERENCE_H

#include <stddef.h>
#include <stdint.h>
#include <symm/types.h>

/* The seed of this run: SYMM_TEST_SEED, else a new one each time. */
uint64_t reference_seed(void);
/* A well-mixed number for each (stream, index) of this seed. */
uint64_t reference_random(uint64_t stream, uint64_t index);

size_t reference_size(symm_dtype dtype); /* of float32, float16, bfloat16 */

uint16_t reference_f32_to_bf16(float x); /* to nearest even */
float reference_bf16_to_f32(uint16_t bits);
uint16_t reference_f32_to_f16(float x);
float reference_f16_to_f32(uint16_t bits);

/* Element i of an array of this type as a float, and back with one rounding. */
float reference_get(const void *array, size_t i, symm_dtype dtype);
void reference_set(void *array, size_t i, symm_dtype dtype, float x);

/* Fills an array with rank's data of round `round`: numbers of mixed sign and size. */
void reference_fill(void *array, size_t count, symm_dtype dtype, uint64_t round, int rank);

enum reference_bound {
    REFERENCE_EXACT,  /* fp32 accumulation in rank order, one rounding, bit for bit */
    REFERENCE_SWITCH, /* |error| <= (R - 1) 2^-23 sum|x| + 1 ulp of the output type, against double
                       */
};

/*
 * How many of the count elements at `array`, which begin at element `first` of the data, are not
 * the sum over nranks ranks of round `round`.
 */
int64_t reference_wrong(const void *array, size_t first, size_t count, symm_dtype dtype,
                        uint64_t round, int nranks, enum reference_bound bound);

/* A pattern of bytes that depends on tag and place; reference_poison_wrong counts bytes that differ
 * from it. */
void reference_poison(void *bytes, size_t nbytes, uint64_t tag);
int64_t reference_poison_wrong(const void *bytes, size_t nbytes, uint64_t tag);

#endif
