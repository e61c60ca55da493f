/* Kernels, their addresses and conversions on GPUs. */
#ifndef SYMM_DETAIL_CUDA_THREADS_CUH
#define SYMM_DETAIL_CUDA_THREADS_CUH

#define SYMM_DEV static __device__ __forceinline__
#define SYMM_DEV_IN_CLASS __device__ __forceinline__ /* a non-static member */

#define SYMM_KERNEL_BOUNDS(name, args_type, a, max_threads, min_blocks)                            \
    extern "C" __global__ void __launch_bounds__(max_threads, min_blocks)                          \
        name(const __grid_constant__ args_type a)
#define SYMM_KERNEL_REGISTERS(name, args_type, a, max_threads, registers)                          \
    extern "C" __global__ void __maxnreg__(registers) name(const __grid_constant__ args_type a)
#define SYMM_KERNEL(name, args_type, a, max_threads)                                               \
    SYMM_KERNEL_BOUNDS(name, args_type, a, max_threads, 1)

#define SYMM_DYNAMIC_SHARED(type, name, alignment)                                                 \
    extern __shared__ __align__(alignment)                                                         \
    type name[]

namespace symm_detail
{

SYMM_DEV uint64_t global(const void *p)
{
    return __cvta_generic_to_global(p);
}

SYMM_DEV uint32_t in_shared(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

/* Checks of the emulated driver only. */
SYMM_DEV void check_view(const symm_view &)
{
}

SYMM_DEV void check_rank(const symm_view &, const char *, int)
{
}

SYMM_DEV void check_channel(const symm_view &, const void *, int)
{
}

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
