/*
 * Rules of shared memory, mbarriers, tensor copies and wgmma: each is broken once, and the report
 * names it. test_driver_pipeline.c has programs that are right.
 */
#include "hopper_kernels.h"

enum { SHARED = 64 << 10, LINES = 64, TILE = LINES * 128 };

/* ---- Shared memory ---- */

static void shared_of_none(const struct hopper_args *a)
{
    (void)a;
    (void)dynamic();
}

static void shared_too_aligned(const struct hopper_args *a)
{
    (void)a;
    (void)ops->dynamic_shared(2048);
}

static void shared_overrun(const struct hopper_args *a)
{
    (void)a;
    ((volatile char *)dynamic())[SHARED] = 1;
}

static void shared_underrun(const struct hopper_args *a)
{
    (void)a;
    ((volatile char *)dynamic())[-1] = 1;
}

static void shared_elsewhere(const struct hopper_args *a)
{
    (void)unit->in_shared(a);
}

/* ---- mbarriers ---- */

static void barrier_uninitialised(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_wait(&bars[0], 0);
}

static void barrier_of_none(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init(&bars[0], 0);
}

static void barrier_of_many(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init(&bars[0], 1 << 20);
}

static void barrier_twice(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init(&bars[0], 1);
    unit->mbarrier_init(&bars[0], 1);
}

static void barrier_misaligned(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init((uint64_t *)(void *)((char *)bars + 4), 1);
}

static void barrier_elsewhere(const struct hopper_args *a)
{
    unit->mbarrier_init(a->data, 1);
}

static void barrier_after_its_end(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init(&bars[0], 1);
    unit->mbarrier_end(&bars[0]);
    unit->mbarrier_arrive(&bars[0], 0);
}

static void barrier_overwritten(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init(&bars[0], 1);
    *(volatile uint64_t *)&bars[0] = 7;
    unit->mbarrier_arrive(&bars[0], 0);
}

static void barrier_too_many_arrivals(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init(&bars[0], 1);
    unit->mbarrier_expect(&bars[0], 16);
    unit->mbarrier_arrive(&bars[0], 0);
}

static void barrier_too_many_bytes(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init(&bars[0], 3);
    unit->mbarrier_expect(&bars[0], (1 << 20) - 1);
    unit->mbarrier_expect(&bars[0], 1);
}

static void barrier_parity(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init(&bars[0], 1);
    unit->mbarrier_wait(&bars[0], 2);
}

static void barrier_without_arrivals(const struct hopper_args *a)
{
    (void)a;
    begin_barrier(3);
    unit->mbarrier_arrive(&bars[0], 0);
    unit->mbarrier_wait(&bars[0], 0);
}

/* ---- Tensor copies ---- */

static void copy_not_of_a_map(const struct hopper_args *a)
{
    struct hopper_args changed = *a;
    begin_barrier(1);
    changed.map.words[3] ^= 1;
    load(&changed, dynamic(), 0, 0);
}

static void copy_of_other_dimensions(const struct hopper_args *a)
{
    const int32_t at[3] = {0};
    begin_barrier(1);
    unit->tensor_load(dynamic(), &a->map, 3, at, &bars[0], 0);
}

static void copy_by_a_misaligned_map(const struct hopper_args *a)
{
    const int32_t at[2] = {0};
    begin_barrier(1);
    unit->tensor_load(dynamic(), (const char *)&a->map + 16, 2, at, &bars[0], 0);
}

static void copy_by_a_map_on_the_stack(const struct hopper_args *a)
{
    const struct hopper_args copied = *a;
    begin_barrier(1);
    load(&copied, dynamic(), 0, 0);
}

static void copy_by_a_map_in_memory(const struct hopper_args *a)
{
    const int32_t at[2] = {0};
    begin_barrier(1);
    unit->mbarrier_expect(&bars[0], TILE);
    unit->tensor_load(dynamic(), a->data, 2, at, &bars[0], 0);
    unit->mbarrier_wait(&bars[0], 0);
}

