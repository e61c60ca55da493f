/*
 * Rules of clusters: each is broken once, and the report names it. test_driver_pipeline.c has
 * programs that are right.
 */
#include "hopper_kernels.h"

enum { SHARED = 1 << 10 };

/* ---- The barrier of a cluster, and shared memory of other blocks ---- */

static void cluster_arrives_twice(const struct hopper_args *a)
{
    (void)a;
    unit->cluster_arrive();
    if (thread_index() == 0)
        unit->cluster_arrive();
    unit->cluster_wait();
}

static void cluster_waits_alone(const struct hopper_args *a)
{
    (void)a;
    unit->cluster_wait();
}

static void cluster_block_beyond(const struct hopper_args *a)
{
    begin_barrier(1);
    if (block_index() == 0)
        unit->mbarrier_arrive(&bars[0], a->value);
}

/* The other block ends. */
static void cluster_block_ended(const struct hopper_args *a)
{
    (void)a;
    begin_barrier(1);
    while (block_index() == 0) {
        (void)unit->map_shared(&bars[0], 1);
        ops->yield();
    }
}

/* The other block runs. But nothing says so. */
static void cluster_block_early(const struct hopper_args *a)
{
    (void)a;
    if (block_index() == 0)
        (void)unit->map_shared(dynamic(), 1);
    unit->cluster_arrive();
    unit->cluster_wait();
}

static void cluster_unannounced(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init(&bars[0], 1);
    unit->fence_async();
    unit->cluster_arrive();
    unit->cluster_wait();
    if (block_index() == 0)
        unit->mbarrier_arrive(&bars[0], 1);
    unit->cluster_arrive();
    unit->cluster_wait();
}

/* One block waits for the cluster, the other one for its barrier. */
static void cluster_blocked(const struct hopper_args *a)
{
    (void)a;
    begin_barrier(1);
    if (block_index() == 0) {
        unit->cluster_arrive();
        unit->cluster_wait();
    } else {
        unit->mbarrier_wait(&bars[0], 0);
    }
}

/* ---- Words stored into other blocks ---- */

static void word_misaligned(const struct hopper_args *a)
{
    (void)a;
    begin_barrier(1);
    unit->store_async((uint32_t *)(void *)(dynamic() + 2), 1, &bars[0], 0);
}

static void word_elsewhere(const struct hopper_args *a)
{
    begin_barrier(1);
    if (block_index() == 0)
        unit->store_async(a->data, 1, &bars[0], 1);
    unit->cluster_arrive();
    unit->cluster_wait();
}

static void word_early(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init(&bars[0], 1);
    unit->fence_mbarrier_init();
    unit->store_async((uint32_t *)(void *)dynamic(), 1, &bars[0], 1 - block_index());
    unit->cluster_arrive();
    unit->cluster_wait();
}

static void word_unannounced(const struct hopper_args *a)
{
    (void)a;
    unit->mbarrier_init(&bars[0], 1);
    unit->cluster_arrive();
    unit->cluster_wait();
    if (block_index() == 0)
        unit->store_async((uint32_t *)(void *)dynamic(), 1, &bars[0], 1);
    unit->cluster_arrive();
    unit->cluster_wait();
}

/* A block expects one word more than comes. */
static void word_missing(const struct hopper_args *a)
{
    (void)a;
    begin_barrier(1);
    unit->mbarrier_expect(&bars[0], 8);
    unit->store_async((uint32_t *)(void *)dynamic(), 1, &bars[0], 1 - block_index());
    unit->mbarrier_wait(&bars[0], 0);
}

/* The other block ends without its word. */
static void word_to_an_ended_block(const struct hopper_args *a)
{
    (void)a;
    begin_barrier(1);
    while (block_index() == 0) {
        unit->store_async((uint32_t *)(void *)dynamic(), 1, &bars[0], 1);
        ops->yield();
    }
}

static const struct hopper_rule wrong[] = {
    {.body = cluster_arrives_twice,
     .rule = "arrive twice without a wait in between",
     .threads = 32,
     .cluster = 2},
    {.body = cluster_waits_alone,
     .rule = "wait without an arrive before",
     .threads = 1,
     .cluster = 2},
    {.body = cluster_block_beyond,
     .rule = "block 2 of a cluster of 2",
     .threads = 1,
     .cluster = 2,
     .value = 2},
    {.body = cluster_block_ended,
     .rule = "block 1 of the cluster, which has ended",
     .threads = 1,
     .cluster = 2},
    {.body = cluster_block_early,
     .rule = "block 1 of the cluster, which may not have begun",
     .threads = 1,
     .cluster = 2},
    {.body = cluster_unannounced,
     .rule = "has not passed fence.mbarrier_init.release.cluster",
     .threads = 1,
     .cluster = 2},
    {.body = cluster_blocked, .rule = "wait that cannot end", .threads = 33, .cluster = 2},

    {.body = word_misaligned,
     .rule = "which is not aligned to 4 bytes",
     .threads = 1,
     .cluster = 2},
    {.body = word_elsewhere,
     .rule = "is not in shared memory of the block",
     .threads = 1,
     .cluster = 2},
    {.body = word_early, .rule = "which may not have begun", .threads = 1, .cluster = 2},
    {.body = word_unannounced,
     .rule = "has not passed fence.mbarrier_init.release.cluster",
     .threads = 1,
     .cluster = 2},
    {.body = word_missing,
     .rule = "missing are 0 arrivals and 4 bytes",
     .threads = 1,
     .cluster = 2},
    {.body = word_to_an_ended_block,
     .rule = "block 1 of the cluster, which has ended",
     .threads = 1,
     .cluster = 2},
};
enum { NWRONG = sizeof wrong / sizeof wrong[0] };

TEST_GROUP(rules, 60, .setup = open_driver);

TEST_LOOP(rules, each_is_reported, 0, NWRONG)
{
    const CUdeviceptr data = device_memory(64);
    const struct hopper_args a = {.data = (void *)(uintptr_t)data};
    hopper_breaks(&wrong[_i], SHARED, &a);
    cu.cuMemFree(data);
    recover_driver();
}
