/*
 * The binary interface between the emulated driver and kernels for Hopper GPUs: one function an
 * instruction of sm_90a. cuModuleLoadData stores the table where symm_emulated_module.hopper says.
 * A broken rule of an instruction ends the kernel with a fault that names it.
 */
#ifndef SYMM_DETAIL_EMULATED_HOPPER_H
#define SYMM_DETAIL_EMULATED_HOPPER_H

#include <symm/detail/emulated.h>

#ifdef __cplusplus
extern "C" {
#endif

enum symm_emulated_wgmma_type { SYMM_EMULATED_WGMMA_F16, SYMM_EMULATED_WGMMA_BF16 };

/* wgmma.mma_async.sync.aligned.m64n<columns>k16.f32 of two operands in shared memory. */
struct symm_emulated_wgmma {
    uint64_t a, b;    /* their descriptors */
    uint32_t columns; /* a multiple of 8, at most 256; a thread has half as many accumulators */
    uint32_t type;    /* enum symm_emulated_wgmma_type, of both operands */
    uint32_t a_transposed, b_transposed;
    uint32_t add;      /* 0: the accumulators count as 0 */
    uint32_t reserved; /* 0; no padding, since the driver compares the threads' structs */
};

/* Append only. */
struct symm_emulated_hopper_ops {
    /* %cluster_ctarank */
    uint32_t (*cluster_rank)(void);
    /* barrier.cluster.arrive.release and .wait.acquire */
    void (*cluster_arrive)(void);
    void (*cluster_wait)(void);
    /* mapa: the same place of shared memory in another block of the cluster. */
    void *(*map_shared)(const void *p, uint32_t block);
    /* The address of dynamic shared memory in the window .shared::cta, for descriptors. */
    uint32_t (*in_shared)(const void *p);
    /* mbarrier.init, .inval */
    void (*mbarrier_init)(uint64_t *bar, uint32_t arrivals);
    void (*mbarrier_end)(uint64_t *bar);
    /* mbarrier.arrive.expect_tx at a barrier of this block */
    void (*mbarrier_expect)(uint64_t *bar, uint32_t nbytes);
    /* mbarrier.arrive at the barrier in the same place of a block of the cluster */
    void (*mbarrier_arrive)(uint64_t *bar, uint32_t block);
    /* mbarrier.try_wait.parity: returns when the phase of that parity is complete */
    void (*mbarrier_wait)(uint64_t *bar, uint32_t parity);
    /* fence.mbarrier_init.release.cluster; fence.proxy.async */
    void (*fence_mbarrier_init)(void);
    void (*fence_async)(void);
    /*
     * cp.async.bulk.tensor.<ndim>d.shared::cluster.global.mbarrier::complete_tx::bytes, into the
     * same place of each block of the mask with .multicast::cluster; 0: without it
     */
    void (*tensor_load)(void *shared, const void *map, uint32_t ndim, const int32_t *at,
                        uint64_t *bar, uint32_t blocks);
    /* setmaxnreg.inc if grow is not 0, else .dec */
    void (*setmaxnreg)(uint32_t registers, uint32_t grow);
    /* wgmma.fence, .commit_group, .wait_group */
    void (*wgmma_fence)(void);
    void (*wgmma_commit)(void);
    void (*wgmma_wait)(uint32_t pending);
    void (*wgmma)(float *d, const struct symm_emulated_wgmma *how);
    /*
     * cp.reduce.async.bulk.tensor.<ndim>d.global.shared::cta.add.tile.bulk_group, of float16 or
     * bfloat16; cp.async.bulk.commit_group; cp.async.bulk.wait_group or, with read, .read
     */
    void (*tensor_add)(const void *map, uint32_t ndim, const int32_t *at, const void *shared);
    void (*bulk_commit)(void);
    void (*bulk_wait)(uint32_t pending, uint32_t read);
    /* cp.async.bulk.tensor.<ndim>d.global.shared::cta.tile.bulk_group, of elements of 16 bits */
    void (*tensor_store)(const void *map, uint32_t ndim, const int32_t *at, const void *shared);
    /* The running thread's row of stmatrix, 16 bytes, before it is stored */
    void (*stmatrix)(const void *row);
    /* bar.sync: a barrier of nthreads threads of the block; orders shared memory only */
    void (*bar_sync)(uint32_t number, uint32_t nthreads);
    /* st.async of a word into the same place of a block of the cluster, counted by its barrier */
    void (*store_async)(uint32_t *shared, uint32_t word, uint64_t *bar, uint32_t block);
};

#ifdef __cplusplus
}
#endif

#endif
