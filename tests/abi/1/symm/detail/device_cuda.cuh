/*
 * The machine under device.cuh, for GPUs: one PTX instruction a function. Addresses are global; the
 * asm statements are volatile with a memory clobber, so that the compiler keeps them in the order
 * in which they are written.
 */
#ifndef SYMM_DETAIL_DEVICE_CUDA_CUH
#define SYMM_DETAIL_DEVICE_CUDA_CUH

#define SYMM_DEV static __device__ __forceinline__

#define SYMM_KERNEL(name, args_type, a, max_threads)                                               \
    extern "C" __global__ void __launch_bounds__(max_threads, 1)                                   \
        name(const __grid_constant__ args_type a)

namespace symm_detail
{

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr bool has_multimem = false;
#else
constexpr bool has_multimem = true;
#endif

SYMM_DEV uint64_t global(const void *p)
{
    return __cvta_generic_to_global(p);
}

/* ----------------------------------------------------------------------------- flags and fences */

SYMM_DEV uint32_t load_relaxed(const uint32_t *p)
{
    uint32_t x;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(global(p)) : "memory");
    return x;
}

SYMM_DEV uint32_t load_acquire(const uint32_t *p)
{
    uint32_t x;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(x) : "l"(global(p)) : "memory");
    return x;
}

SYMM_DEV uint64_t load_acquire(const uint64_t *p)
{
    uint64_t x;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(x) : "l"(global(p)) : "memory");
    return x;
}

SYMM_DEV void store_relaxed(uint32_t *p, uint32_t x)
{
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(global(p)), "r"(x) : "memory");
}

SYMM_DEV void store_relaxed(uint64_t *p, uint64_t x)
{
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(global(p)), "l"(x) : "memory");
}

SYMM_DEV void store_release(uint32_t *p, uint32_t x)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(global(p)), "r"(x) : "memory");
}

SYMM_DEV void store_release(uint64_t *p, uint64_t x)
{
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(global(p)), "l"(x) : "memory");
}

/* Returns whether *p was `from`, and then is `to`. Only for words of this device. */
SYMM_DEV bool compare_and_swap(uint32_t *p, uint32_t from, uint32_t to)
{
    uint32_t was;
    asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(was)
                 : "l"(global(p)), "r"(from), "r"(to)
                 : "memory");
    return was == from;
}

/* Accesses by unicast and by multicast addresses to the same bytes are ordered only across this. */
SYMM_DEV void fence_alias(void)
{
    asm volatile("fence.proxy.alias;" ::: "memory");
}

/* A poll found nothing. On a GPU the next load takes long enough. */
SYMM_DEV void pause(void)
{
}

/* ----------------------------------------------------------------------------------------- data */

SYMM_DEV bits16 load16(const void *p)
{
    bits16 x;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x.w[0]), "=r"(x.w[1]), "=r"(x.w[2]), "=r"(x.w[3])
                 : "l"(global(p))
                 : "memory");
    return x;
}

SYMM_DEV void store16(void *p, const bits16 &x)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(global(p)), "r"(x.w[0]),
                 "r"(x.w[1]), "r"(x.w[2]), "r"(x.w[3])
                 : "memory");
}

/* One element. */
SYMM_DEV uint16_t load_bits(const uint16_t *p)
{
    uint16_t x;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(x) : "l"(global(p)) : "memory");
    return x;
}

SYMM_DEV uint32_t load_bits(const uint32_t *p)
{
    uint32_t x;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(x) : "l"(global(p)) : "memory");
    return x;
}

SYMM_DEV void store_bits(uint16_t *p, uint16_t x)
{
    asm volatile("st.global.u16 [%0], %1;" ::"l"(global(p)), "h"(x) : "memory");
}

SYMM_DEV void store_bits(uint32_t *p, uint32_t x)
{
    asm volatile("st.global.u32 [%0], %1;" ::"l"(global(p)), "r"(x) : "memory");
}

/* ----------------------------------------------------------------------------------- the switch */

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

SYMM_DEV bits16 multimem_add(const float *p)
{
    float x, y, z, w;
    asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x), "=f"(y), "=f"(z), "=f"(w)
                 : "l"(global(p))
                 : "memory");
    return {{__float_as_uint(x), __float_as_uint(y), __float_as_uint(z), __float_as_uint(w)}};
}

SYMM_DEV bits16 multimem_add(const symm_bf16 *p)
{
    bits16 x;
    asm volatile(
        "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0, %1, %2, %3}, [%4];"
        : "=r"(x.w[0]), "=r"(x.w[1]), "=r"(x.w[2]), "=r"(x.w[3])
        : "l"(global(p))
        : "memory");
    return x;
}

SYMM_DEV bits16 multimem_add(const symm_f16 *p)
{
    bits16 x;
    asm volatile(
        "multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, [%4];"
        : "=r"(x.w[0]), "=r"(x.w[1]), "=r"(x.w[2]), "=r"(x.w[3])
        : "l"(global(p))
        : "memory");
    return x;
}

/* There is no integer form with vectors; a store of floats moves the bits as they are. */
SYMM_DEV void multimem_store16(void *p, const bits16 &x)
{
    asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(global(p)),
                 "f"(__uint_as_float(x.w[0])), "f"(__uint_as_float(x.w[1])),
                 "f"(__uint_as_float(x.w[2])), "f"(__uint_as_float(x.w[3]))
                 : "memory");
}

#else /* no switch reduces for these GPUs: a group of them never has multicast, so nothing gets    \
         here */

template <typename T> SYMM_DEV bits16 multimem_add(const T *)
{
    return {};
}

SYMM_DEV void multimem_store16(void *, const bits16 &)
{
}

#endif

/* ---------------------------------------------------------------------------------- conversions */

SYMM_DEV float widen(float x)
{
    return x;
}

SYMM_DEV float widen(symm_bf16 x)
{
    return __uint_as_float((uint32_t)x.bits << 16);
}

SYMM_DEV float widen(symm_f16 x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

SYMM_DEV uint32_t float_bits(float x)
{
    return __float_as_uint(x);
}

SYMM_DEV float bits_float(uint32_t x)
{
    return __uint_as_float(x);
}

/* Two elements of type T, the first in the low half. */
template <typename T> SYMM_DEV uint32_t narrow2(float low, float high);

template <> __device__ __forceinline__ uint32_t narrow2<symm_bf16>(float low, float high)
{
    uint32_t x;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
}

template <> __device__ __forceinline__ uint32_t narrow2<symm_f16>(float low, float high)
{
    uint32_t x;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
    return x;
}

} /* namespace symm_detail */

#endif
