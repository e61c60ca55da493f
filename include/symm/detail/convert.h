/*
 * Converts bit patterns of fp16 and bf16 to and from fp32, for compilers without these types.
 * Rounds to nearest even. Keeps subnormals, infinities and signed zeros; every NaN becomes 0x7fff,
 * as on GPUs. C and C++.
 */
#ifndef SYMM_DETAIL_CONVERT_H
#define SYMM_DETAIL_CONVERT_H

#include <stdint.h>

static inline uint32_t symm_detail_bits(float x)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float symm_detail_float(uint32_t bits)
{
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float symm_detail_from_bf16(uint16_t h)
{
    return symm_detail_float((uint32_t)h << 16);
}

static inline uint16_t symm_detail_to_bf16(float x)
{
    const uint32_t bits = symm_detail_bits(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16); /* a carry may reach infinity */
}

static inline float symm_detail_from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    if (rest >= 0x7c00u) /* infinity, NaN */
        return symm_detail_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest < 0x0400u) /* zero, subnormal: a multiple of 2^-24 */
        return symm_detail_float(sign | symm_detail_bits((float)rest * 0x1p-24f));
    return symm_detail_float(sign | ((rest << 13) + 0x38000000u)); /* the biases differ by 112 */
}

static inline uint16_t symm_detail_to_f16(float x)
{
    const uint32_t bits = symm_detail_bits(x), rest = bits & 0x7fffffffu;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    if (rest > 0x7f800000u)
        return 0x7fff;
    if (rest >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (rest <
        0x38800000u) /* below 2^-14: adding 0.5, whose last bit is 2^-24, rounds to a subnormal */
        return (uint16_t)(sign | (symm_detail_bits(symm_detail_float(rest) + 0.5f) - 0x3f000000u));
    return (uint16_t)(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
}

#endif
