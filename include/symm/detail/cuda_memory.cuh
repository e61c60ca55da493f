/* Loads, stores, flags and fences on GPUs. */
#ifndef SYMM_DETAIL_CUDA_MEMORY_CUH
#define SYMM_DETAIL_CUDA_MEMORY_CUH

#include <symm/detail/cuda_threads.cuh>

namespace symm_detail
{

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

/* If *p is `from`, stores `to` and returns true. Only for words of this device. */
SYMM_DEV bool compare_and_swap(uint32_t *p, uint32_t from, uint32_t to)
{
    uint32_t was;
    asm volatile("atom.acquire.gpu.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(was)
                 : "l"(global(p)), "r"(from), "r"(to)
                 : "memory");
    return was == from;
}

/* Adds to a word of this device; returns the old value. */
SYMM_DEV uint32_t fetch_add(uint32_t *p, uint32_t x)
{
    uint32_t was;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(was)
                 : "l"(global(p)), "r"(x)
                 : "memory");
    return was;
}

SYMM_DEV uint64_t fetch_add(uint64_t *p, uint64_t x)
{
    uint64_t was;
    asm volatile("atom.acq_rel.gpu.global.add.u64 %0, [%1], %2;"
                 : "=l"(was)
                 : "l"(global(p)), "l"(x)
                 : "memory");
    return was;
}

/* The same without ordering: the thread continues until it uses the old value. */
SYMM_DEV uint32_t fetch_add_relaxed(uint32_t *p, uint32_t x)
{
    uint32_t was;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(was)
                 : "l"(global(p)), "r"(x)
                 : "memory");
    return was;
}

/* Orders accesses by unicast and multicast addresses to the same bytes. */
SYMM_DEV void fence_alias(void)
{
    asm volatile("fence.proxy.alias;" ::: "memory");
}

/*
 * Programmatic dependent launch: waits for the previous kernels; allows the next kernel to begin.
 */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
SYMM_DEV void pdl_wait(void)
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

SYMM_DEV void pdl_release(void)
{
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
#else
SYMM_DEV void pdl_wait(void)
{
}

SYMM_DEV void pdl_release(void)
{
}
#endif

/*
 * A wait reads the host's abort word after ABORT_CHECK_AFTER polls and then every ABORT_CHECK_EVERY
 * polls. The threads of a block do so ABORT_CHECK_APART polls apart. A poll takes well under a
 * microsecond; a read of host memory takes longer, and more so with many threads.
 *
 * After RECORD_AFTER polls a wait writes its record for the host.
 */
enum {
    ABORT_CHECK_AFTER = 1024,
    ABORT_CHECK_EVERY = 65536,
    ABORT_CHECK_APART = 64,
    RECORD_AFTER = 4096,
};

/* Yields after an unsuccessful poll. On a GPU the next load takes long enough. */
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

/* One element, as its bits. */
#define SYMM_DETAIL_SCALAR(type, ptx, letter)                                                      \
    SYMM_DEV type load_scalar(const type *p)                                                       \
    {                                                                                              \
        type x;                                                                                    \
        asm volatile("ld.global." ptx " %0, [%1];" : "=" letter(x) : "l"(global(p)) : "memory");   \
        return x;                                                                                  \
    }                                                                                              \
    SYMM_DEV void store_scalar(type *p, type x)                                                    \
    {                                                                                              \
        asm volatile("st.global." ptx " [%0], %1;" ::"l"(global(p)), letter(x) : "memory");        \
    }
SYMM_DETAIL_SCALAR(uint16_t, "u16", "h")
SYMM_DETAIL_SCALAR(uint32_t, "u32", "r")
SYMM_DETAIL_SCALAR(uint64_t, "u64", "l")
#undef SYMM_DETAIL_SCALAR

/* PTX has no registers of 8 bits. */
SYMM_DEV uint8_t load_scalar(const uint8_t *p)
{
    uint16_t x;
    asm volatile("ld.global.u8 %0, [%1];" : "=h"(x) : "l"(global(p)) : "memory");
    return (uint8_t)x;
}

SYMM_DEV void store_scalar(uint8_t *p, uint8_t x)
{
    asm volatile("st.global.u8 [%0], %1;" ::"l"(global(p)), "h"((uint16_t)x) : "memory");
}

/* A packet: one access reads or writes all 16 bytes. */
SYMM_DEV bits16 load_packet(const symm_packet *p)
{
    bits16 x;
    asm volatile("{ .reg .b128 all; .reg .b64 low, high;"
                 " ld.relaxed.sys.global.b128 all, [%4]; mov.b128 {low, high}, all;"
                 " mov.b64 {%0, %1}, low; mov.b64 {%2, %3}, high; }"
                 : "=r"(x.w[0]), "=r"(x.w[1]), "=r"(x.w[2]), "=r"(x.w[3])
                 : "l"(global(p))
                 : "memory");
    return x;
}

SYMM_DEV void store_packet(symm_packet *p, const bits16 &x)
{
    asm volatile("{ .reg .b128 all; .reg .b64 low, high;"
                 " mov.b64 low, {%1, %2}; mov.b64 high, {%3, %4}; mov.b128 all, {low, high};"
                 " st.relaxed.sys.global.b128 [%0], all; }" ::"l"(global(p)),
                 "r"(x.w[0]), "r"(x.w[1]), "r"(x.w[2]), "r"(x.w[3])
                 : "memory");
}

/*
 * Atomic addition without a result. In two's complement, the unsigned sum has the bits of the
 * signed.
 */
#define SYMM_DETAIL_RED_ADD(type, ptx, letter)                                                     \
    SYMM_DEV void red_add(type *p, type x)                                                         \
    {                                                                                              \
        asm volatile("red.relaxed.sys.global.add." ptx " [%0], %1;" ::"l"(global(p)), letter(x)    \
                     : "memory");                                                                  \
    }
SYMM_DETAIL_RED_ADD(uint32_t, "u32", "r")
SYMM_DETAIL_RED_ADD(uint64_t, "u64", "l")
SYMM_DETAIL_RED_ADD(float, "f32", "f")
SYMM_DETAIL_RED_ADD(double, "f64", "d")
#undef SYMM_DETAIL_RED_ADD

} /* namespace symm_detail */

#endif
