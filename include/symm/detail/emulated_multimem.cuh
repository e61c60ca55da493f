/* Conversions, arithmetic and multimem operations under the emulated driver. */
#ifndef SYMM_DETAIL_EMULATED_MULTIMEM_CUH
#define SYMM_DETAIL_EMULATED_MULTIMEM_CUH

#include <symm/detail/convert.h>
#include <symm/detail/emulated_memory.cuh>

namespace symm_detail
{

/* ---------------------------------------------------------------------------------- conversions */

SYMM_DEV float widen(float x)
{
    return x;
}

SYMM_DEV float widen(symm_bf16 x)
{
    return symm_detail_from_bf16(x.bits);
}

SYMM_DEV float widen(symm_f16 x)
{
    return symm_detail_from_f16(x.bits);
}

SYMM_DEV uint32_t float_bits(float x)
{
    return symm_detail_bits(x);
}

SYMM_DEV float bits_float(uint32_t x)
{
    return symm_detail_float(x);
}

SYMM_DEV void narrow(float x, float *out)
{
    *out = x;
}

SYMM_DEV void narrow(float x, symm_bf16 *out)
{
    out->bits = symm_detail_to_bf16(x);
}

SYMM_DEV void narrow(float x, symm_f16 *out)
{
    out->bits = symm_detail_to_f16(x);
}

/* Two elements of type T, the first in the low half. */
template <typename T> SYMM_DEV uint32_t narrow2(float low, float high)
{
    T x, y;
    narrow(low, &x);
    narrow(high, &y);
    return x.bits | (uint32_t)y.bits << 16;
}

/* ------------------------------------------------------------------------------------- multimem */

/* The arithmetic of elements of T: 16-bit floats in fp32; integers wrap around. */
template <typename T> struct arithmetic {
    typedef T wide;
    static wide widen(T x)
    {
        return x;
    }
    static T narrow(wide x)
    {
        return x;
    }
};
template <typename T> struct arithmetic16 {
    typedef float wide;
    static float widen(T x)
    {
        return symm_detail::widen(x);
    }
    static T narrow(float x)
    {
        T y;
        symm_detail::narrow(x, &y);
        return y;
    }
};
template <> struct arithmetic<symm_f16> : arithmetic16<symm_f16> {
};
template <> struct arithmetic<symm_bf16> : arithmetic16<symm_bf16> {
};

template <symm_redop OP, typename T> SYMM_DEV T combine(T a, T b)
{
    if constexpr (OP == SYMM_MIN)
        return b < a || a != a ? b : a;
    else if constexpr (OP == SYMM_MAX)
        return b > a || a != a ? b : a;
    else if constexpr (T(0.5) == T(0)) /* the bits of a sum of integers, signed or not */
        return (T)((uint64_t)a + (uint64_t)b);
    else
        return a + b;
}

/* Reduces the replicas in the driver's order and rounds once. */
template <symm_redop OP> struct multimem_load {
    template <typename T> SYMM_DEV_IN_CLASS static bits16 of(const T *p)
    {
        typedef arithmetic<T> how;
        constexpr int N = 16 / sizeof(T);
        void *replicas[SYMM_MAX_RANKS];
        const int n = symm_emulated_driver->replicas(p, sizeof(bits16), replicas);
        typename how::wide sum[N] = {};
        T x[N];
        for (int i = 0; i < n; i++) {
            const bits16 bits =
                load(static_cast<const bits16 *>(replicas[i]), SYMM_EMULATED_MULTICAST);
            __builtin_memcpy(x, &bits, sizeof x);
            for (int e = 0; e < N; e++)
                sum[e] = i ? combine<OP>(sum[e], how::widen(x[e])) : how::widen(x[e]);
        }
        for (int e = 0; e < N; e++)
            x[e] = how::narrow(sum[e]);
        bits16 bits;
        __builtin_memcpy(&bits, x, sizeof bits);
        return bits;
    }
};

SYMM_DEV void multimem_store16(void *p, const bits16 &x)
{
    void *replicas[SYMM_MAX_RANKS];
    const int n = symm_emulated_driver->replicas(p, sizeof x, replicas);
    for (int i = 0; i < n; i++)
        store(static_cast<bits16 *>(replicas[i]), x, SYMM_EMULATED_MULTICAST);
}

template <typename T> SYMM_DEV void multimem_red(T *p, T x)
{
    void *replicas[SYMM_MAX_RANKS];
    const int n = symm_emulated_driver->replicas(p, sizeof x, replicas);
    for (int i = 0; i < n; i++)
        update(static_cast<T *>(replicas[i]), &x, apply_add<T>, SYMM_EMULATED_MULTICAST);
}

/* Adds two 16-bit elements of one word, or one 32-bit element. */
template <typename T> SYMM_DEV void apply_add_word(void *at, const void *operand)
{
    typedef arithmetic<T> how;
    constexpr int N = 4 / sizeof(T);
    uint32_t was = __atomic_load_n(static_cast<uint32_t *>(at), __ATOMIC_RELAXED), now;
    T x[N], y[N];
    __builtin_memcpy(y, operand, sizeof y);
    do {
        __builtin_memcpy(x, &was, sizeof x);
        for (int e = 0; e < N; e++)
            x[e] = how::narrow(how::widen(x[e]) + how::widen(y[e]));
        __builtin_memcpy(&now, x, sizeof now);
    } while (!__atomic_compare_exchange_n(static_cast<uint32_t *>(at), &was, now, true,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

template <typename T> SYMM_DEV void multimem_red(T *p, const bits16 &x)
{
    void *replicas[SYMM_MAX_RANKS];
    const int n = symm_emulated_driver->replicas(p, sizeof x, replicas);
    for (int i = 0; i < n; i++)
        for (int w = 0; w < 4; w++)
            update(static_cast<uint32_t *>(replicas[i]) + w, &x.w[w], apply_add_word<T>,
                   SYMM_EMULATED_MULTICAST);
}

} /* namespace symm_detail */

#endif
