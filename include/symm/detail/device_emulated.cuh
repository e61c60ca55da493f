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
 * Where memory is weakly ordered (SYMM_EMULATED_WEAK) every access is a call of the driver.
 */
#ifndef SYMM_DETAIL_DEVICE_EMULATED_CUH
#define SYMM_DETAIL_DEVICE_EMULATED_CUH

#include <math.h>
#include <symm/detail/convert.h>
#include <symm/detail/emulated.h>
#include <symm/detail/wait_record.h>

#if defined(__SANITIZE_THREAD__)
#define SYMM_DETAIL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SYMM_DETAIL_TSAN 1
#endif
#endif

#define SYMM_DEV static inline
#define SYMM_DEV_IN_CLASS inline /* a member that is not static */

/* Every image is one translation unit, compiled with SYMM_IMAGE defined as its name. */
static const symm_emulated_ops *symm_emulated_driver; /* set when the driver loads the image */

#define SYMM_DETAIL_TEXT_(x) #x
#define SYMM_DETAIL_TEXT(x) SYMM_DETAIL_TEXT_(x)
#define SYMM_DETAIL_PASTE_(a, b) a##b
#define SYMM_DETAIL_PASTE(a, b) SYMM_DETAIL_PASTE_(a, b)
#define SYMM_DETAIL_FIRST SYMM_DETAIL_PASTE(__start_symm_kernels_, SYMM_IMAGE)
#define SYMM_DETAIL_LAST SYMM_DETAIL_PASTE(__stop_symm_kernels_, SYMM_IMAGE)

namespace symm_detail
{

/* Where an argument struct has its member `view`, plus 1; 0: it has none. */
template <typename T, symm_view T::*VIEW = &T::view> constexpr uint32_t view_at(int)
{
    return (uint32_t) __builtin_offsetof(T, view) + 1;
}
template <typename T> constexpr uint32_t view_at(...)
{
    return 0;
}
template <> constexpr uint32_t view_at<symm_view>(...)
{
    return 1;
}

} /* namespace symm_detail */

#define SYMM_KERNEL(name, args_type, a, max_threads)                                               \
    static void name##_body(const args_type &a);                                                   \
    static void name##_run(const void *args)                                                       \
    {                                                                                              \
        name##_body(*static_cast<const args_type *>(args));                                        \
    }                                                                                              \
    static const symm_emulated_kernel name##_kernel = {                                            \
        #name, name##_run, sizeof(args_type), max_threads, symm_detail::view_at<args_type>(0), 0}; \
    __attribute__((used,                                                                           \
                   section("symm_kernels_" SYMM_DETAIL_TEXT(                                       \
                       SYMM_IMAGE)))) static const symm_emulated_kernel *const name##_listed =     \
        &name##_kernel;                                                                            \
    static void name##_body(const args_type &a)

#define SYMM_KERNEL_BOUNDS(name, args_type, a, max_threads, min_blocks)                            \
    SYMM_KERNEL(name, args_type, a, max_threads)
#define SYMM_KERNEL_REGISTERS(name, args_type, a, max_threads, registers)                          \
    SYMM_KERNEL(name, args_type, a, max_threads)

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
        SYMM_EMULATED_MAGIC, SYMM_EMULATED_ABI, sizeof(symm_emulated_kernel),                      \
        SYMM_DETAIL_FIRST,   SYMM_DETAIL_LAST,  &symm_emulated_driver};                            \
    }

/* ------------------------------------------------------------------- what CUDA gives to kernels */

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __align__(n) __attribute__((aligned(n)))
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
    __builtin_memset(static_cast<void *>(all), 0xa5, sizeof all); /* lanes that do not take part */
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

/* ------------------------------------------------------------------------------------- accesses */

