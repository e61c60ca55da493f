/* Clusters of blocks on GPUs. Before sm_90 there are none: a kernel must not depend on them. */
#ifndef SYMM_DETAIL_CUDA_CLUSTER_CUH
#define SYMM_DETAIL_CUDA_CLUSTER_CUH

#include <symm/detail/cuda_threads.cuh>

namespace symm_detail
{

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
/* This block's number in its cluster. */
SYMM_DEV uint32_t cluster_rank(void)
{
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/* A barrier of all threads of the cluster, which orders nothing. */
SYMM_DEV void cluster_meet(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n"
                 "barrier.cluster.wait.aligned;" ::
                     : "memory");
}

/*
 * A barrier of all threads of the cluster, which orders accesses of shared memory. A release of all
 * memory would wait until all stores have arrived, also those to other ranks.
 */
SYMM_DEV void cluster_sync(void)
{
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 8)
    asm volatile("fence.release.sync_restrict::shared::cta.cluster;\n"
                 "barrier.cluster.arrive.relaxed.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#else
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#endif
}

/* Loads from the same place of the shared memory of a block of the cluster, which runs. */
SYMM_DEV float4 cluster_load(const float *shared, uint32_t block)
{
    float4 x;
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %4, %5;"
                 " ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there]; }"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(in_shared(shared)), "r"(block)
                 : "memory");
    return x;
}
#else
SYMM_DEV void cluster_meet(void)
{
}

SYMM_DEV void cluster_sync(void)
{
}

SYMM_DEV float4 cluster_load(const float *, uint32_t)
{
    return {};
}
#endif

} /* namespace symm_detail */

#endif
