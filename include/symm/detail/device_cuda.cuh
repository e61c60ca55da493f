/*
 * The instructions of device.cuh for GPUs: one PTX instruction per function. Addresses are global.
 * The asm statements are volatile with a memory clobber, so the compiler keeps their order.
 */
#ifndef SYMM_DETAIL_DEVICE_CUDA_CUH
#define SYMM_DETAIL_DEVICE_CUDA_CUH

#define SYMM_DEV static __device__ __forceinline__
#define SYMM_DEV_IN_CLASS __device__ __forceinline__ /* a non-static member */

#define SYMM_KERNEL_BOUNDS(name, args_type, a, max_threads, min_blocks)                            \
    extern "C" __global__ void __launch_bounds__(max_threads, min_blocks)                          \
        name(const __grid_constant__ args_type a)
#define SYMM_KERNEL_REGISTERS(name, args_type, a, max_threads, registers)                          \
    extern "C" __global__ void __maxnreg__(registers) name(const __grid_constant__ args_type a)
#define SYMM_KERNEL(name, args_type, a, max_threads)                                               \
    SYMM_KERNEL_BOUNDS(name, args_type, a, max_threads, 1)

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
 * A wait reads the host's abort word after LOOK_AFTER polls and then every LOOK_EVERY polls. The
 * threads of a block do so LOOK_APART polls apart. A poll takes well under a microsecond; a read of
 * host memory takes longer, and more so with many threads.
 */
enum { LOOK_AFTER = 1024, LOOK_EVERY = 65536, LOOK_APART = 64 };

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

/* ------------------------------------------------------------------------------- the copy unit */

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/* Later asynchronous copies see the data that this thread sees. */
SYMM_DEV void fence_async(void)
{
    asm volatile("fence.proxy.async;" ::: "memory");
}

SYMM_DEV void mbarrier_init(uint64_t *bar)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(in_shared(bar)) : "memory");
}

SYMM_DEV void mbarrier_end(uint64_t *bar)
{
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(in_shared(bar)) : "memory");
}

SYMM_DEV void mbarrier_expect(uint64_t *bar, uint32_t nbytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(in_shared(bar)),
                 "r"(nbytes)
                 : "memory");
}

SYMM_DEV bool mbarrier_test(uint64_t *bar, uint32_t parity)
{
    uint32_t done;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                 " selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(in_shared(bar)), "r"(parity)
                 : "memory");
    return done;
}

SYMM_DEV void bulk_load(void *shared, const void *from, uint32_t nbytes, uint64_t *bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
                 "%2, [%3];" ::"r"(in_shared(shared)),
                 "l"(global(from)), "r"(nbytes), "r"(in_shared(bar))
                 : "memory");
}

/* Commits the store as its own group for bulk_wait_read. */
SYMM_DEV void bulk_store(void *to, const void *shared, uint32_t nbytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 "cp.async.bulk.commit_group;" ::"l"(global(to)),
                 "r"(in_shared(shared)), "r"(nbytes)
                 : "memory");
}

/* Waits until all stores except the last PENDING have read their source. */
template <int PENDING> SYMM_DEV void bulk_wait_read(void)
{
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

/* Waits until all stores are done. Their data then counts as written by this thread. */
SYMM_DEV void bulk_wait(void)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/*
 * Starts the copy of nbytes, a multiple of 16, through shared memory. The pieces use four slots in
 * rotation, each with an mbarrier. Two pieces are loaded while two are stored. bulk_wait ends the
 * copy.
 */
SYMM_DEV bool bulk_copy(void *to, const void *from, uint64_t nbytes, void *shared,
                        uint32_t shared_nbytes)
{
    constexpr uint32_t SLOTS = 4, LEAD = 2, HEAD = 128, MOST = 64 << 10;
    uint64_t *bars = static_cast<uint64_t *>(shared);
    char *slots = static_cast<char *>(shared) + HEAD;
    const uint32_t room = (shared_nbytes - HEAD) / SLOTS & ~127u, piece = room < MOST ? room : MOST;
    const uint64_t npieces = (nbytes + piece - 1) / piece;

    for (uint32_t s = 0; s < SLOTS; s++)
        mbarrier_init(&bars[s]);
    fence_async();
    for (uint64_t i = 0; i < npieces + LEAD; i++) {
        if (i < npieces) {
            const uint64_t off = i * piece, left = nbytes - off;
            const uint32_t n = left < piece ? (uint32_t)left : piece;
            if (i >= SLOTS)
                bulk_wait_read<SLOTS - LEAD - 1>();
            mbarrier_expect(&bars[i % SLOTS], n);
            bulk_load(slots + i % SLOTS * piece, static_cast<const char *>(from) + off, n,
                      &bars[i % SLOTS]);
        }
        if (i >= LEAD) {
            const uint64_t j = i - LEAD, off = j * piece, left = nbytes - off;
            while (!mbarrier_test(&bars[j % SLOTS], (uint32_t)(j / SLOTS) & 1))
                ;
            bulk_store(static_cast<char *>(to) + off, slots + j % SLOTS * piece,
                       left < piece ? (uint32_t)left : piece);
        }
    }
    for (uint32_t s = 0; s < SLOTS; s++)
        mbarrier_end(&bars[s]);
    return true;
}

#else /* no copy unit */

SYMM_DEV void fence_async(void)
{
}

SYMM_DEV void bulk_wait(void)
{
}

SYMM_DEV bool bulk_copy(void *, const void *, uint64_t, void *, uint32_t)
{
    return false;
}

#endif

/* ----------------------------------------------------------------------------------- the switch */

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
