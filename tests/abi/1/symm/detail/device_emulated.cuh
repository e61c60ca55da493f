/*
 * The machine under device.cuh, for the emulated driver: the same functions as device_cuda.cuh on
 * CPU memory, and what CUDA gives to every kernel (threadIdx, __shared__, __syncthreads, shuffles,
 * votes) on the driver's functions.
 *
 * A block is one thread of the operating system, so a thread_local variable is its shared memory.
 * Another CUDA thread of the block may run inside every call of the driver; nothing but such a call
 * gives way.
 *
 * Ordering is release stores and acquire loads. Under ThreadSanitizer, which knows memory by its
 * address and no stand-alone fences, every access first goes to the one home address of its bytes.
 */
#ifndef SYMM_DETAIL_DEVICE_EMULATED_CUH
#define SYMM_DETAIL_DEVICE_EMULATED_CUH

#include <math.h>
#include <symm/detail/convert.h>
#include <symm/detail/emulated.h>

#if defined(__SANITIZE_THREAD__)
#define SYMM_DETAIL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SYMM_DETAIL_TSAN 1
#endif
#endif

#define SYMM_DEV static inline

/* Every image is one translation unit, compiled with SYMM_IMAGE defined as its name. */
static const symm_emulated_ops *symm_emulated_driver; /* set when the driver loads the image */

#define SYMM_DETAIL_TEXT_(x) #x
#define SYMM_DETAIL_TEXT(x) SYMM_DETAIL_TEXT_(x)
#define SYMM_DETAIL_PASTE_(a, b) a##b
#define SYMM_DETAIL_PASTE(a, b) SYMM_DETAIL_PASTE_(a, b)
#define SYMM_DETAIL_FIRST SYMM_DETAIL_PASTE(__start_symm_kernels_, SYMM_IMAGE)
#define SYMM_DETAIL_LAST SYMM_DETAIL_PASTE(__stop_symm_kernels_, SYMM_IMAGE)

#define SYMM_KERNEL(name, args_type, a, max_threads)                                               \
    static void name##_body(const args_type &a);                                                   \
    static void name##_run(const void *args)                                                       \
    {                                                                                              \
        name##_body(*static_cast<const args_type *>(args));                                        \
    }                                                                                              \
    static const symm_emulated_kernel name##_kernel = {#name, name##_run, sizeof(args_type),       \
                                                       max_threads};                               \
    __attribute__((used,                                                                           \
                   section("symm_kernels_" SYMM_DETAIL_TEXT(                                       \
                       SYMM_IMAGE)))) static const symm_emulated_kernel *const name##_listed =     \
        &name##_kernel;                                                                            \
    static void name##_body(const args_type &a)

/* Comes last in the translation unit: what cuModuleLoadData gets. The linker knows where the list
 * begins and ends. */
#define SYMM_EMULATED_MODULE                                                                       \
    extern "C" {                                                                                   \
    extern const symm_emulated_kernel *const SYMM_DETAIL_FIRST[]                                   \
        __attribute__((visibility("hidden")));                                                     \
    extern const symm_emulated_kernel *const SYMM_DETAIL_LAST[]                                    \
        __attribute__((visibility("hidden")));                                                     \
    extern const symm_emulated_module SYMM_DETAIL_PASTE(symm_emulated_, SYMM_IMAGE);               \
    const symm_emulated_module SYMM_DETAIL_PASTE(symm_emulated_, SYMM_IMAGE) = {                   \
        SYMM_EMULATED_MAGIC, SYMM_EMULATED_ABI, 0,                                                 \
        SYMM_DETAIL_FIRST,   SYMM_DETAIL_LAST,  &symm_emulated_driver};                            \
    }

/* ------------------------------------------------------------------- what CUDA gives to kernels */

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define threadIdx (symm_emulated_driver->self()->thread)
#define blockIdx (symm_emulated_driver->self()->block)
#define blockDim (symm_emulated_driver->self()->block_dim)
#define gridDim (symm_emulated_driver->self()->grid_dim)
#define warpSize 32

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

