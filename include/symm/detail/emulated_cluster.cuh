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

SYMM_DEV void cluster_meet(void)
{
    symm_emulated_hopper->cluster_arrive();
    symm_emulated_hopper->cluster_wait();
}

SYMM_DEV void cluster_sync(void)
{
    symm_emulated_hopper->cluster_arrive();
    symm_emulated_hopper->cluster_wait();
}

SYMM_DEV float4 cluster_load(const float *shared, uint32_t block)
{
    check_aligned(shared, sizeof(float4));
    return *static_cast<const float4 *>(symm_emulated_hopper->map_shared(shared, block));
}

} /* namespace symm_detail */

#endif
