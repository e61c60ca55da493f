/* The instructions of ptx.cuh under the emulated driver, which checks their rules. */
#ifndef SYMM_MATMUL_SM90_PTX_EMULATED_CUH
#define SYMM_MATMUL_SM90_PTX_EMULATED_CUH

#include <symm/device.cuh>
#include <symm/detail/emulated_hopper.h>
#include "args.h"

namespace sm90
{

using symm_detail::cluster_load;
using symm_detail::cluster_meet;
using symm_detail::cluster_rank;
using symm_detail::cluster_sync;
using symm_detail::mbarrier_acquire;

SYMM_DEV const symm_emulated_hopper_ops &unit(void)
{
    return *symm_emulated_hopper;
}

SYMM_DEV void fence_async(void)
{
    symm_detail::fence_async();
    unit().fence_async();
}

SYMM_DEV uint32_t in_shared(const void *p)
{
    return unit().in_shared(p);
}

SYMM_DEV void mbarrier_init(uint64_t *bar, uint32_t arrivals)
{
    unit().mbarrier_init(bar, arrivals);
}

SYMM_DEV void mbarrier_expect(uint64_t *bar, uint32_t nbytes)
{
    unit().mbarrier_expect(bar, nbytes);
}

/* A look may take 0.1 ms here. */
enum { PATIENCE = 64 };

SYMM_DEV void mbarrier_arrive(uint64_t *bar, uint32_t block)
{
    unit().mbarrier_arrive(bar, block);
}

SYMM_DEV void mbarrier_arrive_here(uint64_t *bar)
{
    unit().mbarrier_arrive(bar, unit().cluster_rank());
}

SYMM_DEV void mbarrier_release(uint64_t *bar, uint32_t block)
{
    unit().mbarrier_arrive(bar, block);
}

SYMM_DEV void mbarrier_wait(uint64_t *bar, uint32_t parity)
{
    unit().mbarrier_wait(bar, parity);
}

SYMM_DEV bool elect_one(void)
{
    return symm_detail::lane() == 0;
}

SYMM_DEV void fence_barriers(void)
{
    unit().fence_async();
    unit().fence_mbarrier_init();
}

SYMM_DEV void tensor_prefetch(const symm_tensor_map *)
{
}

SYMM_DEV void tensor_load(void *shared, const symm_tensor_map *map, int32_t x, int32_t y, int32_t z,
                          uint64_t *bar)
{
    const int32_t at[] = {x, y, z};
    unit().tensor_load(shared, map, 3, at, bar, 0);
}

SYMM_DEV void tensor_load(void *shared, const symm_tensor_map *map, const int32_t (&at)[5],
                          uint64_t *bar)
{
    unit().tensor_load(shared, map, 5, at, bar, 0);
}

SYMM_DEV void tensor_store(const symm_tensor_map *map, int32_t x, int32_t y, int32_t z,
                           const void *shared)
{
    const int32_t at[] = {x, y, z};
    unit().tensor_store(map, 3, at, shared);
}

SYMM_DEV void tensor_store(const symm_tensor_map *map, const int32_t (&at)[5], const void *shared)
{
    unit().tensor_store(map, 5, at, shared);
}

SYMM_DEV void tensor_add(const symm_tensor_map *map, int32_t x, int32_t y, int32_t z,
                         const void *shared)
{
    const int32_t at[] = {x, y, z};
    unit().tensor_add(map, 3, at, shared);
}

SYMM_DEV void bulk_commit(void)
{
    unit().bulk_commit();
}

template <int PENDING> SYMM_DEV void bulk_wait_read(void)
{
    unit().bulk_wait(PENDING, true);
}

SYMM_DEV void bulk_wait_all(void)
{
    unit().bulk_wait(0, false);
}

SYMM_DEV void tensor_load_all(void *shared, const symm_tensor_map *map, int32_t x, int32_t y,
                              int32_t z, uint64_t *bar, uint32_t blocks)
{
    const int32_t at[] = {x, y, z};
    unit().tensor_load(shared, map, 3, at, bar, blocks);
}

/* Each thread stores the column whose address it gives; eight threads have its elements. */
SYMM_DEV void stmatrix_x4_transposed(void *shared, const uint32_t (&words)[4])
{
    uint32_t all[32][4];
    const uint32_t lane = symm_detail::lane();

    symm_detail::check_aligned(shared, 16);
    unit().stmatrix(shared);
    symm_emulated_driver->warp_exchange(~0u, words, sizeof words, all);
    for (uint32_t i = 0; i < 8; i++)
        static_cast<uint16_t *>(shared)[i] =
            (uint16_t)(all[i * 4 + lane % 8 / 2][lane / 8] >> lane % 2 * 16);
}

template <int THREADS> SYMM_DEV void bar_sync(int32_t number)
{
    unit().bar_sync((uint32_t)number, THREADS);
}

template <int N> SYMM_DEV void setmaxnreg_dec(void)
{
    unit().setmaxnreg(N, false);
}

template <int N> SYMM_DEV void setmaxnreg_inc(void)
{
    unit().setmaxnreg(N, true);
}

SYMM_DEV void wgmma_fence(void)
{
    unit().wgmma_fence();
}

SYMM_DEV void wgmma_commit(void)
{
    unit().wgmma_commit();
}

SYMM_DEV void wgmma_wait_but_one(void)
{
    unit().wgmma_wait(1);
}

template <int ACCUMULATORS> SYMM_DEV void wgmma_wait(float (&)[ACCUMULATORS])
{
    unit().wgmma_wait(0);
}

template <typename T> constexpr uint32_t wgmma_type(void);
template <> constexpr uint32_t wgmma_type<symm_f16>(void)
{
    return SYMM_EMULATED_WGMMA_F16;
}
template <> constexpr uint32_t wgmma_type<symm_bf16>(void)
{
    return SYMM_EMULATED_WGMMA_BF16;
}

template <typename T, bool A_ALONG_K, int ACCUMULATORS>
SYMM_DEV void wgmma(float (&d)[ACCUMULATORS], uint64_t a, uint64_t b, int32_t add)
{
    const symm_emulated_wgmma how = {a,          b,     ACCUMULATORS * 2, wgmma_type<T>(),
                                     !A_ALONG_K, false, add != 0,         0};
    unit().wgmma(d, &how);
}

} /* namespace sm90 */

#endif