static void copy_misaligned(const struct hopper_args *a)
{
    begin_barrier(1);
    load(a, dynamic() + 64, 0, 0);
}

static void copy_beyond(const struct hopper_args *a)
{
    begin_barrier(1);
    load(a, dynamic() + SHARED - TILE + 128, 0, 0);
}

static void copy_without_fence(const struct hopper_args *a)
{
    unit->mbarrier_init(&bars[0], 1);
    load(a, dynamic(), 0, 0);
}

static void copy_to_an_unannounced_barrier(const struct hopper_args *a)
{
    const int32_t at[2] = {0};
    (void)dynamic();
    unit->mbarrier_init(&bars[0], 1);
    unit->fence_async();
    unit->cluster_arrive();
    unit->cluster_wait();
    if (block_index() == 0)
        unit->tensor_load(dynamic(), &a->map, 2, at, &bars[0], 3);
    unit->cluster_arrive();
    unit->cluster_wait();
}

static void copy_of_no_memory(const struct hopper_args *a)
{
    begin_barrier(1);
    load(a, dynamic(), 0, 64);
}

static void store_without_fence(const struct hopper_args *a)
{
    const int32_t at[2] = {0};
    char *row = dynamic() + 48;
    unit->stmatrix(row);
    unit->fence_async();
    unit->stmatrix(row + 128);
    unit->tensor_store(&a->map, 2, at, dynamic());
}

static void stmatrix_elsewhere(const struct hopper_args *a)
{
    unit->stmatrix(a);
}

static void store_unread(const struct hopper_args *a)
{
    const int32_t at[2] = {0};
    unit->tensor_store(&a->map, 2, at, dynamic());
    unit->bulk_commit();
}

static void store_to_no_memory(const struct hopper_args *a)
{
    const int32_t at[2] = {0, 64};
    unit->tensor_store(&a->map, 2, at, dynamic());
    unit->bulk_commit();
    unit->bulk_wait(0, 0);
}

static void copy_of_other_size(const struct hopper_args *a)
{
    begin_barrier(1);
    if (thread_index() == 0) {
        unit->mbarrier_expect(&bars[0], TILE + a->value);
        load(a, dynamic(), 0, 0);
    }
    unit->mbarrier_wait(&bars[0], 0);
}

static void copy_without_expectation(const struct hopper_args *a)
{
    begin_barrier(1);
    for (int i = 0; i < 200; i++)
        load(a, dynamic(), 0, 0);
}

/* ---- wgmma ---- */

static void multiply(const struct hopper_args *a, const struct symm_emulated_wgmma *how, bool fence)
{
    float d[GROUP] = {0};
    (void)a;
    if (fence)
        unit->wgmma_fence();
    unit->wgmma(d, how);
    unit->wgmma_commit();
    unit->wgmma_wait(0);
}

static void wgmma_without_fence(const struct hopper_args *a)
{
    const struct symm_emulated_wgmma how = wgmma_of(a, 0);
    multiply(a, &how, false);
}

/* After the wait its thread may have used the accumulators. */
static void wgmma_without_second_fence(const struct hopper_args *a)
{
    const struct symm_emulated_wgmma how = wgmma_of(a, 0);
    multiply(a, &how, true);
    multiply(a, &how, false);
}

static void wgmma_reserved_bits(const struct hopper_args *a)
{
    struct symm_emulated_wgmma how = wgmma_of(a, 0);
    how.b |= UINT64_C(1) << 14;
    multiply(a, &how, true);
}

static void wgmma_off_the_pattern(const struct hopper_args *a)
{
    struct symm_emulated_wgmma how = wgmma_of(a, 0);
    how.a += 128 / 16;
    multiply(a, &how, true);
}

static void wgmma_beyond(const struct hopper_args *a)
{
    struct symm_emulated_wgmma how = wgmma_of(a, 0);
    how.a += (SHARED - 1024) / 16;
    multiply(a, &how, true);
}

