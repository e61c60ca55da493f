/*
 * Element types on the host: conversions, printing and precision. Nothing reduces types of one
 * byte: all of them count as integers here, by their bits.
 */
#ifndef SYMM_TOOLS_ELEMENT_H
#define SYMM_TOOLS_ELEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <symm/types.h>

struct element {
    symm_dtype dtype;
    size_t nbytes;
    bool integer;
    bool moved_only; /* nothing reduces it */
    /* Of floating types: */
    int fraction_bits; /* explicitly stored */
    int min_exponent;  /* of normal numbers */
};

/* An element on the host: real of floating types, whole of integers. */
union element_number {
    double real;
    int64_t whole;
};

/* dtype must be in the enum. */
const struct element *element_by_dtype(symm_dtype dtype);
/* The index-th, from 0; NULL past the last one. */
const struct element *element_at(size_t index);

/*
 * n numbers as elements: to a 16-bit type by way of fp32, each time to the nearest and ties to
 * even; integers lose their high bits. And n elements as numbers.
 */
void element_narrow(const struct element *e, const union element_number *in, void *out, size_t n);
void element_widen(const struct element *e, const void *in, union element_number *out, size_t n);

/* One element in words: enough digits to tell it from its neighbours. */
enum { ELEMENT_TEXT = 32 };
void element_print(const struct element *e, const void *in, char out[ELEMENT_TEXT]);

/* The distance of neighbouring numbers of a floating type around x. */
double element_ulp(const struct element *e, double x);

/*
 * Whether `got`, an element of a floating type, is a number that is off from `value` by at most
 * `error` and then rounded once. With error 0 only the nearest element is. Beyond the largest
 * number of the type that is infinity.
 */
bool element_is_near(const struct element *e, double got, double value, double error);

#endif
