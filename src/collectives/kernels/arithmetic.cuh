/*
 * The arithmetic: 16-bit floats in fp32, all other types in themselves, in the order of the ranks,
 * rounded once. Elements are moved as words: 16 bytes at a time (symm_bits16), or the 12 of a
 * packet (symm_bits12), of which one element of 8 bytes uses 8.
 */
#ifndef SYMM_ARITHMETIC_CUH
#define SYMM_ARITHMETIC_CUH

#include <symm/device.cuh>
#include "args.h"

SYMM_DEV uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Elements of T in 16 bytes, and in a packet. */
template <typename T> constexpr uint64_t PACK = 16 / sizeof(T);
template <typename T> constexpr uint32_t PACKET = sizeof(T) == 8 ? 1 : 12 / sizeof(T);

/* Types that the switch can add but not compare. */
template <typename T> inline constexpr bool IS_WIDE_FLOAT = false;
template <> inline constexpr bool IS_WIDE_FLOAT<float> = true;
template <> inline constexpr bool IS_WIDE_FLOAT<double> = true;

template <typename T> struct accumulator {
    typedef T type;
};
template <> struct accumulator<symm_f16> {
    typedef float type;
};
template <> struct accumulator<symm_bf16> {
    typedef float type;
};

/* The elements of some words, as accumulators. */
template <typename T> struct elements {
    typename accumulator<T>::type e[PACK<T>];
};

template <typename T> SYMM_DEV elements<T> unpack(const symm_bits16 &x)
{
    elements<T> y;
    if constexpr (sizeof(T) == 8) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint64_t bits = (uint64_t)x.w[2 * i + 1] << 32 | x.w[2 * i];
            __builtin_memcpy(&y.e[i], &bits, sizeof bits);
        }
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            __builtin_memcpy(&y.e[i], &x.w[i], sizeof x.w[i]);
    } else {
        const symm_f32s<T> f = symm_dev_unpack<T>(x);
#pragma unroll
        for (int i = 0; i < (int)PACK<T>; i++)
            y.e[i] = f.e[i];
    }
    return y;
}

template <typename T> SYMM_DEV symm_bits16 pack(const elements<T> &x)
{
    symm_bits16 y;
    if constexpr (sizeof(T) == 8) {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint64_t bits;
            __builtin_memcpy(&bits, &x.e[i], sizeof bits);
            y.w[2 * i] = (uint32_t)bits;
            y.w[2 * i + 1] = (uint32_t)(bits >> 32);
        }
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < 4; i++)
            __builtin_memcpy(&y.w[i], &x.e[i], sizeof y.w[i]);
    } else {
        symm_f32s<T> f;
#pragma unroll
        for (int i = 0; i < (int)PACK<T>; i++)
            f.e[i] = x.e[i];
        y = symm_dev_pack(f);
    }
    return y;
}

/* Of a packet: missing elements are 0, and their results are not stored. */
template <typename T> SYMM_DEV elements<T> unpack(const symm_bits12 &x)
{
    return unpack<T>(symm_bits16{{x.w[0], x.w[1], x.w[2], 0}});
}

template <typename T> SYMM_DEV void pack(const elements<T> &x, symm_bits16 *y)
{
    *y = pack(x);
}

template <typename T> SYMM_DEV void pack(const elements<T> &x, symm_bits12 *y)
{
    const symm_bits16 whole = pack(x);
    *y = {{whole.w[0], whole.w[1], whole.w[2]}};
}

/* The factor of a scale that is on. */
template <typename T> SYMM_DEV typename accumulator<T>::type factor_of(const symm_scale &scale)
{
    if (!scale.at)
        return (typename accumulator<T>::type)scale.value;
    T x[PACK<T>] = {static_cast<const T *>(scale.at)[0]};
    symm_bits16 bits;
    __builtin_memcpy(&bits, x, sizeof bits);
    return unpack<T>(bits).e[0];
}

template <typename T>
SYMM_DEV symm_bits16 times(const symm_bits16 &x, typename accumulator<T>::type factor)
{
    elements<T> y = unpack<T>(x);
#pragma unroll
    for (int i = 0; i < (int)PACK<T>; i++)
        y.e[i] *= factor;
    return pack(y);
}

/* Integers wrap around, signed ones as well. */
template <typename A> SYMM_DEV A plus(A a, A b)
{
    if constexpr (A(0.5) == A(0))
        return (A)((uint64_t)a + (uint64_t)b);
    else
        return a + b;
}

/*
 * into = into OP x, op a symm_redop. An average is a sum that finish() divides. min and max of a
 * NaN and a number are the number.
 */
