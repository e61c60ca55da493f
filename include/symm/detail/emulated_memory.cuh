/*
 * Memory accesses under the emulated driver. Ordering is release stores and acquire loads.
 *
 * ThreadSanitizer identifies memory by its address and knows no stand-alone fences. So in its
 * builds every access uses the one home address of its bytes. With weakly ordered memory
 * (SYMM_EMULATED_WEAK) every access is a call of the driver.
 */
#ifndef SYMM_DETAIL_EMULATED_MEMORY_CUH
#define SYMM_DETAIL_EMULATED_MEMORY_CUH

#include <symm/detail/emulated_hopper.h>
#include <symm/detail/emulated_image.cuh>
#include <symm/detail/wait_record.h>

#if defined(__SANITIZE_THREAD__)
#define SYMM_DETAIL_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SYMM_DETAIL_TSAN 1
#endif
#endif

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

/* Returns the home address of the bytes at p. A fault if the device cannot access them. */
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

/* The same. A replica from the driver has its home address already. */
template <typename T> SYMM_DEV T *home(T *p, uint32_t how)
{
    return how & SYMM_EMULATED_MULTICAST ? p : home(p);
}

SYMM_DEV void check_aligned(const void *p, size_t nbytes)
{
    if ((uintptr_t)p % nbytes)
        symm_emulated_driver->fault("misaligned address", p);
}

/* A GPU does not check a view, rank or channel, and accesses whatever memory they lead to. */
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

/* name: of the function and its argument. */
SYMM_DEV void check_rank(const symm_view &v, const char *name, int rank)
{
    char rule[128];
    check_view(v);
    if (rank >= 0 && rank < v.nranks)
        return;
    __builtin_snprintf(rule, sizeof rule, "%s is %d; the group has ranks 0 to %d", name, rank,
                       v.nranks - 1);
    symm_emulated_driver->fault(rule, NULL);
}

SYMM_DEV bool is_pad_end(const symm_signal_cell *cell)
{
    return __atomic_load_n(&cell->sent, __ATOMIC_RELAXED) == SYMM_PAD_END_SENT &&
           __atomic_load_n(&cell->taken, __ATOMIC_RELAXED) == SYMM_PAD_END_TAKEN &&
           __atomic_load_n(&cell->arrived, __ATOMIC_RELAXED) == SYMM_PAD_END_ARRIVED;
}

/* The pad's end mark lies inside its memory, so the search stops there. */
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

template <typename T> SYMM_DEV T fetch_add(T *p, decltype(T()) x)
{
    if (weak()) {
        fence(SYMM_EMULATED_RELEASE);
        symm_emulated_driver->settle(p, sizeof *p);
    }
    const T was = __atomic_fetch_add(home(p), x, __ATOMIC_ACQ_REL);
    fence(SYMM_EMULATED_ACQUIRE);
    return was;
}

SYMM_DEV uint32_t fetch_add_relaxed(uint32_t *p, uint32_t x)
{
    if (weak())
        symm_emulated_driver->settle(p, sizeof *p);
    return __atomic_fetch_add(home(p), x, __ATOMIC_RELAXED);
}

/* Unicast and multicast addresses are the same CPU memory, unless it is weakly ordered. */
SYMM_DEV void fence_alias(void)
{
    fence(SYMM_EMULATED_ALIAS_FENCE);
}

/*
 * Host memory is as near as any other, and a poll may take 5 ms on a busy host. Then an abort ends
 * a wait within 40 ms, and the record comes after 0.3 s.
 */
#ifndef SYMM_DETAIL_RECORD_AFTER
#define SYMM_DETAIL_RECORD_AFTER 64
#endif
enum {
    ABORT_CHECK_AFTER = 4,
    ABORT_CHECK_EVERY = 8,
    ABORT_CHECK_APART = 0,
    RECORD_AFTER = SYMM_DETAIL_RECORD_AFTER,
};

SYMM_DEV void pdl_step(uint32_t step)
{
    if (symm_emulated_driver->flags & SYMM_EMULATED_EARLY)
        symm_emulated_driver->pdl(step);
}

SYMM_DEV void pdl_wait(void)
{
    pdl_step(SYMM_EMULATED_PDL_WAIT);
}

SYMM_DEV void pdl_release(void)
{
    pdl_step(SYMM_EMULATED_PDL_RELEASE);
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
 * A packet arrives at once: the half with the flag is written last and read first. Weakly ordered
 * memory does not delay packets, since nothing orders them with other stores.
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

/* The driver calls this to add T atomically at its home address. */
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

/* Checks the memory through which a GPU sends the bytes, and spoils it. */
SYMM_DEV void use_shared(void *shared, uint32_t nbytes)
{
    const uint32_t rank = symm_emulated_hopper->cluster_rank();
    check_aligned(shared, 128);
    symm_emulated_hopper->map_shared(shared, rank);
    symm_emulated_hopper->map_shared(static_cast<char *>(shared) + nbytes - 1, rank);
    __builtin_memset(shared, 0xee, nbytes);
}

SYMM_DEV bool bulk_copy(void *to, const void *from, uint64_t nbytes, void *shared,
                        uint32_t shared_nbytes)
{
    use_shared(shared, shared_nbytes);
    for (uint64_t i = 0; i < nbytes / sizeof(bits16); i++)
        store(static_cast<bits16 *>(to) + i,
              load(static_cast<const bits16 *>(from) + i, SYMM_EMULATED_ASYNC),
              SYMM_EMULATED_ASYNC);
    return true;
}

} /* namespace symm_detail */

#endif
