/* The instructions of ptx.cuh for GPUs: one PTX instruction of sm_90a a function. */
#ifndef SYMM_MATMUL_SM90_PTX_CUDA_CUH
#define SYMM_MATMUL_SM90_PTX_CUDA_CUH

#include <symm/device.cuh>
#include "args.h"

namespace sm90
{

using symm_detail::bulk_wait_read; /* the shared memory of all groups but the last N was read */
using symm_detail::cluster_load;
using symm_detail::cluster_meet;
using symm_detail::cluster_rank;
using symm_detail::cluster_sync;
using symm_detail::fence_async;
using symm_detail::in_shared;
using symm_detail::mbarrier_acquire;
using symm_detail::mbarrier_expect;

/* All stores and additions of this thread are done. */
SYMM_DEV void bulk_wait_all(void)
{
    symm_detail::bulk_wait();
}

SYMM_DEV void mbarrier_init(uint64_t *bar, uint32_t arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(symm_detail::in_shared(bar)),
                 "r"(arrivals)
                 : "memory");
}

/* Looks for the other rank's part before a tile is left to the kernel behind the product. */
enum { PATIENCE = 1024 };

/* Arrives at the barrier in the same place of a block of the cluster, which may be this one. */
SYMM_DEV void mbarrier_arrive(uint64_t *bar, uint32_t block)
{
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
        " mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(symm_detail::in_shared(bar)),
        "r"(block)
        : "memory");
}

/* The same at a barrier of this block. */
SYMM_DEV void mbarrier_arrive_here(uint64_t *bar)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(symm_detail::in_shared(bar))
                 : "memory");
}

/* Arrives at a block's barrier, and releases the warp's stores to threads that acquire there. */
SYMM_DEV void mbarrier_release(uint64_t *bar, uint32_t block)
{
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;"
                 " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(
                     symm_detail::in_shared(bar)),
                 "r"(block)
                 : "memory");
}

/* Waits until the phase of this parity is complete. */
SYMM_DEV void mbarrier_wait(uint64_t *bar, uint32_t parity)
{
    while (!symm_detail::mbarrier_test(bar, parity))
        ;
}

/*
 * Whether this is the one elected thread of its warp. Compilers then know that one thread runs, so
 * operands that an instruction takes in uniform registers need no loop over the threads. A warp.
 */
SYMM_DEV bool elect_one(void)
{
    uint32_t elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }"
                 : "=r"(elected));
    return elected;
}

/* The copy unit and the cluster see the mbarriers that this thread has initialized. */
SYMM_DEV void fence_barriers(void)
{
    asm volatile("fence.proxy.async.shared::cta;\n"
                 "fence.mbarrier_init.release.cluster;" ::
                     : "memory");
}

/* Starts to fetch a tensor's description. */
SYMM_DEV void tensor_prefetch(const symm_tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/*
 * Loads the box of a tensor at these coordinates. Elements outside of the tensor become 0 and are
 * counted by the barrier as well.
 */
SYMM_DEV void tensor_load(void *shared, const symm_tensor_map *map, int32_t x, int32_t y, int32_t z,
                          uint64_t *bar)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(symm_detail::in_shared(shared)),
                 "l"(map), "r"(x), "r"(y), "r"(z), "r"(symm_detail::in_shared(bar))
                 : "memory");
}

/* The same of a tensor of five dimensions. */
SYMM_DEV void tensor_load(void *shared, const symm_tensor_map *map, const int32_t (&at)[5],
                          uint64_t *bar)
{
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(symm_detail::in_shared(shared)),
                 "l"(map), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
                 "r"(symm_detail::in_shared(bar))
                 : "memory");
}

/* The same into the same place of each block of the mask, counted by each block's barrier. */
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

/* Stores a box in shared memory, of 16-bit elements. Elements outside of the tensor are ignored. */
SYMM_DEV void tensor_store(const symm_tensor_map *map, int32_t x, int32_t y, int32_t z,
                           const void *shared)
{
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                 "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(symm_detail::in_shared(shared))
                 : "memory");
}

SYMM_DEV void tensor_store(const symm_tensor_map *map, const int32_t (&at)[5], const void *shared)
{
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.tile.bulk_group "
                 "[%0, {%1, %2, %3, %4, %5}], [%6];" ::"l"(map),
                 "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]),
                 "r"(symm_detail::in_shared(shared))
                 : "memory");
}

/*
 * Adds a box in shared memory to the box of a tensor of 16-bit elements at these coordinates, with
 * one rounding. Elements outside of the tensor are ignored.
 */
SYMM_DEV void tensor_add(const symm_tensor_map *map, int32_t x, int32_t y, int32_t z,
                         const void *shared)
{
    asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group "
                 "[%0, {%1, %2, %3}], [%4];" ::"l"(map),
                 "r"(x), "r"(y), "r"(z), "r"(symm_detail::in_shared(shared))
                 : "memory");
}

