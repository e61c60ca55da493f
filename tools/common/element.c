/*
 * bf16, fp16 and fp32 on the host. Written apart from the library's conversions, whose results the
 * tools check with these.
 */
#include "element.h"

#include <math.h>
#include <string.h>

const char element_names[] = "bf16, fp16, fp32";

static const struct element elements[] = {
    {"bf16", SYMM_BFLOAT16, 2, 7, -126},
    {"fp16", SYMM_FLOAT16, 2, 10, -14},
    {"fp32", SYMM_FLOAT32, 4, 23, -126},
};

const struct element *element_find(const char *name)
{
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
        if (strcmp(elements[i].name, name) == 0)
            return &elements[i];
    }
    return NULL;
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

void element_narrow(const struct element *e, const float *in, void *out, size_t n)
{
    uint16_t *words = out;

    switch (e->dtype) {
    case SYMM_BFLOAT16:
        for (size_t i = 0; i < n; i++)
            words[i] = bf16_of(in[i]);
        break;
    case SYMM_FLOAT16:
        for (size_t i = 0; i < n; i++)
            words[i] = fp16_of(in[i]);
        break;
    default:
        memcpy(out, in, n * sizeof *in);
    }
}

void element_widen(const struct element *e, const void *in, float *out, size_t n)
{
    const uint16_t *words = in;

    switch (e->dtype) {
    case SYMM_BFLOAT16:
        for (size_t i = 0; i < n; i++)
            out[i] = float_of((uint32_t)words[i] << 16);
        break;
    case SYMM_FLOAT16:
        for (size_t i = 0; i < n; i++)
            out[i] = float_of_fp16(words[i]);
        break;
    default:
        memcpy(out, in, n * sizeof *out);
    }
}

double element_ulp(const struct element *e, double x)
{
    int exponent = e->min_exponent;

    if (x != 0 && isfinite(x) && ilogb(x) > exponent)
        exponent = ilogb(x);
    return ldexp(1, exponent - e->fraction_bits);
}
