/* Clusters of blocks on GPUs. Before sm_90 there are none: a kernel must not depend on them. */
#ifndef SYMM_DETAIL_CUDA_CLUSTER_CUH
#define SYMM_DETAIL_CUDA_CLUSTER_CUH

#include <symm/detail/cuda_copy.cuh>
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

/* The halves of a barrier of all threads of the cluster, which orders nothing. */
SYMM_DEV void cluster_arrive(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

SYMM_DEV void cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
}

SYMM_DEV void cluster_meet(void)
{
    cluster_arrive();
    cluster_wait();
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

/*
 * Begins to count the bytes of cluster_store() to this block. One thread; the cluster meets before
 * the first store.
 */
SYMM_DEV void cluster_expect(uint64_t *bar, uint32_t nbytes)
{
    mbarrier_init(bar);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    mbarrier_expect(bar, nbytes);
}

/* Stores into the same place of a block's shared memory, and counts the bytes there. */
SYMM_DEV void cluster_store(float *shared, float x, uint64_t *bar, uint32_t block)
{
    asm volatile("{ .reg .b32 there, counted;"
                 " mapa.shared::cluster.u32 there, %0, %3;"
                 " mapa.shared::cluster.u32 counted, %2, %3;"
                 " st.async.shared::cluster.mbarrier::complete_tx::bytes.f32"
                 " [there], %1, [counted]; }" ::"r"(in_shared(shared)),
                 "f"(x), "r"(in_shared(bar)), "r"(block)
                 : "memory");
}

/*
 * Waits until the phase of this parity is complete, and sees what other blocks released to it or
 * stored by cluster_store().
 */
SYMM_DEV void mbarrier_acquire(uint64_t *bar, uint32_t parity)
{
    uint32_t done;

    do {
        asm volatile("{ .reg .pred p;"
                     " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
                     " selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(in_shared(bar)), "r"(parity)
                     : "memory");
    } while (!done);
}
#else
SYMM_DEV uint32_t cluster_rank(void)
{
    return 0;
}

SYMM_DEV void cluster_arrive(void)
{
}

SYMM_DEV void cluster_wait(void)
{
}

SYMM_DEV void cluster_meet(void)
{
}

SYMM_DEV void cluster_sync(void)
{
}

SYMM_DEV void cluster_expect(uint64_t *, uint32_t)
{
}

SYMM_DEV void cluster_store(float *, float, uint64_t *, uint32_t)
{
}

SYMM_DEV void mbarrier_acquire(uint64_t *, uint32_t)
{
}

SYMM_DEV float4 cluster_load(const float *, uint32_t)
{
    return {};
}
#endif

} /* namespace symm_detail */

#endif