template <typename T> SYMM_DEV void fold(elements<T> &into, const elements<T> &x, uint32_t op)
{
    if (op != SYMM_MIN && op != SYMM_MAX) {
#pragma unroll
        for (int i = 0; i < (int)PACK<T>; i++)
            into.e[i] = plus(into.e[i], x.e[i]);
        return;
    }
#pragma unroll
    for (int i = 0; i < (int)PACK<T>; i++) {
        const auto a = into.e[i], b = x.e[i];
        const bool stays = b != b || (op == SYMM_MIN ? a < b : b < a);
        into.e[i] = stays ? a : b;
    }
}

/* After the last rank: divides a sum to an average. Only floating types have averages. */
template <typename T> SYMM_DEV void finish(elements<T> &x, uint32_t op, int nranks)
{
    if (op != SYMM_AVG)
        return;
#pragma unroll
    for (int i = 0; i < (int)PACK<T>; i++)
        x.e[i] /= nranks;
}

/*
 * Sorts x by rank: x[i] came from rank q ^ i. Swaps pairs for each bit of q, because an index known
 * at run time only would put the array into local memory.
 */
template <typename B, int R> SYMM_DEV void in_rank_order(B (&x)[R], int q)
{
#pragma unroll
    for (int bit = 1; bit < R; bit *= 2) {
#pragma unroll
        for (int i = 0; i < R; i++) {
            if (i & bit)
                continue;
#pragma unroll
            for (int w = 0; w < (int)(sizeof(B) / sizeof x[i].w[0]); w++) {
                const uint32_t low = x[i].w[w], high = x[i | bit].w[w];
                x[i].w[w] = q & bit ? high : low;
                x[i | bit].w[w] = q & bit ? low : high;
            }
        }
    }
}

/* Reduces x[r] of all ranks r. */
template <typename T, typename B, int R> SYMM_DEV B reduce_in_order(const B (&x)[R], uint32_t op)
{
    B y;
    elements<T> sum = unpack<T>(x[0]);
#pragma unroll
    for (int r = 1; r < R; r++)
        fold(sum, unpack<T>(x[r]), op);
    finish(sum, op, R);
    pack(sum, &y);
    return y;
}

/*
 * Reduces words of R ranks: x[i] came from rank q ^ i. Sums, the most frequent calls, test the
 * operation only once.
 */
template <typename T, typename B, int R> SYMM_DEV B reduce_all(B (&x)[R], int q, uint32_t op)
{
    in_rank_order(x, q);
    return op == SYMM_SUM ? reduce_in_order<T>(x, SYMM_SUM) : reduce_in_order<T>(x, op);
}

/* Reduces load(0), load(1), ... of any number of ranks, in this order. */
template <typename T, typename Load>
SYMM_DEV auto reduce_ranks(int nranks, uint32_t op, const Load &load)
{
    decltype(load(0)) y;
    elements<T> sum = unpack<T>(load(0));
    for (int r = 1; r < nranks; r++)
        fold(sum, unpack<T>(load(r)), op);
    finish(sum, op, nranks);
    pack(sum, &y);
    return y;
}

/* The same with `own` of rank `rank`. load is inlined once: it may be a loop that polls. */
template <typename T, typename B, typename Load>
SYMM_DEV B reduce_ranks(int nranks, uint32_t op, int rank, const B &own, const Load &load)
{
    B y;
    elements<T> sum = {};
    for (int r = 0; r < nranks; r++) {
        const elements<T> x = unpack<T>(r == rank ? own : load(r));
        if (r == 0)
            sum = x;
        else
            fold(sum, x, op);
    }
    finish(sum, op, nranks);
    pack(sum, &y);
    return y;
}

/* ----------------------------------------------------------------------- this rank's own memory */

/* Loads pack i of n elements at p, which need not be aligned. Elements beyond n are 0. */
template <typename T> SYMM_DEV symm_bits16 load_pack(const T *p, uint64_t i, uint64_t n)
{
    const T *const at = p + i * PACK<T>;
    if ((i + 1) * PACK<T> <= n && reinterpret_cast<uintptr_t>(at) % 16 == 0)
        return symm_dev_load_bits(at);
    T e[PACK<T>] = {};
#pragma unroll 1 /* rare: few registers matter more */
    for (uint64_t k = 0; k < PACK<T> && i * PACK<T> + k < n; k++)
        e[k] = symm_dev_load_one(at + k);
    symm_bits16 x;
    __builtin_memcpy(&x, e, sizeof x);
    return x;
}

template <typename T> SYMM_DEV void store_pack(T *p, uint64_t i, uint64_t n, const symm_bits16 &x)
{
    T *const at = p + i * PACK<T>;
    if ((i + 1) * PACK<T> <= n && reinterpret_cast<uintptr_t>(at) % 16 == 0) {
        symm_dev_store_bits(at, x);
        return;
    }
    T e[PACK<T>];
    __builtin_memcpy(e, &x, sizeof x);
#pragma unroll 1 /* rare: few registers matter more */
    for (uint64_t k = 0; k < PACK<T> && i * PACK<T> + k < n; k++)
        symm_dev_store_one(at + k, e[k]);
}

#endif