namespace symm_detail
{

SYMM_DEV bool weak(void)
{
    return symm_emulated_driver->flags & SYMM_EMULATED_WEAK;
}

SYMM_DEV void fence(uint32_t fences)
{
    if (weak())
        symm_emulated_driver->fence(fences);
}

/* Where this process keeps the bytes at p. A fault where the device cannot access them. */
template <typename T> SYMM_DEV T *home(T *p)
{
    void *const at = symm_emulated_driver->home(p);
#ifdef SYMM_DETAIL_TSAN
    return static_cast<T *>(at);
#else
    (void)at;
    return p;
#endif
}

/* The same; a replica, which the driver has named, is where it is. */
template <typename T> SYMM_DEV T *home(T *p, uint32_t how)
{
    return how & SYMM_EMULATED_MULTICAST ? p : home(p);
}

SYMM_DEV void check_aligned(const void *p, size_t nbytes)
{
    if ((uintptr_t)p % nbytes)
        symm_emulated_driver->fault("misaligned address", p);
}

/* A GPU goes on with any view, rank and channel, and touches what happens to lie there. */
SYMM_DEV void check_view(const symm_view &v)
{
    char rule[128];
    if (v.nranks >= 1 && v.nranks <= SYMM_MAX_RANKS && v.rank >= 0 && v.rank < v.nranks)
        return;
    if (!v.abi && !v.nranks && !v.poison)
        symm_emulated_driver->fault("the view is all zeros: symm_group_view() has not filled it in",
                                    NULL);
    __builtin_snprintf(rule, sizeof rule, "the view is of no group: rank %d of %d", v.rank,
                       v.nranks);
    symm_emulated_driver->fault(rule, NULL);
}

/* what: the function and its argument. */
SYMM_DEV void check_rank(const symm_view &v, const char *what, int rank)
{
    char rule[128];
    check_view(v);
    if (rank >= 0 && rank < v.nranks)
        return;
    __builtin_snprintf(rule, sizeof rule, "%s is %d; the group has ranks 0 to %d", what, rank,
                       v.nranks - 1);
    symm_emulated_driver->fault(rule, NULL);
}

SYMM_DEV bool is_pad_end(const symm_signal_cell *cell)
{
    return __atomic_load_n(&cell->sent, __ATOMIC_RELAXED) == SYMM_PAD_END_SENT &&
           __atomic_load_n(&cell->taken, __ATOMIC_RELAXED) == SYMM_PAD_END_TAKEN &&
           __atomic_load_n(&cell->arrived, __ATOMIC_RELAXED) == SYMM_PAD_END_ARRIVED;
}

/* The end of the pad comes before the end of the memory it is in. */
SYMM_DEV void check_channel(const symm_view &v, const void *pad, int channel)
{
    const symm_signal_cell *const cells = home(static_cast<const symm_signal_cell *>(pad));
    char rule[128];
    int nchannels = 1;
    check_view(v);
    while (nchannels <= channel && !is_pad_end(cells + (int64_t)nchannels * v.nranks))
        nchannels++;
    if (channel >= 0 && channel < nchannels)
        return;
    if (channel < 0)
        __builtin_snprintf(rule, sizeof rule, "channel is %d", channel);
    else
        __builtin_snprintf(rule, sizeof rule, "channel is %d; the pad has channels 0 to %d",
                           channel, nchannels - 1);
    symm_emulated_driver->fault(rule, NULL);
}

template <typename T> SYMM_DEV T load(const T *p, uint32_t how = 0)
{
    check_aligned(p, sizeof(T));
    if (!weak())
        return *static_cast<const T *>(home(p, how));
    T x;
    symm_emulated_driver->read(p, sizeof x, &x, how);
    return x;
}

template <typename T> SYMM_DEV void store(T *p, const T &x, uint32_t how = 0)
{
    check_aligned(p, sizeof(T));
    if (!weak())
        *static_cast<T *>(home(p, how)) = x;
    else
        symm_emulated_driver->write(p, sizeof x, &x, how);
}

/* ----------------------------------------------------------------------------- flags and fences */

template <typename T> SYMM_DEV T load_relaxed(const T *p)
{
    if (!weak())
        return __atomic_load_n(home(p), __ATOMIC_RELAXED);
    return load(p, SYMM_EMULATED_RELAXED);
}

template <typename T> SYMM_DEV T load_acquire(const T *p)
{
    if (!weak())
        return __atomic_load_n(home(p), __ATOMIC_ACQUIRE);
    const T x = load(p, SYMM_EMULATED_RELAXED);
    fence(SYMM_EMULATED_ACQUIRE);
    return x;
}

template <typename T> SYMM_DEV void store_relaxed(T *p, T x)
{
    if (!weak())
        __atomic_store_n(home(p), x, __ATOMIC_RELAXED);
    else
        store(p, x, SYMM_EMULATED_RELAXED);
}

template <typename T> SYMM_DEV void store_release(T *p, T x)
{
    if (weak()) {
        fence(SYMM_EMULATED_RELEASE);
        symm_emulated_driver->settle(p, sizeof *p);
    }
    __atomic_store_n(home(p), x, __ATOMIC_RELEASE);
}

SYMM_DEV bool compare_and_swap(uint32_t *p, uint32_t from, uint32_t to)
{
    if (weak())
        symm_emulated_driver->settle(p, sizeof *p);
    const bool swapped =
        __atomic_compare_exchange_n(home(p), &from, to, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    fence(SYMM_EMULATED_ACQUIRE);
    return swapped;
}

SYMM_DEV uint32_t fetch_add(uint32_t *p, uint32_t x)
{
    if (weak()) {
        fence(SYMM_EMULATED_RELEASE);
        symm_emulated_driver->settle(p, sizeof *p);
    }
    const uint32_t was = __atomic_fetch_add(home(p), x, __ATOMIC_ACQ_REL);
    fence(SYMM_EMULATED_ACQUIRE);
    return was;
}

SYMM_DEV uint32_t fetch_add_relaxed(uint32_t *p, uint32_t x)
{
    if (weak())
        symm_emulated_driver->settle(p, sizeof *p);
    return __atomic_fetch_add(home(p), x, __ATOMIC_RELAXED);
}

/* Unicast and multicast addresses lead to the same CPU memory here, unless it is weakly ordered. */
SYMM_DEV void fence_alias(void)
{
    fence(SYMM_EMULATED_ALIAS_FENCE);
}

/* As on GPUs; here a poll may take a tenth of a millisecond, and the host's memory is near. */
enum { LOOK_AFTER = 32, LOOK_EVERY = 256, LOOK_APART = 1 };

/* A kernel begins when the one before it in the stream is done. */
SYMM_DEV void pdl_wait(void)
{
}

SYMM_DEV void pdl_release(void)
{
}

SYMM_DEV void pause(void)
{
    symm_emulated_driver->yield();
}

/* ----------------------------------------------------------------------------------------- data */

SYMM_DEV bits16 load16(const void *p)
{
    return load(static_cast<const bits16 *>(p));
}

SYMM_DEV void store16(void *p, const bits16 &x)
{
    store(static_cast<bits16 *>(p), x);
}

template <typename T> SYMM_DEV T load_scalar(const T *p)
{
    return load(p);
}

template <typename T> SYMM_DEV void store_scalar(T *p, T x)
{
    store(p, x);
}

/*
 * A packet comes at once: the half with the flag is written last and read first. It is not among
 * the stores that are held back where memory is weakly ordered, since nothing orders it with
 * others.
 */
SYMM_DEV bits16 load_packet(const symm_packet *p)
{
    check_aligned(p, sizeof *p);
    const uint64_t *half = reinterpret_cast<const uint64_t *>(home(p)->word);
    const uint64_t high = __atomic_load_n(half + 1, __ATOMIC_ACQUIRE),
                   low = __atomic_load_n(half, __ATOMIC_RELAXED);
    return {{(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)}};
}

SYMM_DEV void store_packet(symm_packet *p, const bits16 &x)
{
    check_aligned(p, sizeof *p);
    if (weak())
        symm_emulated_driver->settle(p, sizeof *p);
    uint64_t *half = reinterpret_cast<uint64_t *>(home(p)->word);
    __atomic_store_n(half, (uint64_t)x.w[1] << 32 | x.w[0], __ATOMIC_RELAXED);
    __atomic_store_n(half + 1, (uint64_t)x.w[3] << 32 | x.w[2], __ATOMIC_RELEASE);
}

/* What the driver calls back to make a reduction of T, atomically, where the bytes are. */
template <typename T> SYMM_DEV void apply_add(void *at, const void *operand)
{
    T was, now, x;
    __builtin_memcpy(&x, operand, sizeof x);
    __atomic_load(static_cast<T *>(at), &was, __ATOMIC_RELAXED);
    do
        now = was + x;
    while (!__atomic_compare_exchange(static_cast<T *>(at), &was, &now, true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED));
}

template <typename T>
SYMM_DEV void update(T *p, const void *operand, void (*apply)(void *, const void *), uint32_t how)
{
    check_aligned(p, sizeof(T));
    if (weak())
        symm_emulated_driver->update(p, sizeof(T), operand, apply, how);
    else
        apply(home(p, how), operand);
}

template <typename T> SYMM_DEV void red_add(T *p, T x)
{
    update(p, &x, apply_add<T>, 0);
}

/* ------------------------------------------------------------------------------- the copy unit */

SYMM_DEV void fence_async(void)
{
    fence(SYMM_EMULATED_ASYNC_FENCE);
}

SYMM_DEV void bulk_wait(void)
{
    fence(SYMM_EMULATED_BULK_WAIT);
}

SYMM_DEV bool bulk_copy(void *to, const void *from, uint64_t nbytes, void *, uint32_t)
{
    for (uint64_t i = 0; i < nbytes / sizeof(bits16); i++)
        store(static_cast<bits16 *>(to) + i,
              load(static_cast<const bits16 *>(from) + i, SYMM_EMULATED_ASYNC),
              SYMM_EMULATED_ASYNC);
    return true;
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

/* How elements of T are reduced: 16-bit floats in fp32; integers without overflow. */
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

/* Visits the replicas in the order in which the driver names them, and rounds once. */
template <symm_redop OP> struct multimem_load {
    template <typename T> static bits16 of(const T *p)
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

/* Two 16-bit elements, which share a word, or one of 32 bits. */
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
