/*
 * Element types on the host. Shares no code with the library's conversions, whose results are
 * checked with these.
 */
#include "element.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct element elements[] = {
    {SYMM_BFLOAT16, 2, .fraction_bits = 7, .min_exponent = -126},
    {SYMM_FLOAT16, 2, .fraction_bits = 10, .min_exponent = -14},
    {SYMM_FLOAT32, 4, .fraction_bits = 23, .min_exponent = -126},
    {SYMM_FLOAT64, 8, .fraction_bits = 52, .min_exponent = -1022},
    {SYMM_INT32, 4, .integer = true},
    {SYMM_INT64, 8, .integer = true},
    {SYMM_UINT8, 1, .integer = true, .moved_only = true},
    {SYMM_FLOAT8_E4M3, 1, .integer = true, .moved_only = true},
    {SYMM_FLOAT8_E5M2, 1, .integer = true, .moved_only = true},
};

const struct element *element_at(size_t index)
{
    return index < sizeof elements / sizeof elements[0] ? &elements[index] : NULL;
}

const struct element *element_by_dtype(symm_dtype dtype)
{
    size_t i = 0;

    while (elements[i].dtype != dtype)
        i++;
    return &elements[i];
}

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint16_t bf16_of(float x)
{
    uint32_t bits = bits_of(x);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* a NaN stays one */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static uint16_t fp16_of(float x)
{
    uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000;

    bits &= 0x7fffffff;
    if (bits > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (bits >= 0x47800000) /* 65536 and more */
        return (uint16_t)(sign | 0x7c00);
    if (bits < 0x38800000) /* subnormal: at 0.5 a float's last place is 2^-24, as here */
        return (uint16_t)(sign | (bits_of(float_of(bits) + 0.5f) - 0x3f000000));
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | (bits - 0x38000000) >> 13);
}

static float float_of_fp16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;

    if (rest >= 0x7c00)
        return float_of(sign | 0x7f800000 | rest << 13);
    return float_of(sign | bits_of(float_of(rest << 13) * 0x1p112f));
}

/* The elements of a C type at `out`, aligned or not, by an expression of the number x. */
#define NARROW(type, expression)                                                                   \
    for (size_t i = 0; i < n; i++) {                                                               \
        const union element_number x = in[i];                                                      \
        const type narrow = (type)(expression);                                                    \
        memcpy((char *)out + i * sizeof narrow, &narrow, sizeof narrow);                           \
    }                                                                                              \
    break

void element_narrow(const struct element *e, const union element_number *in, void *out, size_t n)
{
    switch (e->dtype) {
    case SYMM_BFLOAT16:
        NARROW(uint16_t, bf16_of((float)x.real));
    case SYMM_FLOAT16:
        NARROW(uint16_t, fp16_of((float)x.real));
    case SYMM_FLOAT32:
        NARROW(float, x.real);
    case SYMM_INT32:
        NARROW(uint32_t, x.whole);
    case SYMM_FLOAT64:
    case SYMM_INT64:
        memcpy(out, in, n * sizeof *in);
        break;
    default:
        NARROW(uint8_t, x.whole);
    }
}

/* Numbers by an expression of the element x, of a C type, at `in`. */
#define WIDEN(type, member, expression)                                                            \
    for (size_t i = 0; i < n; i++) {                                                               \
        type x;                                                                                    \
        memcpy(&x, (const char *)in + i * sizeof x, sizeof x);                                     \
        out[i].member = (expression);                                                              \
    }                                                                                              \
    break

void element_widen(const struct element *e, const void *in, union element_number *out, size_t n)
{
    switch (e->dtype) {
    case SYMM_BFLOAT16:
        WIDEN(uint16_t, real, (double)float_of((uint32_t)x << 16));
    case SYMM_FLOAT16:
        WIDEN(uint16_t, real, (double)float_of_fp16(x));
    case SYMM_FLOAT32:
        WIDEN(float, real, (double)x);
    case SYMM_INT32:
        WIDEN(int32_t, whole, x);
    case SYMM_FLOAT64:
    case SYMM_INT64:
        memcpy(out, in, n * sizeof *out);
        break;
    default:
        WIDEN(uint8_t, whole, x);
    }
}

void element_print(const struct element *e, const void *in, char out[ELEMENT_TEXT])
{
    union element_number x;

    element_widen(e, in, &x, 1);
    if (e->integer)
        snprintf(out, ELEMENT_TEXT, "%" PRId64, x.whole);
    else
        snprintf(out, ELEMENT_TEXT, "%.*g", e->dtype == SYMM_FLOAT64 ? 17 : 9, x.real);
}

double element_ulp(const struct element *e, double x)
{
    int exponent = e->min_exponent;

    if (x != 0 && isfinite(x) && ilogb(x) > exponent)
        exponent = ilogb(x);
    return ldexp(1, exponent - e->fraction_bits);
}

bool element_is_near(const struct element *e, double got, double value, double error)
{
    union element_number rounded;
    double element;

    /* False for a NaN. */
    if (error > 0 && fabs(got - value) <= error + element_ulp(e, fabs(value) + error) / 2)
        return true;
    element_narrow(e, &(union element_number){.real = value}, &element, 1);
    element_widen(e, &element, &rounded, 1);
    return got == rounded.real;
}