/* What the lane `from` brought; one's own value where `valid` is false, as the hardware has it. */
template <typename T> SYMM_DEV T shuffle(uint32_t mask, T mine, uint32_t from, bool valid)
{
    static_assert(sizeof(T) <= 16, "");
    T all[32];
    __builtin_memset(static_cast<void *>(all), 0, sizeof all);
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

/* ----------------------------------------------------------------------------- flags and fences */

namespace symm_detail
{

constexpr bool has_multimem = true;

/* Where this process keeps the bytes at p. */
template <typename T> SYMM_DEV T *home(T *p)
{
#ifdef SYMM_DETAIL_TSAN
    return static_cast<T *>(symm_emulated_driver->home(p));
#else
    return p;
#endif
}

SYMM_DEV uint32_t load_relaxed(const uint32_t *p)
{
    return __atomic_load_n(home(p), __ATOMIC_RELAXED);
}

SYMM_DEV uint32_t load_acquire(const uint32_t *p)
{
    return __atomic_load_n(home(p), __ATOMIC_ACQUIRE);
}

SYMM_DEV uint64_t load_acquire(const uint64_t *p)
{
    return __atomic_load_n(home(p), __ATOMIC_ACQUIRE);
}

SYMM_DEV void store_relaxed(uint32_t *p, uint32_t x)
{
    __atomic_store_n(home(p), x, __ATOMIC_RELAXED);
}

SYMM_DEV void store_relaxed(uint64_t *p, uint64_t x)
{
    __atomic_store_n(home(p), x, __ATOMIC_RELAXED);
}

SYMM_DEV void store_release(uint32_t *p, uint32_t x)
{
    __atomic_store_n(home(p), x, __ATOMIC_RELEASE);
}

SYMM_DEV void store_release(uint64_t *p, uint64_t x)
{
    __atomic_store_n(home(p), x, __ATOMIC_RELEASE);
}

SYMM_DEV bool compare_and_swap(uint32_t *p, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(home(p), &from, to, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

/* Unicast and multicast addresses lead to the same CPU memory here. */
SYMM_DEV void fence_alias(void)
{
}

SYMM_DEV void pause(void)
{
    symm_emulated_driver->yield();
}

/* ----------------------------------------------------------------------------------------- data */

SYMM_DEV void check_aligned(const void *p, size_t nbytes)
{
    if ((uintptr_t)p % nbytes)
        symm_emulated_driver->fault("misaligned address", p);
}

SYMM_DEV bits16 load16(const void *p)
{
    check_aligned(p, sizeof(bits16));
    return *static_cast<const bits16 *>(home(p));
}

SYMM_DEV void store16(void *p, const bits16 &x)
{
    check_aligned(p, sizeof x);
    *static_cast<bits16 *>(home(p)) = x;
}

SYMM_DEV uint16_t load_bits(const uint16_t *p)
{
    return *home(p);
}

SYMM_DEV uint32_t load_bits(const uint32_t *p)
{
    return *home(p);
}

SYMM_DEV void store_bits(uint16_t *p, uint16_t x)
{
    *home(p) = x;
}

SYMM_DEV void store_bits(uint32_t *p, uint32_t x)
{
    *home(p) = x;
}

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

/* ----------------------------------------------------------------------------------- the switch */

/* Adds in fp32, in the order in which the driver names the replicas, and rounds once. */
template <typename T> SYMM_DEV bits16 multimem_add(const T *p)
{
    constexpr int N = 16 / sizeof(T);
    void *replicas[SYMM_MAX_RANKS];
    const int n = symm_emulated_driver->replicas(p, sizeof(bits16), replicas);
    float sum[N] = {};
    for (int i = 0; i < n; i++) {
        const bits16 bits = load16(replicas[i]);
        T x[N];
        __builtin_memcpy(x, &bits, sizeof x);
        for (int e = 0; e < N; e++)
            sum[e] = i ? sum[e] + widen(x[e]) : widen(x[e]);
    }
    T x[N];
    for (int e = 0; e < N; e++)
        narrow(sum[e], &x[e]);
    bits16 bits;
    __builtin_memcpy(&bits, x, sizeof bits);
    return bits;
}

SYMM_DEV void multimem_store16(void *p, const bits16 &x)
{
    void *replicas[SYMM_MAX_RANKS];
    const int n = symm_emulated_driver->replicas(p, sizeof x, replicas);
    for (int i = 0; i < n; i++)
        store16(replicas[i], x);
}

} /* namespace symm_detail */

#endif