static void wgmma_of_other_columns(const struct hopper_args *a)
{
    struct symm_emulated_wgmma how = wgmma_of(a, 0);
    how.columns = 12;
    multiply(a, &how, true);
}

static void wgmma_of_some(const struct hopper_args *a)
{
    const struct symm_emulated_wgmma how = wgmma_of(a, 0);
    if (thread_index() > 0)
        multiply(a, &how, true);
}

static void wgmma_unlike(const struct hopper_args *a)
{
    struct symm_emulated_wgmma how = wgmma_of(a, 0);
    how.b += thread_index() == 5 ? 2 : 0;
    multiply(a, &how, true);
}

static void wgmma_overwritten(const struct hopper_args *a)
{
    const struct symm_emulated_wgmma how = wgmma_of(a, 0);
    float d[GROUP] = {0};
    unit->wgmma_fence();
    unit->wgmma(d, &how);
    if (thread_index() == 9)
        d[3] = 1;
    unit->wgmma_commit();
    unit->wgmma_wait(0);
}

static void wgmma_of_two_shapes(const struct hopper_args *a)
{
    struct symm_emulated_wgmma how = wgmma_of(a, 0);
    float d[GROUP] = {0};
    unit->wgmma_fence();
    unit->wgmma(d, &how);
    how.columns /= 2;
    unit->wgmma(d, &how);
}

static void wgmma_into_other_arrays(const struct hopper_args *a)
{
    const struct symm_emulated_wgmma how = wgmma_of(a, 0);
    float d[2][GROUP] = {{0}};
    unit->wgmma_fence();
    unit->wgmma(d[0], &how);
    unit->wgmma(d[1], &how);
    unit->wgmma(d[thread_index() == 3], &how);
}

/* ---- bar.sync ---- */

static void sync_by_number(const struct hopper_args *a)
{
    unit->bar_sync(a->value, GROUP);
}

static void sync_of_a_part_of_a_warp(const struct hopper_args *a)
{
    (void)a;
    unit->bar_sync(1, 40);
}

static void sync_of_some(const struct hopper_args *a)
{
    (void)a;
    if (thread_index() >= 32)
        unit->bar_sync(2, GROUP);
}

static void sync_of_halves_of_warps(const struct hopper_args *a)
{
    (void)a;
    if (thread_index() % 32 < 16)
        unit->bar_sync(1, 64);
}

static void sync_of_two_warps(const struct hopper_args *a)
{
    (void)a;
    unit->bar_sync(1, 64);
}

static void sync_of_two_sizes(const struct hopper_args *a)
{
    (void)a;
    unit->bar_sync(1, thread_index() < 32 ? GROUP : 64);
}

/* ---- setmaxnreg ---- */

static void registers_asked(const struct hopper_args *a)
{
    unit->setmaxnreg(a->value & 0xffff, a->value >> 16);
}

static void registers_of_some(const struct hopper_args *a)
{
    (void)a;
    if (thread_index() < 96)
        unit->setmaxnreg(96, 0);
}

static void registers_unlike(const struct hopper_args *a)
{
    (void)a;
    unit->setmaxnreg(thread_index() < 96 ? 96 : 88, 0);
}

enum { SHRINK = 0, GROW = 1 << 16 };

