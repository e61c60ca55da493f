/* Kernels that begin before the previous one has ended (SYMM_EMULATED_EARLY). */
#include "hand_streams.h"

#include <stdlib.h>
#include "exercise.h"

enum { VALUE = 100, QUIET_MS = 60 };

static uint32_t word, *at = &word, got[256];

static void open_early(void)
{
    setenv("SYMM_EMULATED_EARLY", "1", 1);
    open_driver();
}

static void launch(const char *name, uint32_t value, bool early)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value.programmaticStreamSerializationAllowed = early};
    struct hand_args args = hand_args();
    void *params[] = {&args};
    args.ptr = at;
    args.out = got;
    args.value = value;
    OK(cu.cuLaunchKernelEx(&(CUlaunchConfig){1, 1, 1, 1, 1, 1, 0, stream, &attribute, 1},
                           hand_function(name), params, NULL));
}

/* The kernel that leads runs, and still does. */
static void lead(uint32_t value)
{
    atomic_store(&go, 0);
    atomic_store(&started, 0);
    atomic_store(&most, 0);
    launch("lead", value, false);
    hand_wait_for(&started, 1);
}

/* Ends all kernels: those behind have waited for the one that leads. */
static void end(uint32_t value, unsigned nfollow)
{
    release();
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(atomic_load(&started), 1 + nfollow);
    ck_assert_uint_eq(word, value + nfollow);
    for (unsigned i = 0; i < nfollow; i++)
        ck_assert_uint_eq(got[1 + i], value + i); /* got[0] has no entry: the leading one counts */
}

static void nothing_begins(void)
{
    pause_ms(QUIET_MS);
    ck_assert_uint_eq(atomic_load(&started), 1);
}

TEST_GROUP(early, 60, .setup = open_early, .teardown = close_driver);

TEST(early, a_kernel_begins_when_the_one_before_allows_it)
{
    lead(VALUE);
    launch("follow", 0, true);
    hand_wait_for(&started, 2);
    pause_ms(QUIET_MS);
    ck_assert_uint_eq(atomic_load(&most), 1); /* it waits for the end of that one */
    end(VALUE, 1);
}

TEST(early, at_most_two_run_at_a_time)
{
    lead(VALUE);
    for (int i = 0; i < 3; i++)
        launch("follow", 0, true);
    hand_wait_for(&started, 2);
    pause_ms(QUIET_MS);
    ck_assert_uint_eq(atomic_load(&started), 2);
    end(VALUE, 3);
}

TEST(early, many_follow_each_other_in_order)
{
    lead(VALUE);
    for (int i = 0; i < 200; i++)
        launch("follow", 0, true);
    end(VALUE, 200);
}

TEST(early, not_without_the_permission_of_the_one_before)
{
    lead(0);
    launch("follow", 0, true);
    nothing_begins();
    end(0, 1);
}

TEST(early, not_without_the_attribute)
{
    lead(VALUE);
    launch("follow", 0, false);
    nothing_begins();
    end(VALUE, 1);
}

TEST(early, not_across_other_work)
{
    lead(VALUE);
    OK(cu.cuEventRecord(event, stream));
    launch("follow", 0, true);
    nothing_begins();
    end(VALUE, 1);
}

TEST(early, not_behind_a_graph_nor_in_it)
{
    CUgraph graph;
    CUgraphExec exec;
    atomic_store(&go, 0);
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    launch("lead", VALUE, false);
    launch("follow", 0, true);
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    atomic_store(&started, 0);
    atomic_store(&most, 0);
    OK(cu.cuGraphLaunch(exec, stream));
    launch("follow", 0, true);
    hand_wait_for(&started, 1);
    nothing_begins();
    end(VALUE, 2);
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuGraphDestroy(graph));
}

TEST(early, the_module_of_one_that_runs_stays)
{
    lead(VALUE);
    launch("follow", 0, true);
    hand_wait_for(&started, 2);
    WRONG(cuModuleUnload, "one of its kernels runs", hand_loaded);
    end(VALUE, 1);
}

static void open_early_weak(void)
{
    setenv("SYMM_EMULATED_WEAK", TEST_TSAN ? "0" : "1", 1);
    open_early();
}

TEST_GROUP(early_weak, 60, .setup = open_early_weak, .teardown = close_driver);

/* An old value may be seen before the wait, and none after it. */
TEST(early_weak, what_the_kernel_before_has_written_is_seen)
{
    if (TEST_TSAN)
        TEST_SKIP("builds with ThreadSanitizer have no weakly ordered memory");
    const CUdeviceptr memory = device_memory(sizeof *at);
    at = (uint32_t *)(uintptr_t)memory;
    *at = 0;
    for (uint32_t round = 1; round <= 60; round++) {
        lead(round);
        launch("reread", 0, true);
        hand_wait_for(&started, 2);
        release();
        OK(cu.cuStreamSynchronize(stream));
        ck_assert_uint_eq(got[0], round - 1);
        ck_assert_uint_eq(got[1], round);
    }
    OK(cu.cuMemFree(memory));
}

TEST_GROUP(by_default, 60, .setup = open_driver, .teardown = close_driver);

TEST(by_default, kernels_run_one_after_the_other)
{
    lead(VALUE);
    launch("follow", 0, true);
    nothing_begins();
    end(VALUE, 1);
}
