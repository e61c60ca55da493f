/* Accesses by multicast addresses on GPUs, which the switch carries out. */
#ifndef SYMM_DETAIL_CUDA_MULTIMEM_CUH
#define SYMM_DETAIL_CUDA_MULTIMEM_CUH

#include <symm/detail/cuda_memory.cuh>

namespace symm_detail
{

/* multimem_load<OP>(p): one access of the switch, in the widest form of the type. */
template <symm_redop OP> struct multimem_load;
template <typename T> SYMM_DEV void multimem_red(T *p, const bits16 &x);

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

SYMM_DEV uint32_t word(float x)
{
    return __float_as_uint(x);
}

SYMM_DEV uint32_t word(uint32_t x)
{
    return x;
}

/* Four words at once: floats, and pairs of halves. Integers have no such form. */
#define SYMM_DETAIL_MULTIMEM_LOAD4(op, type, ptx, register_type, letter)                           \
    SYMM_DEV bits16 of(const type *p)                                                              \
    {                                                                                              \
        register_type x, y, z, w;                                                                  \
        asm volatile("multimem.ld_reduce.relaxed.sys.global." op ptx " {%0, %1, %2, %3}, [%4];"    \
                     : "=" letter(x), "=" letter(y), "=" letter(z), "=" letter(w)                  \
                     : "l"(global(p))                                                              \
                     : "memory");                                                                  \
        return {{word(x), word(y), word(z), word(w)}};                                             \
    }
#define SYMM_DETAIL_MULTIMEM_LOAD1(op, type, ptx, register_type, letter)                           \
    SYMM_DEV type of(const type *p)                                                                \
    {                                                                                              \
        register_type x;                                                                           \
        asm volatile("multimem.ld_reduce.relaxed.sys.global." op ptx " %0, [%1];"                  \
                     : "=" letter(x)                                                               \
                     : "l"(global(p))                                                              \
                     : "memory");                                                                  \
        return (type)x;                                                                            \
    }
/* In two's complement, signed and unsigned sums have the same bits; minima and maxima do not. */
#define SYMM_DETAIL_MULTIMEM_EXTREME(op)                                                           \
    SYMM_DETAIL_MULTIMEM_LOAD4(op, symm_bf16, ".v4.bf16x2", uint32_t, "r")                         \
    SYMM_DETAIL_MULTIMEM_LOAD4(op, symm_f16, ".v4.f16x2", uint32_t, "r")                           \
    SYMM_DETAIL_MULTIMEM_LOAD1(op, uint32_t, ".u32", uint32_t, "r")                                \
    SYMM_DETAIL_MULTIMEM_LOAD1(op, int32_t, ".s32", int32_t, "r")                                  \
    SYMM_DETAIL_MULTIMEM_LOAD1(op, uint64_t, ".u64", uint64_t, "l")                                \
    SYMM_DETAIL_MULTIMEM_LOAD1(op, int64_t, ".s64", int64_t, "l")

template <> struct multimem_load<SYMM_SUM> {
    SYMM_DETAIL_MULTIMEM_LOAD4("add", float, ".v4.f32", float, "f")
    SYMM_DETAIL_MULTIMEM_LOAD4("add", symm_bf16, ".acc::f32.v4.bf16x2", uint32_t, "r")
    SYMM_DETAIL_MULTIMEM_LOAD4("add", symm_f16, ".acc::f32.v4.f16x2", uint32_t, "r")
    SYMM_DETAIL_MULTIMEM_LOAD1("add", double, ".f64", double, "d")
    SYMM_DETAIL_MULTIMEM_LOAD1("add", uint32_t, ".u32", uint32_t, "r")
    SYMM_DETAIL_MULTIMEM_LOAD1("add", int32_t, ".u32", uint32_t, "r")
    SYMM_DETAIL_MULTIMEM_LOAD1("add", uint64_t, ".u64", uint64_t, "l")
    SYMM_DETAIL_MULTIMEM_LOAD1("add", int64_t, ".u64", uint64_t, "l")
};
template <> struct multimem_load<SYMM_MIN> {
    SYMM_DETAIL_MULTIMEM_EXTREME("min")
};
template <> struct multimem_load<SYMM_MAX> {
    SYMM_DETAIL_MULTIMEM_EXTREME("max")
};
#undef SYMM_DETAIL_MULTIMEM_LOAD4
#undef SYMM_DETAIL_MULTIMEM_LOAD1
#undef SYMM_DETAIL_MULTIMEM_EXTREME

/* Integers have no vector form; a store of floats moves the bits unchanged. */
SYMM_DEV void multimem_store16(void *p, const bits16 &x)
{
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(global(p)),
                 "f"(__uint_as_float(x.w[0])), "f"(__uint_as_float(x.w[1])),
                 "f"(__uint_as_float(x.w[2])), "f"(__uint_as_float(x.w[3]))
                 : "memory");
}

#define SYMM_DETAIL_MULTIMEM_RED(type, ptx, letter)                                                \
    SYMM_DEV void multimem_red(type *p, type x)                                                    \
    {                                                                                              \
        asm volatile("multimem.red.relaxed.sys.global.add." ptx " [%0], %1;" ::"l"(global(p)),     \
                     letter(x)                                                                     \
                     : "memory");                                                                  \
    }
SYMM_DETAIL_MULTIMEM_RED(uint32_t, "u32", "r")
SYMM_DETAIL_MULTIMEM_RED(uint64_t, "u64", "l")
SYMM_DETAIL_MULTIMEM_RED(float, "f32", "f")
SYMM_DETAIL_MULTIMEM_RED(double, "f64", "d")
#undef SYMM_DETAIL_MULTIMEM_RED

#define SYMM_DETAIL_MULTIMEM_RED4(type, ptx, letter, as)                                           \
    template <> __device__ __forceinline__ void multimem_red(type *p, const bits16 &x)             \
    {                                                                                              \
        asm volatile("multimem.red.relaxed.sys.global.add.v4." ptx                                 \
                     " [%0], {%1, %2, %3, %4};" ::"l"(global(p)),                                  \
                     letter(as(x.w[0])), letter(as(x.w[1])), letter(as(x.w[2])),                   \
                     letter(as(x.w[3]))                                                            \
                     : "memory");                                                                  \
    }
SYMM_DETAIL_MULTIMEM_RED4(float, "f32", "f", __uint_as_float)
SYMM_DETAIL_MULTIMEM_RED4(symm_bf16, "bf16x2", "r", word)
SYMM_DETAIL_MULTIMEM_RED4(symm_f16, "f16x2", "r", word)
#undef SYMM_DETAIL_MULTIMEM_RED4

#else /* never called: a group of these GPUs has no multicast */

template <symm_redop OP> struct multimem_load {
    SYMM_DEV bits16 of(const void *)
    {
        return {};
    }
};

SYMM_DEV void multimem_store16(void *, const bits16 &)
{
}

template <typename T> SYMM_DEV void multimem_red(T *, T)
{
}

template <typename T> SYMM_DEV void multimem_red(T *, const bits16 &)
{
}

#endif

} /* namespace symm_detail */

#endif
