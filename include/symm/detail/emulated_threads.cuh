/* The CUDA C++ of kernels, on the emulated driver's functions. */
#ifndef SYMM_DETAIL_EMULATED_THREADS_CUH
#define SYMM_DETAIL_EMULATED_THREADS_CUH

#include <math.h>
#include <symm/detail/emulated_image.cuh>

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __align__(n) __attribute__((aligned(n)))
#define SYMM_DYNAMIC_SHARED(type, name, alignment)                                                 \
    type *const name = static_cast<type *>(symm_emulated_driver->dynamic_shared(alignment))
#define __launch_bounds__(...)
#define threadIdx (symm_emulated_driver->self()->thread)
#define blockIdx (symm_emulated_driver->self()->block)
#define blockDim (symm_emulated_driver->self()->block_dim)
#define gridDim (symm_emulated_driver->self()->grid_dim)
#define warpSize 32

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

SYMM_DEV float2 make_float2(float x, float y)
{
    return {x, y};
}

SYMM_DEV void __syncthreads(void)
{
    (void)symm_emulated_driver->sync_threads(0);
}

SYMM_DEV int __syncthreads_or(int value)
{
    return symm_emulated_driver->sync_threads(value);
}

SYMM_DEV int __syncthreads_and(int value)
{
    return !symm_emulated_driver->sync_threads(!value);
}

namespace symm_detail
{

SYMM_DEV uint32_t lane(void)
{
    const symm_emulated_thread *t = symm_emulated_driver->self();
    return (t->thread.x + t->block_dim.x * (t->thread.y + t->block_dim.y * t->thread.z)) % 32;
}

/* Returns the value of the lane `from`; the caller's own where `valid` is false, as on GPUs. */
template <typename T> SYMM_DEV T shuffle(uint32_t mask, T mine, uint32_t from, bool valid)
{
    static_assert(sizeof(T) <= 16, "");
    T all[32];
    __builtin_memset(static_cast<void *>(all), 0xa5,
                     sizeof all); /* the result of lanes outside of the mask */
    symm_emulated_driver->warp_exchange(mask, &mine, sizeof mine, all);
    return valid ? all[from % 32] : mine;
}

} /* namespace symm_detail */

template <typename T> SYMM_DEV T __shfl_sync(uint32_t mask, T x, int from, int width = 32)
{
    const uint32_t base = symm_detail::lane() & ~((uint32_t)width - 1);
    return symm_detail::shuffle(mask, x, base + (uint32_t)from % (uint32_t)width, true);
}

template <typename T> SYMM_DEV T __shfl_xor_sync(uint32_t mask, T x, int bits, int width = 32)
{
    const uint32_t lane = symm_detail::lane(), from = lane ^ (uint32_t)bits;
    return symm_detail::shuffle(mask, x, from,
                                from < (lane & ~((uint32_t)width - 1)) + (uint32_t)width);
}

template <typename T> SYMM_DEV T __shfl_down_sync(uint32_t mask, T x, unsigned by, int width = 32)
{
    const uint32_t lane = symm_detail::lane(), from = lane + by;
    return symm_detail::shuffle(mask, x, from,
                                from < (lane & ~((uint32_t)width - 1)) + (uint32_t)width);
}

template <typename T> SYMM_DEV T __shfl_up_sync(uint32_t mask, T x, unsigned by, int width = 32)
{
    const uint32_t lane = symm_detail::lane(), base = lane & ~((uint32_t)width - 1);
    return symm_detail::shuffle(mask, x, lane - by, lane >= base + by);
}

SYMM_DEV uint32_t __ballot_sync(uint32_t mask, int value)
{
    uint8_t mine = value != 0, all[32] = {0};
    symm_emulated_driver->warp_exchange(mask, &mine, sizeof mine, all);
    uint32_t bits = 0;
    for (uint32_t i = 0; i < 32; i++)
        bits |= (uint32_t)(all[i] && (mask >> i & 1)) << i;
    return bits;
}

SYMM_DEV int __any_sync(uint32_t mask, int value)
{
    return __ballot_sync(mask, value) != 0;
}

SYMM_DEV int __all_sync(uint32_t mask, int value)
{
    return __ballot_sync(mask, !value) == 0;
}

SYMM_DEV void __syncwarp(uint32_t mask = 0xffffffffu)
{
    if (symm_emulated_driver->flags & SYMM_EMULATED_WEAK)
        symm_emulated_driver->fence(SYMM_EMULATED_WARP);
    (void)__ballot_sync(mask, 0);
}

template <typename T> SYMM_DEV T min(T a, T b)
{
    return b < a ? b : a;
}

template <typename T> SYMM_DEV T max(T a, T b)
{
    return a < b ? b : a;
}

SYMM_DEV float symm_emulated_rsqrt(float x)
{
    return 1.0f / sqrtf(x);
}
#define rsqrtf(x)                                                                                  \
    symm_emulated_rsqrt(x) /* a macro, since some C libraries have a function of that name */

#endif
