/* Clusters of blocks under the emulated driver. */
#ifndef SYMM_DETAIL_EMULATED_CLUSTER_CUH
#define SYMM_DETAIL_EMULATED_CLUSTER_CUH

#include <symm/detail/emulated_hopper.h>
#include <symm/detail/emulated_image.cuh>
#include <symm/detail/emulated_memory.cuh>
#include <symm/detail/emulated_threads.cuh>

namespace symm_detail
{

SYMM_DEV uint32_t cluster_rank(void)
{
    return symm_emulated_hopper->cluster_rank();
}

SYMM_DEV void cluster_arrive(void)
{
    symm_emulated_hopper->cluster_arrive();
}

SYMM_DEV void cluster_wait(void)
{
    symm_emulated_hopper->cluster_wait();
}

SYMM_DEV void cluster_meet(void)
{
    cluster_arrive();
    cluster_wait();
}

SYMM_DEV void cluster_sync(void)
{
    cluster_meet();
}

SYMM_DEV float4 cluster_load(const float *shared, uint32_t block)
{
    check_aligned(shared, sizeof(float4));
    return *static_cast<const float4 *>(symm_emulated_hopper->map_shared(shared, block));
}

SYMM_DEV void cluster_expect(uint64_t *bar, uint32_t nbytes)
{
    symm_emulated_hopper->mbarrier_init(bar, 1);
    symm_emulated_hopper->fence_mbarrier_init();
    symm_emulated_hopper->mbarrier_expect(bar, nbytes);
}

SYMM_DEV void cluster_store(float *shared, float x, uint64_t *bar, uint32_t block)
{
    uint32_t word;
    __builtin_memcpy(&word, &x, sizeof word);
    symm_emulated_hopper->store_async(reinterpret_cast<uint32_t *>(shared), word, bar, block);
}

SYMM_DEV void mbarrier_acquire(uint64_t *bar, uint32_t parity)
{
    symm_emulated_hopper->mbarrier_wait(bar, parity);
}

} /* namespace symm_detail */

#endif