/* All stores and additions of this thread since the last commit become one group. */
SYMM_DEV void bulk_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/*
 * Stores the columns of four 8 x 8 matrices of 16-bit elements; four threads hold a row of each.
 * Thread i + 8 j gives the address of column i of matrix j. A warp.
 */
SYMM_DEV void stmatrix_x4_transposed(void *shared, const uint32_t (&words)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     symm_detail::in_shared(shared)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

/* A barrier of THREADS threads of the block, of this number. It orders shared memory. */
template <int THREADS> SYMM_DEV void bar_sync(int32_t number)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "n"(THREADS) : "memory");
}

/* Shrinks, or below grows, this warpgroup to N registers a thread. */
template <int N> SYMM_DEV void setmaxnreg_dec(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N) : "memory");
}

template <int N> SYMM_DEV void setmaxnreg_inc(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N) : "memory");
}

/* Orders earlier accesses of the accumulators before the next wgmma. */
SYMM_DEV void wgmma_fence(void)
{
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/* All wgmma since the last commit become one group. */
SYMM_DEV void wgmma_commit(void)
{
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/* Waits for all groups but the last. */
SYMM_DEV void wgmma_wait_but_one(void)
{
    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
}

#define SYMM_ACCUMULATORS_OF_8(i)                                                                  \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]),    \
        "+f"(d[i + 6]), "+f"(d[i + 7])
#define SYMM_ACCUMULATORS_8 SYMM_ACCUMULATORS_OF_8(0)
#define SYMM_ACCUMULATORS_16 SYMM_ACCUMULATORS_8, SYMM_ACCUMULATORS_OF_8(8)
#define SYMM_ACCUMULATORS_24 SYMM_ACCUMULATORS_16, SYMM_ACCUMULATORS_OF_8(16)
#define SYMM_ACCUMULATORS_32 SYMM_ACCUMULATORS_24, SYMM_ACCUMULATORS_OF_8(24)
#define SYMM_ACCUMULATORS_40 SYMM_ACCUMULATORS_32, SYMM_ACCUMULATORS_OF_8(32)
#define SYMM_ACCUMULATORS_48 SYMM_ACCUMULATORS_40, SYMM_ACCUMULATORS_OF_8(40)
#define SYMM_ACCUMULATORS_56 SYMM_ACCUMULATORS_48, SYMM_ACCUMULATORS_OF_8(48)
#define SYMM_ACCUMULATORS_64 SYMM_ACCUMULATORS_56, SYMM_ACCUMULATORS_OF_8(56)
#define SYMM_ACCUMULATORS_72 SYMM_ACCUMULATORS_64, SYMM_ACCUMULATORS_OF_8(64)
#define SYMM_ACCUMULATORS_80 SYMM_ACCUMULATORS_72, SYMM_ACCUMULATORS_OF_8(72)
#define SYMM_ACCUMULATORS_88 SYMM_ACCUMULATORS_80, SYMM_ACCUMULATORS_OF_8(80)
#define SYMM_ACCUMULATORS_96 SYMM_ACCUMULATORS_88, SYMM_ACCUMULATORS_OF_8(88)
#define SYMM_ACCUMULATORS_104 SYMM_ACCUMULATORS_96, SYMM_ACCUMULATORS_OF_8(96)
#define SYMM_ACCUMULATORS_112 SYMM_ACCUMULATORS_104, SYMM_ACCUMULATORS_OF_8(104)
#define SYMM_ACCUMULATORS_120 SYMM_ACCUMULATORS_112, SYMM_ACCUMULATORS_OF_8(112)
#define SYMM_ACCUMULATORS_128 SYMM_ACCUMULATORS_120, SYMM_ACCUMULATORS_OF_8(120)
#define SYMM_OPERANDS_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define SYMM_OPERANDS_16 SYMM_OPERANDS_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define SYMM_OPERANDS_24 SYMM_OPERANDS_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define SYMM_OPERANDS_32 SYMM_OPERANDS_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define SYMM_OPERANDS_40 SYMM_OPERANDS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define SYMM_OPERANDS_48 SYMM_OPERANDS_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define SYMM_OPERANDS_56 SYMM_OPERANDS_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define SYMM_OPERANDS_64 SYMM_OPERANDS_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define SYMM_OPERANDS_72 SYMM_OPERANDS_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define SYMM_OPERANDS_80 SYMM_OPERANDS_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define SYMM_OPERANDS_88 SYMM_OPERANDS_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define SYMM_OPERANDS_96 SYMM_OPERANDS_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define SYMM_OPERANDS_104 SYMM_OPERANDS_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define SYMM_OPERANDS_112 SYMM_OPERANDS_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define SYMM_OPERANDS_120 SYMM_OPERANDS_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define SYMM_OPERANDS_128 SYMM_OPERANDS_120 ", %120, %121, %122, %123, %124, %125, %126, %127"

/* Waits for all groups; the accumulators may then be used. */
template <int ACCUMULATORS> SYMM_DEV void wgmma_wait(float (&d)[ACCUMULATORS]);

/*
 * d = a b, or with add d += a b, of 64 x 16 and 16 x n elements in shared memory, given by their
 * descriptors. A thread has n / 2 accumulators. A lies along k, or along its rows; B along k.
 */
template <typename T, bool A_ALONG_K, int ACCUMULATORS>
SYMM_DEV void wgmma(float (&d)[ACCUMULATORS], uint64_t a, uint64_t b, int32_t add);

#define SYMM_WGMMA(type, ptx, along_k, transposed, n, naccumulators, a_at, b_at, add_at)           \
    template <>                                                                                    \
    __device__ __forceinline__ void wgmma<type, along_k, naccumulators>(                           \
        float(&d)[naccumulators], uint64_t a, uint64_t b, int32_t add)                             \
    {                                                                                              \
        asm volatile("{ .reg .pred p; setp.ne.b32 p, " add_at ", 0;"                               \
                     " wgmma.mma_async.sync.aligned.m64n" n "k16.f32." ptx "." ptx                 \
                     " {" SYMM_OPERANDS_##naccumulators "}, " a_at ", " b_at                       \
                                                        ", p, 1, 1, " transposed ", 0; }"          \
                     : SYMM_ACCUMULATORS_##naccumulators                                           \
                     : "l"(a), "l"(b), "r"(add)                                                    \
                     : "memory");                                                                  \
    }
#define SYMM_WGMMA_OF(n, naccumulators, a_at, b_at, add_at)                                        \
    template <>                                                                                    \
    __device__ __forceinline__ void wgmma_wait<naccumulators>(float(&d)[naccumulators])            \
    {                                                                                              \
        asm volatile("wgmma.wait_group.sync.aligned 0;"                                            \
                     : SYMM_ACCUMULATORS_##naccumulators                                           \
                     :                                                                             \
                     : "memory");                                                                  \
    }                                                                                              \
    SYMM_WGMMA(symm_f16, "f16", true, "0", n, naccumulators, a_at, b_at, add_at)                   \
    SYMM_WGMMA(symm_f16, "f16", false, "1", n, naccumulators, a_at, b_at, add_at)                  \
    SYMM_WGMMA(symm_bf16, "bf16", true, "0", n, naccumulators, a_at, b_at, add_at)                 \
    SYMM_WGMMA(symm_bf16, "bf16", false, "1", n, naccumulators, a_at, b_at, add_at)
SYMM_WGMMA_OF("16", 8, "%8", "%9", "%10")
SYMM_WGMMA_OF("64", 32, "%32", "%33", "%34")
SYMM_WGMMA_OF("96", 48, "%48", "%49", "%50")
SYMM_WGMMA_OF("112", 56, "%56", "%57", "%58")
SYMM_WGMMA_OF("128", 64, "%64", "%65", "%66")
SYMM_WGMMA_OF("144", 72, "%72", "%73", "%74")
SYMM_WGMMA_OF("160", 80, "%80", "%81", "%82")
SYMM_WGMMA_OF("176", 88, "%88", "%89", "%90")
SYMM_WGMMA_OF("192", 96, "%96", "%97", "%98")
SYMM_WGMMA_OF("208", 104, "%104", "%105", "%106")
SYMM_WGMMA_OF("224", 112, "%112", "%113", "%114")
SYMM_WGMMA_OF("240", 120, "%120", "%121", "%122")
SYMM_WGMMA_OF("256", 128, "%128", "%129", "%130")
#undef SYMM_WGMMA_OF
#undef SYMM_WGMMA
#undef SYMM_OPERANDS_128
#undef SYMM_ACCUMULATORS_128
#undef SYMM_OPERANDS_120
#undef SYMM_ACCUMULATORS_120
#undef SYMM_OPERANDS_112
#undef SYMM_ACCUMULATORS_112
#undef SYMM_OPERANDS_104
#undef SYMM_ACCUMULATORS_104
#undef SYMM_OPERANDS_96
#undef SYMM_ACCUMULATORS_96
#undef SYMM_OPERANDS_88
#undef SYMM_ACCUMULATORS_88
#undef SYMM_OPERANDS_80
#undef SYMM_ACCUMULATORS_80
#undef SYMM_OPERANDS_72
#undef SYMM_ACCUMULATORS_72
#undef SYMM_OPERANDS_64
#undef SYMM_ACCUMULATORS_64
#undef SYMM_OPERANDS_56
#undef SYMM_ACCUMULATORS_56
#undef SYMM_OPERANDS_48
#undef SYMM_ACCUMULATORS_48
#undef SYMM_OPERANDS_40
#undef SYMM_ACCUMULATORS_40
#undef SYMM_OPERANDS_32
#undef SYMM_ACCUMULATORS_32
#undef SYMM_OPERANDS_24
#undef SYMM_ACCUMULATORS_24
#undef SYMM_OPERANDS_16
#undef SYMM_ACCUMULATORS_16
#undef SYMM_OPERANDS_8
#undef SYMM_ACCUMULATORS_8
#undef SYMM_ACCUMULATORS_OF_8

} /* namespace sm90 */

#endif
