/*
 * The machine under sm90_product.cuh: one PTX instruction a function, of sm_90a alone.
 */
#ifndef SYMM_MATMUL_SM90_CUDA_CUH
#define SYMM_MATMUL_SM90_CUDA_CUH

#include <symm/device.cuh>
#include "kernel_args.h"

namespace sm90
{

/* What a thread has of a warpgroup's 64 x 256 sums. */
enum { SUMS = 128 };

SYMM_DEV void mbarrier_init(uint64_t *bar, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(symm_detail::in_shared(bar)),
                 "r"(arrivals)
                 : "memory");
}

SYMM_DEV void mbarrier_arrive(uint64_t *bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(symm_detail::in_shared(bar))
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

#define SYMM_SUMS_4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SYMM_SUMS_16(i) SYMM_SUMS_4(i), SYMM_SUMS_4(i + 4), SYMM_SUMS_4(i + 8), SYMM_SUMS_4(i + 12)
#define SYMM_SUMS                                                                                  \
    SYMM_SUMS_16(0), SYMM_SUMS_16(16), SYMM_SUMS_16(32), SYMM_SUMS_16(48), SYMM_SUMS_16(64),       \
        SYMM_SUMS_16(80), SYMM_SUMS_16(96), SYMM_SUMS_16(112)

/* All groups are done, and the sums may be used. */
SYMM_DEV void wgmma_wait(float (&d)[SUMS])
{
    asm volatile("wgmma.wait_group.sync.aligned 0;" : SYMM_SUMS : : "memory");
}

/*
 * d = a b, or with add d += a b, of 64 x 16 and 16 x 256 elements in shared memory. B lies along k,
 * or along the columns.
 */
template <typename T, bool B_ALONG_K>
SYMM_DEV void wgmma(float (&d)[SUMS], uint64_t a, uint64_t b, int32_t add);

#define SYMM_WGMMA(type, ptx, along_k, transposed)                                                 \
    template <>                                                                                    \
    __device__ __forceinline__ void wgmma<type, along_k>(float(&d)[SUMS], uint64_t a, uint64_t b,  \
                                                         int32_t add)                              \
    {                                                                                              \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0;"                                     \
                     " wgmma.mma_async.sync.aligned.m64n256k16.f32." ptx "." ptx                   \
                     " {" SYMM_SUMS_TEXT "}, %128, %129, p, 1, 1, 0, " transposed "; }"            \
                     : SYMM_SUMS                                                                   \
                     : "l"(a), "l"(b), "r"(add)                                                    \
                     : "memory");                                                                  \
    }
#define SYMM_SUMS_TEXT                                                                             \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "   \
    "%127"
SYMM_WGMMA(symm_f16, "f16", true, "0")
SYMM_WGMMA(symm_f16, "f16", false, "1")
SYMM_WGMMA(symm_bf16, "bf16", true, "0")
SYMM_WGMMA(symm_bf16, "bf16", false, "1")
#undef SYMM_WGMMA
#undef SYMM_SUMS_TEXT
#undef SYMM_SUMS
#undef SYMM_SUMS_16
#undef SYMM_SUMS_4

} /* namespace sm90 */

#endif
