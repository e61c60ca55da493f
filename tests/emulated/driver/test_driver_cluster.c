/*
 * Clusters: programs that break no rule, and rules, of which each is broken once, and the report
 * names it.
 */
#include "hopper_kernels.h"

enum { SHARED = 1 << 10 };

TEST_GROUP(programs, 60, .setup = open_driver, .teardown = close_driver);

/* ---- Programs that break no rule ---- */

/* Each block writes into the next one's dynamic and static shared memory. */
static void ring_of_blocks(const struct hopper_args *a)
{
    static _Thread_local uint32_t word;
    uint32_t *own = (uint32_t *)(void *)dynamic(), rank = unit->cluster_rank(),
             next = (rank + 1) % a->value;
    begin_barrier(1);
    if (thread_index() == 0) {
        *(uint32_t *)unit->map_shared(own + 3, next) = 100 + rank;
        *(uint32_t *)unit->map_shared(&word, next) = 200 + rank;
        unit->mbarrier_arrive(&bars[0], next);
    }
    unit->mbarrier_wait(&bars[0], 0);
    unit->cluster_arrive();
    unit->cluster_wait();
    const uint32_t before = (rank + a->value - 1) % a->value;
    if (own[3] != 100 + before || word != 200 + before || rank != block_index() % a->value)
        atomic_fetch_add(a->count, 1);
}

TEST_LOOP(programs, blocks_of_a_cluster_meet, 1, BLOCKS_MAX + 1)
{
    static atomic_uint wrong;
    const struct hopper_args a = {.body = ring_of_blocks, .count = &wrong, .value = (uint32_t)_i};
    hopper_works((struct hopper_shape){3 * (unsigned)_i, 40, (unsigned)_i, 4096}, &a);
    ck_assert_uint_eq(atomic_load(&wrong), 0);
}

/* Each block stores a word into all blocks but the last one, which ends at once. */
static void words_to_all(const struct hopper_args *a)
{
    uint32_t *words = (uint32_t *)(void *)dynamic();
    const uint32_t rank = unit->cluster_rank(), thread = thread_index();
    const bool ends = rank == a->value - 1;
    if (thread < BLOCKS_MAX)
        words[thread] = 0;
    if (thread == 0) {
        unit->mbarrier_init(&bars[0], 1);
        unit->fence_mbarrier_init();
        unit->mbarrier_expect(&bars[0], a->value * sizeof *words);
    }
    unit->cluster_arrive();
    unit->cluster_wait();
    if (thread < a->value - 1)
        unit->store_async(&words[rank], 100 + rank, &bars[0], thread);
    if (ends)
        return;
    unit->mbarrier_wait(&bars[0], 0);
    if (thread < BLOCKS_MAX && words[thread] != (thread < a->value ? 100 + thread : 0))
        atomic_fetch_add(a->count, 1);
}

TEST_LOOP(programs, words_of_a_cluster_arrive, 2, BLOCKS_MAX + 1)
{
    static atomic_uint wrong;
    const struct hopper_args a = {.body = words_to_all, .count = &wrong, .value = (uint32_t)_i};
    hopper_works((struct hopper_shape){3 * (unsigned)_i, 40, (unsigned)_i, 4096}, &a);
    ck_assert_uint_eq(atomic_load(&wrong), 0);
}

/* Threads that have ended count as arrived. */
static void some_end(const struct hopper_args *a)
{
    (void)a;
    if (thread_index() % 2)
        return;
    unit->cluster_arrive();
    unit->cluster_wait();
}

TEST(programs, ended_threads_count_in_a_cluster)
{
    const struct hopper_args a = {.body = some_end};
    hopper_works((struct hopper_shape){4, 64, 2, 0}, &a);
}

/* All slots but one are taken: no block of a cluster starts. */
TEST(programs, a_cluster_starts_whole)
{
    static atomic_uint met;
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                   .value.clusterDim = {2, 1, 1}};
    struct hand_args spinning = hand_args(), meet = hand_args();
    void *params[] = {&meet};
    meet.started = &met;
    OK(hand_launch(hand_function("spin"), 15, 8, &spinning, other));
    hand_wait_for(&started, 15);
    OK(cu.cuLaunchKernelEx(&(CUlaunchConfig){2, 1, 1, 8, 1, 1, 0, stream, &attribute, 1},
                           hand_function("meet"), params, NULL));
    usleep(50000);
    ck_assert_uint_eq(atomic_load(&met), 0);
    release();
    OK(cu.cuCtxSynchronize());
    ck_assert_uint_eq(atomic_load(&met), 16);
}

TEST_GROUP(small, 60);

TEST(small, a_cluster_must_fit)
{
    struct hand_args args = hand_args();
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                   .value.clusterDim = {4, 1, 1}};
    setenv("SYMM_EMULATED_SMS", "1", 1);
    open_driver();
    BREAKS(INVALID_CLUSTER_SIZE, cuLaunchKernelEx, "a cluster of 4 blocks, of which 2 fit",
           &(CUlaunchConfig){4, 1, 1, 8, 1, 1, 0, stream, &attribute, 1}, hand_function("number"),
           (void *[]){&args}, NULL);
    close_driver();
}

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

/* ---- Arrivals that come later ---- */

enum { SEEDS = 300, ARRIVALS = 32 /* of each block, so that some come late */ };

/* All threads arrive at the other block's barrier. All meet, and end together. */
static void ends_behind_an_arrival(const struct hopper_args *a)
{
    const uint32_t rank = unit->cluster_rank();
    begin_barrier(ARRIVALS);
    unit->mbarrier_arrive(&bars[0], (rank + 1) % 2);
    if (rank < a->value) /* these wait for it */
        unit->mbarrier_wait(&bars[0], 0);
    unit->cluster_arrive();
    unit->cluster_wait();
}

/* The runs until a fault; 0: there was none. */
static int runs_until_fault(uint32_t waiting)
{
    const struct hopper_args a = {.body = ends_behind_an_arrival, .value = waiting};
    void (*set_seed)(uint64_t) = NULL;
    OK(driver_lookup()("symm_emulated_set_seed", (void **)&set_seed, 0, 0, NULL));
    for (int seed = 1; seed <= SEEDS; seed++) {
        set_seed((uint64_t)seed);
        if (hopper_launch("hopper", (struct hopper_shape){8, ARRIVALS, 2, SHARED}, &a) !=
            CUDA_SUCCESS)
            return seed;
    }
    return 0;
}

TEST_GROUP(weak, 60);

TEST(weak, a_block_waits_for_arrivals_before_it_ends)
{
    if (TEST_TSAN)
        TEST_SKIP("builds with ThreadSanitizer have no weakly ordered memory");
    setenv("SYMM_EMULATED_WEAK", "1", 1);
    open_driver();
    ck_assert_int_eq(runs_until_fault(2), 0);
    ck_assert_int_gt(runs_until_fault(1), 0);
    driver_reported(driver_rank, "hopper", "of the cluster, which has ended");
    recover_driver();
}
