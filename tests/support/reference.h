/* Fresh random data. The oracle (tools/oracle, no code of the library) judges reductions. */
#ifndef TEST_REFERENCE_H
#define TEST_REFERENCE_H

#include <stddef.h>
#include <stdint.h>
#include <symm/names.h>

/* The seed of this run: SYMM_TEST_SEED, else a new one each time. */
uint64_t reference_seed(void);
/* A well-mixed number for each (stream, index) of this seed. */
uint64_t reference_random(uint64_t stream, uint64_t index);

/* Element i of an array of floats, as a double, and back by way of float, except of float64. */
double reference_get(const void *array, size_t i, symm_dtype dtype);
void reference_set(void *array, size_t i, symm_dtype dtype, double x);

/* The bits of x as float16 or bfloat16, to nearest even. */
uint16_t reference_half(double x, symm_dtype dtype);

/* With this bit half of the floats are zeros, infinities, NaNs and subnormal numbers. */
#define REFERENCE_SPECIAL (UINT64_C(1) << 40)

/* Fills an array with rank's data of round `round`: numbers of mixed sign and size. */
void reference_fill(void *array, size_t count, symm_dtype dtype, uint64_t round, int rank);

struct element;

/* n of these elements from `first` on, as the oracle asks for them: its seed is the round. */
void reference_source(const struct element *e, uint64_t round, int rank, size_t first, size_t n,
                      void *out);

enum reference_bound {
    /*
     * In rank order, bit for bit: doubles and integers in their own type, integers wrapping around,
     * other floats in fp32; an average is divided by the ranks before it is rounded, once. Of equal
     * numbers min and max keep the later one. A NaN is any NaN.
     */
    REFERENCE_EXACT,
    /* |error| <= (R - 1) 2^-23 sum|x| + 1 ulp of the output type, against double, for an average of
     * the sum and of itself; integers, min and max exactly, but for the sign of a zero. */
    REFERENCE_SWITCH,
};

/*
 * Number of the count elements at `array`, which begin at element `first` of the data, that differ
 * from the reduction of nranks ranks' data of round `round`.
 */
int64_t reference_reduction_wrong(const void *array, size_t first, size_t count, symm_dtype dtype,
                                  symm_redop op, uint64_t round, int nranks,
                                  enum reference_bound bound);
/* The same for sums. */
int64_t reference_wrong(const void *array, size_t first, size_t count, symm_dtype dtype,
                        uint64_t round, int nranks, enum reference_bound bound);

/*
 * Bytes of any pattern, of rank's data of round `round`; now and then words that look like counters
 * and flags. reference_bits_wrong counts bytes that differ from them.
 */
void reference_bits(void *bytes, size_t nbytes, uint64_t round, int rank);
int64_t reference_bits_wrong(const void *bytes, size_t nbytes, uint64_t round, int rank);

/* A pattern of bytes by tag and place; reference_poison_wrong counts bytes that differ. */
void reference_poison(void *bytes, size_t nbytes, uint64_t tag);
int64_t reference_poison_wrong(const void *bytes, size_t nbytes, uint64_t tag);

#endif
