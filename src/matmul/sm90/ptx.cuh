/*
 * The machine under sm90_product.cuh: one PTX instruction a function, of sm_90a alone.
 */
#ifndef SYMM_MATMUL_SM90_CUDA_CUH
#define SYMM_MATMUL_SM90_CUDA_CUH

#include <symm/device.cuh>
#include "matmul/kernels/args.h"

namespace sm90
{

SYMM_DEV void mbarrier_init(uint64_t *bar, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(symm_detail::in_shared(bar)),
                 "r"(arrivals)
                 : "memory");
}

/* At the barrier in the same place of another block of the cluster, or of this one. */
SYMM_DEV void mbarrier_arrive(uint64_t *bar, uint32_t block)
{
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
        " mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(symm_detail::in_shared(bar)),
        "r"(block)
        : "memory");
}

SYMM_DEV uint32_t cluster_rank(void)
{
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* All threads of all blocks of the cluster, whose barriers are there for the others from now on. */
SYMM_DEV void cluster_sync(void)
{
    asm volatile("fence.mbarrier_init.release.cluster;\n"
                 "barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

/* A box of a tensor, from these coordinates on; what is outside becomes 0, and counts. */
SYMM_DEV void tensor_load(void *shared, const symm_tensor_map *map, int32_t x, int32_t y, int32_t z,
                          uint64_t *bar)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(symm_detail::in_shared(shared)),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(symm_detail::in_shared(bar))
                 : "memory");
}

/* The same for all blocks of the mask, in the same place of each, and counted by each's barrier. */
SYMM_DEV void tensor_load_all(void *shared, const symm_tensor_map *map, int32_t x, int32_t y,
                              int32_t z, uint64_t *bar, uint32_t blocks)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(
                     symm_detail::in_shared(shared)),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(symm_detail::in_shared(bar)),
                 "h"((uint16_t)blocks)
                 : "memory");
}

/*
 * Four 8 x 8 matrices of 16 bits, of each of which four threads have a row: thread i + 8 j names
 * where row i of matrix j goes. A warp.
 */
SYMM_DEV void store_matrices(void *shared, const uint32_t (&words)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     symm_detail::in_shared(shared)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

/* The warps of a warpgroup have so many registers a thread from here on. */
template <int N> SYMM_DEV void registers_give(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N) : "memory");
}

template <int N> SYMM_DEV void registers_take(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N) : "memory");
}

/* Sums that other instructions have touched may be added to. */
SYMM_DEV void wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* What has been multiplied since the last time becomes one group. */
SYMM_DEV void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* All groups but the last are done. */
SYMM_DEV void wgmma_wait_but_one(void)
{
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}

#define SYMM_SUMS_8(i)                                                                             \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define SYMM_SUMS_32 SYMM_SUMS_8(0), SYMM_SUMS_8(8), SYMM_SUMS_8(16), SYMM_SUMS_8(24)
#define SYMM_SUMS_64                                                                               \
    SYMM_SUMS_32, SYMM_SUMS_8(32), SYMM_SUMS_8(40), SYMM_SUMS_8(48), SYMM_SUMS_8(56)
#define SYMM_SUMS_96                                                                               \
    SYMM_SUMS_64, SYMM_SUMS_8(64), SYMM_SUMS_8(72), SYMM_SUMS_8(80), SYMM_SUMS_8(88)
#define SYMM_SUMS_104 SYMM_SUMS_96, SYMM_SUMS_8(96)
#define SYMM_SUMS_112 SYMM_SUMS_104, SYMM_SUMS_8(104)
#define SYMM_SUMS_128 SYMM_SUMS_112, SYMM_SUMS_8(112), SYMM_SUMS_8(120)
#define SYMM_TEXT_32                                                                               \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define SYMM_TEXT_64                                                                               \
    SYMM_TEXT_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, "   \
                 "%47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, "     \
                 "%62, %63"
#define SYMM_TEXT_96                                                                               \
    SYMM_TEXT_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, "   \
                 "%79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, "     \
                 "%94, %95"
#define SYMM_TEXT_104 SYMM_TEXT_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define SYMM_TEXT_112 SYMM_TEXT_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define SYMM_TEXT_128                                                                              \
    SYMM_TEXT_112 ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, "     \
                  "%124, %125, %126, %127"

/* All groups are done, and the sums may be used. */
template <int SUMS> SYMM_DEV void wgmma_wait(float (&d)[SUMS]);

/*
 * d = a b, or with add d += a b, of 64 x 16 and 16 x n elements in shared memory, where a thread
 * has n / 2 sums. B lies along k, or along the columns.
 */
template <typename T, bool B_ALONG_K, int SUMS>
SYMM_DEV void wgmma(float (&d)[SUMS], uint64_t a, uint64_t b, int32_t add);

#define SYMM_WGMMA(type, ptx, along_k, transposed, n, nsums, a_at, b_at, add_at)                   \
    template <>                                                                                    \
    __device__ __forceinline__ void wgmma<type, along_k, nsums>(float(&d)[nsums], uint64_t a,      \
                                                                uint64_t b, int32_t add)           \
    {                                                                                              \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " add_at ", 0;"                               \
                     " wgmma.mma_async.sync.aligned.m64n" n "k16.f32." ptx "." ptx                 \
                     " {" SYMM_TEXT_##nsums "}, " a_at ", " b_at ", p, 1, 1, 0, " transposed "; }" \
                     : SYMM_SUMS_##nsums                                                           \
                     : "l"(a), "l"(b), "r"(add)                                                    \
                     : "memory");                                                                  \
    }
#define SYMM_WGMMA_OF(n, nsums, a_at, b_at, add_at)                                                \
    template <> __device__ __forceinline__ void wgmma_wait<nsums>(float(&d)[nsums])                \
    {                                                                                              \
        asm volatile("wgmma.wait_group.sync.aligned 0;" : SYMM_SUMS_##nsums : : "memory");         \
    }                                                                                              \
    SYMM_WGMMA(symm_f16, "f16", true, "0", n, nsums, a_at, b_at, add_at)                           \
    SYMM_WGMMA(symm_f16, "f16", false, "1", n, nsums, a_at, b_at, add_at)                          \
    SYMM_WGMMA(symm_bf16, "bf16", true, "0", n, nsums, a_at, b_at, add_at)                         \
    SYMM_WGMMA(symm_bf16, "bf16", false, "1", n, nsums, a_at, b_at, add_at)
SYMM_WGMMA_OF("64", 32, "%32", "%33", "%34")
SYMM_WGMMA_OF("128", 64, "%64", "%65", "%66")
SYMM_WGMMA_OF("192", 96, "%96", "%97", "%98")
SYMM_WGMMA_OF("208", 104, "%104", "%105", "%106")
SYMM_WGMMA_OF("224", 112, "%112", "%113", "%114")
SYMM_WGMMA_OF("256", 128, "%128", "%129", "%130")
#undef SYMM_WGMMA_OF
#undef SYMM_WGMMA
#undef SYMM_TEXT_128
#undef SYMM_TEXT_112
#undef SYMM_TEXT_104
#undef SYMM_TEXT_96
#undef SYMM_TEXT_64
#undef SYMM_TEXT_32
#undef SYMM_SUMS_128
#undef SYMM_SUMS_112
#undef SYMM_SUMS_104
#undef SYMM_SUMS_96
#undef SYMM_SUMS_64
#undef SYMM_SUMS_32
#undef SYMM_SUMS_8

} /* namespace sm90 */

#endif
