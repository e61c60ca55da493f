/* Division by a number that the host knows, without a division. For C and for kernels. */
#ifndef SYMM_MATMUL_DIVIDE_H
#define SYMM_MATMUL_DIVIDE_H

#ifdef __cplusplus /* kernels, for GPUs and for the emulated driver */
#include <symm/device.cuh>
#define SYMM_SHARED_FN SYMM_DEV
#else
#include <stdint.h>
#define SYMM_SHARED_FN static inline
#endif

/* A divisor from 1 on, and 2^32 / divisor, rounded down, at most 2^32 - 1. */
typedef struct symm_divisor {
    uint32_t divisor, reciprocal;
} symm_divisor;

#ifndef __cplusplus
static inline symm_divisor symm__divisor(uint32_t divisor)
{
    return (symm_divisor){divisor, divisor > 1 ? (uint32_t)((UINT64_C(1) << 32) / divisor) : ~0u};
}
#endif

/* x / d. The product with the reciprocal is the quotient, or one less. */
SYMM_SHARED_FN uint32_t symm__divide(uint32_t x, symm_divisor d)
{
    const uint32_t quotient = (uint32_t)((uint64_t)x * d.reciprocal >> 32);

    return quotient + (x - quotient * d.divisor >= d.divisor);
}

#endif
