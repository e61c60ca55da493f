/* The values of the data of all protocols. */
#ifndef PROOF_VALUES_CUH
#define PROOF_VALUES_CUH

#include <symm/device.cuh>

SYMM_DEV uint32_t mix(uint32_t h)
{
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    return h ^ h >> 15;
}

template <typename T> SYMM_DEV float to_float(T x)
{
    if constexpr (sizeof(T) == 2)
        return symm_dev_widen(x);
    else
        return (float)x;
}

template <typename T> SYMM_DEV T of_float(float x)
{
    if constexpr (sizeof(T) == 2)
        return symm_dev_narrow<T>(x);
    else
        return (T)x;
}

/* A thread adds its numbers of wrong elements and of checked elements. */
SYMM_DEV void add_counts(uint32_t *result, uint32_t wrong, uint32_t looked)
{
    if (wrong)
        symm_dev_red_add(result, wrong);
    if (looked)
        symm_dev_red_add(result + 1, looked);
}

#endif