static const struct hopper_rule wrong[] = {
    {.body = shared_of_none, .rule = "of a launch that asks for none", .without_shared = true},
    {.body = shared_too_aligned, .rule = "with the alignment 2048: at most 1024"},
    {.body = shared_overrun, .rule = "is outside of the 65536 bytes of dynamic shared memory"},
    {.body = shared_underrun, .rule = "is outside of the 65536 bytes of dynamic shared memory"},
    {.body = shared_elsewhere, .rule = "is not in dynamic shared memory"},

    {.body = barrier_uninitialised, .rule = "is not initialised"},
    {.body = barrier_of_none, .rule = "an mbarrier of 0 arrivals"},
    {.body = barrier_of_many, .rule = "an mbarrier of 1048576 arrivals"},
    {.body = barrier_twice, .rule = ", which is initialised"},
    {.body = barrier_misaligned, .rule = "which is not aligned to 8 bytes"},
    {.body = barrier_elsewhere, .rule = "is not in shared memory of the block"},
    {.body = barrier_after_its_end, .rule = "is not initialised"},
    {.body = barrier_overwritten, .rule = "was overwritten"},
    {.body = barrier_too_many_arrivals, .rule = "more arrivals than the 1 expected in a phase"},
    {.body = barrier_too_many_bytes, .rule = "becomes 1048576"},
    {.body = barrier_parity, .rule = "a wait for parity 2"},
    {.body = barrier_without_arrivals,
     .rule = "missing are 1 arrivals and 0 bytes, by thread",
     .threads = 2},

    {.body = copy_not_of_a_map, .rule = "is no tensor map"},
    {.body = copy_of_other_dimensions, .rule = "coordinates of 3 dimensions for a tensor map of 2"},
    {.body = copy_by_a_misaligned_map, .rule = "which is not aligned to 64 bytes"},
    {.body = copy_by_a_map_on_the_stack, .rule = "neither in the kernel's argument nor in global"},
    {.body = copy_misaligned, .rule = "which is not aligned to 128 bytes"},
    {.body = copy_beyond, .rule = "of which not all is dynamic shared memory"},
    {.body = copy_without_fence, .rule = "has not passed fence.proxy.async"},
    {.body = copy_to_an_unannounced_barrier,
     .rule = "has not passed fence.mbarrier_init",
     .threads = 1,
     .cluster = 2},
    {.body = copy_of_no_memory, .rule = "is outside of the allocation"},
    {.body = store_without_fence, .rule = "thread 0 has stored rows without fence.proxy.async"},
    {.body = stmatrix_elsewhere, .rule = "of which not all is dynamic shared memory"},
    {.body = store_unread, .rule = "boxes in its shared memory are not read yet"},
    {.body = store_to_no_memory, .rule = "is outside of the allocation"},
    {.body = copy_of_other_size,
     .rule = "missing are 0 arrivals and 16 bytes",
     .threads = 32,
     .value = 16},
    {.body = copy_of_other_size,
     .rule = "missing are 0 arrivals and -16 bytes",
     .threads = 32,
     .value = (uint32_t)-16},
    {.body = copy_without_expectation, .rule = "becomes -1048576"},

    {.body = wgmma_without_fence, .rule = "wgmma without a wgmma.fence", .threads = GROUP},
    {.body = wgmma_without_second_fence, .rule = "wgmma without a wgmma.fence", .threads = GROUP},
    {.body = wgmma_reserved_bits, .rule = "has bits that must be 0", .threads = GROUP},
    {.body = wgmma_off_the_pattern,
     .rule = "is in line 1 of the swizzle's pattern",
     .threads = GROUP},
    {.body = wgmma_beyond, .rule = "which is outside of the block's", .threads = GROUP},
    {.body = wgmma_of_other_columns, .rule = "wgmma of 12 columns", .threads = GROUP},
    {.body = wgmma_of_some, .rule = "wgmma, to which 127 of 128 threads", .threads = GROUP},
    {.body = wgmma_of_some, .rule = "a warpgroup of 96 threads", .threads = 96},
    {.body = wgmma_unlike, .rule = "come to different wgmma instructions", .threads = GROUP},
    {.body = wgmma_overwritten,
     .rule = "has changed accumulators of a wgmma in flight",
     .threads = GROUP},
    {.body = wgmma_of_two_shapes,
     .rule = "with accumulators in flight of one of 64",
     .threads = GROUP},
    {.body = wgmma_into_other_arrays,
     .rule = "multiply into different accumulators",
     .threads = GROUP},

    {.body = sync_by_number, .rule = "bar.sync 0: barriers 1 to 15", .threads = GROUP},
    {.body = sync_by_number,
     .rule = "bar.sync 16: barriers 1 to 15",
     .threads = GROUP,
     .value = 16},
    {.body = sync_of_a_part_of_a_warp, .rule = "bar.sync of 40 threads", .threads = GROUP},
    {.body = sync_of_some,
     .rule = "bar.sync 2, to which 96 of 128 threads have come",
     .threads = GROUP},
    {.body = sync_of_halves_of_warps,
     .rule = "bar.sync 1, to which 0 of 64 threads have come in whole warps",
     .threads = GROUP},
    {.body = sync_of_two_sizes,
     .rule = "threads, to which others have come as one of",
     .threads = GROUP},

    {.body = registers_asked,
     .rule = "in a kernel without a number of registers",
     .threads = GROUP,
     .kernel = "plain",
     .value = SHRINK | 48},
    {.body = registers_asked,
     .rule = "to 52 registers: a multiple of 8",
     .threads = GROUP,
     .value = SHRINK | 52},
    {.body = registers_asked,
     .rule = "to 16 registers: a multiple of 8 from 24",
     .threads = GROUP,
     .value = SHRINK | 16},
    {.body = registers_asked, .rule = "to 264 registers", .threads = GROUP, .value = GROW | 264},
    {.body = registers_asked,
     .rule = "setmaxnreg.dec to 168 registers of a warpgroup that has 160",
     .threads = GROUP,
     .value = SHRINK | 168},
    {.body = registers_asked,
     .rule = "setmaxnreg.inc to 152 registers of a warpgroup that has 160",
     .threads = GROUP,
     .value = GROW | 152},
    {.body = registers_asked,
     .rule = "to 168 registers instead of 160",
     .threads = 2 * GROUP,
     .value = GROW | 168},
    {.body = registers_of_some, .rule = "to which 96 of 128 threads", .threads = GROUP},
    {.body = registers_unlike,
     .rule = "come to different setmaxnreg instructions",
     .threads = GROUP},
};
enum { NWRONG = sizeof wrong / sizeof wrong[0] };

