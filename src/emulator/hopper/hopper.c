/* The table of operations, their state in a block, and places in shared memory. */
#include "hopper.h"

#include <stdlib.h>
#include "emulator/state/machine.h"
#include "emulator/state/sanitizer.h"
#include "mbarrier.h"
#include "named_barrier.h"
#include "tensor_copy.h"
#include "tensor_store.h"
#include "unfenced.h"
#include "warpgroup.h"
#include "remote.h"

/* Where dynamic shared memory begins in the window: behind what the system has of it. */
#define WINDOW_START EMU_SHARED_ALIGNMENT

/* ---- What a block keeps ---- */

static void begin(struct block *b)
{
    struct emu_hopper *h = (struct emu_hopper *)b->units;
    h->nmbarriers = h->ncopies = h->nremotes = 0;
    emu__tensor_store_free(h);
    emu__unfenced_clear(h);
    emu__named_barriers_clear(h);
    for (unsigned i = 0; i < h->groups_capacity; i++)
        h->committed[i] = 0;
    emu__warpgroups_free(h);
}

/* In weakly ordered memory the units are late, each by chance. */
static bool work(struct block *b)
{
    static bool (*const units[])(struct block *) = {emu__tensor_work, emu__wgmma_work,
                                                    emu__tensor_store_work, emu__remote_work};
    enum { NUNITS = sizeof units / sizeof *units };
    unsigned first = b->weak ? (unsigned)(emu__draw(&b->random) % NUNITS) : 0;
    bool worked = false;
    for (unsigned i = 0; i < NUNITS && b->weak && !worked; i++)
        worked = units[(first + i) % NUNITS](b);
    return worked;
}

static void end(struct block *b)
{
    const struct emu_hopper *h = (const struct emu_hopper *)b->units;
    if (h->ncopies > 0)
        emu__block_fault(b, CUDA_ERROR_LAUNCH_FAILED,
                         "the block ends while copies into shared memory are not done");
    emu__tensor_store_end(b);
    emu__remote_end(b);
}

static void free_units(struct emu_units *units)
{
    struct emu_hopper *h = (struct emu_hopper *)units;
    emu__warpgroups_free(h);
    free(h->mbarriers);
    free(h->copies);
    free(h->remotes);
    emu__tensor_store_free(h);
    emu__unfenced_free(h);
    free(h->committed);
    free(h->box);
    free(h);
}

EMU_UNCHECKED struct emu_hopper *emu__hopper(struct block *b)
{
    if (b->units)
        return (struct emu_hopper *)b->units;
    EMU_UNCHECKED_BEGIN();
    struct emu_hopper *h = calloc(1, sizeof *h);
    EMU_UNCHECKED_END();
    if (!h)
        emu__block_break(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "no memory for mbarriers");
    h->units = (struct emu_units){begin, work, end, free_units};
    emu__cluster_lock(b->cluster);
    b->units = &h->units;
    emu__cluster_unlock(b->cluster);
    return h;
}

/* ---- Places ---- */

EMU_UNCHECKED uint32_t emu__window_address(const struct block *b, const void *p, size_t nbytes)
{
    uintptr_t at = (uintptr_t)p - (uintptr_t)b->shared.at;
    bool inside = b->shared.at && at < b->shared.nbytes && b->shared.nbytes - at >= nbytes;
    return inside ? WINDOW_START + (uint32_t)at : 0;
}

EMU_UNCHECKED char *emu__window_bytes(const struct block *b, uint32_t address, size_t nbytes)
{
    uint32_t at = address - WINDOW_START;
    bool inside = b->shared.at && at < b->shared.nbytes && b->shared.nbytes - at >= nbytes;
    return inside ? b->shared.at + at : NULL;
}

EMU_UNCHECKED static uint32_t cluster_rank(void)
{
    return emu__this_block->rank;
}

EMU_UNCHECKED static uint32_t in_shared(const void *p)
{
    uint32_t address = emu__window_address(emu__this_block, p, 1);
    if (address == 0)
        emu__block_break(CUDA_ERROR_ILLEGAL_ADDRESS, "%p is not in dynamic shared memory", p);
    return address;
}

EMU_UNCHECKED static void *map_shared(const void *p, uint32_t block)
{
    struct block *b = emu__this_block;
    char rule[EMU_RULE_NBYTES];
    emu__cluster_lock(b->cluster);
    char *there = emu__shared_map(b, p, 1, block, rule, sizeof rule);
    emu__cluster_unlock(b->cluster);
    if (!there)
        emu__block_break(CUDA_ERROR_ILLEGAL_ADDRESS, "%s", rule);
    return there;
}

EMU_UNCHECKED static void fence_async(void)
{
    emu__mbarrier_fence_async();
    emu__unfenced_end(emu__this_block);
}

const struct symm_emulated_hopper_ops emu__hopper_ops = {
    .cluster_rank = cluster_rank,
    .cluster_arrive = emu__cluster_arrive,
    .cluster_wait = emu__cluster_wait,
    .map_shared = map_shared,
    .in_shared = in_shared,
    .mbarrier_init = emu__mbarrier_init,
    .mbarrier_end = emu__mbarrier_end,
    .mbarrier_expect = emu__mbarrier_expect,
    .mbarrier_arrive = emu__mbarrier_arrive,
    .mbarrier_wait = emu__mbarrier_wait,
    .fence_mbarrier_init = emu__mbarrier_fence_init,
    .fence_async = fence_async,
    .tensor_load = emu__tensor_load,
    .tensor_add = emu__tensor_add,
    .bulk_commit = emu__bulk_commit,
    .bulk_wait = emu__bulk_wait,
    .setmaxnreg = emu__setmaxnreg,
    .wgmma_fence = emu__wgmma_fence,
    .wgmma_commit = emu__wgmma_commit,
    .wgmma_wait = emu__wgmma_wait,
    .wgmma = emu__wgmma,
    .tensor_store = emu__tensor_store,
    .stmatrix = emu__stmatrix,
    .bar_sync = emu__bar_sync,
    .store_async = emu__remote_store,
};