TEST_GROUP(rules, 60, .setup = open_driver);

TEST_LOOP(rules, each_is_reported, 0, NWRONG)
{
    const CUdeviceptr data = device_memory(TILE);
    const uint64_t swizzle = UINT64_C(1) << 62, stride = UINT64_C(64) << 32;
    const struct hopper_args a = {/* More rows than the memory has. */
                                  .map =
                                      map_of(data, 64, 1 << 20, LINES, CU_TENSOR_MAP_SWIZZLE_128B),
                                  .data = (void *)(uintptr_t)data,
                                  .a = swizzle | stride,
                                  .b = swizzle | stride,
                                  .columns = 64};
    hopper_breaks(&wrong[_i], SHARED, &a);
    cu.cuMemFree(data);
    recover_driver();
}

TEST_GROUP(exceptions, 60, .setup = open_driver, .teardown = close_driver);

TEST(exceptions, a_blocks_last_warp_counts_as_a_full_one)
{
    hopper_works((struct hopper_shape){1, 40, 1, 0},
                 &(struct hopper_args){.body = sync_of_two_warps});
}

TEST(exceptions, tensor_maps_may_be_in_global_memory)
{
    const CUdeviceptr data = device_memory(TILE);
    const struct tensor_map map = map_of(data, 64, LINES, LINES, CU_TENSOR_MAP_SWIZZLE_128B);
    OK(cu.cuMemcpyAsync(data, address(&map), sizeof map, stream));
    hopper_works(
        (struct hopper_shape){1, 1, 1, SHARED},
        &(struct hopper_args){.body = copy_by_a_map_in_memory, .data = (void *)(uintptr_t)data});
    OK(cu.cuMemFree(data));
}
