/* How the emulated driver runs kernels: threads, barriers, warps, blocks and their slots on SMs. */
#include "hand_streams.h"

enum { SMS = 8, SLOTS = SMS * 2 };

static void run(const char *name, unsigned blocks, unsigned threads, const struct hand_args *args)
{
    OK(hand_launch(hand_function(name), blocks, threads, args, stream));
    OK(cu.cuStreamSynchronize(stream));
}

TEST_GROUP(kernels, 60, .setup = open_driver, .teardown = close_driver);

/* ---- Threads and blocks ---- */

TEST(kernels, three_dimensions)
{
    static uint32_t out[2 * 3 * 2 * 4 * 5 * 3];
    struct hand_args args = hand_args();
    args.out = out;
    args.value = 7;
    void *params[] = {&args};
    CUlaunchConfig config = {2, 3, 2, 4, 5, 3, 0, stream, NULL, 0};
    OK(cu.cuLaunchKernelEx(&config, hand_function("number"), params, NULL));
    OK(cu.cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < sizeof out / sizeof *out; i++)
        ck_assert_uint_eq(out[i], i + 7);
}

TEST(kernels, more_blocks_than_slots)
{
    static uint32_t out[300 * 33];
    struct hand_args args = hand_args();
    args.out = out;
    run("number", 300, 33, &args);
    for (uint32_t i = 0; i < sizeof out / sizeof *out; i++)
        ck_assert_uint_eq(out[i], i);
}

TEST(kernels, barriers)
{
    static const unsigned threads[] = {1, 2, 31, 32, 33, 256, 1024};
    struct hand_args args = hand_args();
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        run("sync", 3, threads[i], &args);
    ck_assert_uint_eq(atomic_load(&started), 0);
}

TEST(kernels, ended_threads_count_at_the_barrier)
{
    struct hand_args args = hand_args();
    run("leave", 2, 512, &args);
    ck_assert_uint_eq(atomic_load(&started), 2 * 512 / 8);
}

TEST(kernels, warp_exchanges)
{
    static const unsigned threads[] = {1, 7, 32, 40, 64, 1024};
    struct hand_args args = hand_args();
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        run("exchange", 2, threads[i], &args);
    ck_assert_uint_eq(atomic_load(&started), 0);
}

/* The seed alone decides the order of threads. */
static void take_order(const char *seed, uint32_t out[64])
{
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        static uint32_t order[64];
        setenv("SYMM_EMULATED_SEED", seed, 1);
        open_driver();
        struct hand_args args = hand_args();
        args.out = order;
        run("order", 1, 32, &args);
        close_driver();
        _exit(write(ends[1], order, sizeof order) != sizeof order);
    }
    ck_assert_int_eq(read(ends[0], out, 64 * sizeof *out), 64 * sizeof *out);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    close(ends[0]);
    close(ends[1]);
}

TEST_GROUP(processes, 60);

TEST(processes, the_seed_orders_threads)
{
    uint32_t plain[64], first[64], again[64], second[64];
    take_order("0", plain);
    take_order("5", first);
    take_order("5", again);
    take_order("6", second);
    for (uint32_t i = 0; i < 64; i++)
        ck_assert_uint_eq(plain[i], i % 32);
    ck_assert_mem_eq(first, again, sizeof first);
    ck_assert_mem_ne(first, second, sizeof first);
    ck_assert_mem_ne(first, plain, sizeof first);
}

/* ---- Slots ---- */

TEST(kernels, blocks_beyond_the_slots_wait)
{
    struct hand_args args = hand_args();
    CUfunction spin = hand_function("spin");
    OK(hand_launch(spin, SLOTS - 2, 8, &args, stream));
    OK(hand_launch(spin, SLOTS, 8, &args, other));
    hand_wait_for(&started, SLOTS);
    usleep(50000);
    ck_assert_uint_eq(atomic_load(&started), SLOTS);
    GIVES(NOT_READY, cu.cuStreamQuery(stream));
    release();
    OK(cu.cuCtxSynchronize());
    ck_assert_uint_eq(atomic_load(&started), 2 * SLOTS - 2);
    ck_assert_uint_le(atomic_load(&most), SLOTS);
    OK(cu.cuStreamQuery(stream));
}

TEST(kernels, big_blocks_take_an_sm_each)
{
    int n;
    CUfunction spin = hand_function("spin");
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 256, 0));
    ck_assert_int_eq(n, 2);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 256, 200 << 10));
    ck_assert_int_eq(n, 0); /* beyond the attribute */
    OK(cu.cuFuncSetAttribute(spin, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 200 << 10));
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 256, 200 << 10));
    ck_assert_int_eq(n, 1);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 257, 0));
    ck_assert_int_eq(n, 0);
    struct hand_args args = hand_args();
    void *params[] = {&args};
    CUlaunchConfig config = {SMS + 3, 1, 1, 8, 1, 1, 200 << 10, stream, NULL, 0};
    OK(cu.cuLaunchKernelEx(&config, spin, params, NULL));
    hand_wait_for(&started, SMS);
    usleep(50000);
    ck_assert_uint_eq(atomic_load(&started), SMS);
    release();
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(atomic_load(&started), SMS + 3);
}

/* An SM has 228 KiB, of which each block takes 1 KiB for the system. */
TEST(kernels, two_blocks_share_the_memory_of_an_sm)
{
    enum { HALF = 113 << 10 };
    int n;
    CUfunction spin = hand_function("spin");
    OK(cu.cuFuncSetAttribute(spin, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, HALF + 1));
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 256, HALF));
    ck_assert_int_eq(n, 2);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 256, HALF + 1));
    ck_assert_int_eq(n, 1);
}

/* A thread has the registers that the bounds allow: 255 of 65536, if 256 threads are the most. */
TEST(kernels, blocks_take_the_registers_that_their_bounds_allow)
{
    int n;
    CUfunction alone = hand_function("spin_alone");
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, alone, 128, 0));
    ck_assert_int_eq(n, 2);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, alone, 129, 0));
    ck_assert_int_eq(n, 1);
    struct hand_args args = hand_args();
    OK(hand_launch(alone, SMS - 1, 129, &args, stream));
    hand_wait_for(&started, SMS - 1);
    OK(hand_launch(hand_function("spin"), 4, 8, &args, other));
    hand_wait_for(&started, SMS + 1);
    usleep(50000);
    ck_assert_uint_eq(atomic_load(&started), SMS + 1); /* one SM is free, for two of them */
    release();
    OK(cu.cuCtxSynchronize());
    ck_assert_uint_eq(atomic_load(&started), SMS + 3);
}

/* A quarter of an SM has registers for four such warps: two blocks of eight warps fit. */
TEST(kernels, each_quarter_of_an_sm_has_its_registers)
{
    int n;
    CUfunction spin = hand_function("spin_with_112");
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 256, 0));
    ck_assert_int_eq(n, 2);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 257, 0));
    ck_assert_int_eq(n, 1);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 288, 0));
    ck_assert_int_eq(n, 1);
}

/* Small blocks spread over all SMs: each SM has one free place then. A large block needs two. */
TEST(kernels, a_block_that_needs_an_sm_waits_until_one_is_empty)
{
    struct hand_args args = hand_args();
    OK(hand_launch(hand_function("spin"), SMS, 8, &args, stream));
    hand_wait_for(&started, SMS);
    OK(hand_launch(hand_function("spin_alone"), 1, 129, &args, other));
    usleep(50000);
    ck_assert_uint_eq(atomic_load(&started), SMS);
    release();
    OK(cu.cuCtxSynchronize());
    ck_assert_uint_eq(atomic_load(&started), SMS + 1);
}

static CUresult launch_cooperative(CUfunction function, unsigned blocks,
                                   const struct hand_args *args, CUstream on)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    CUlaunchConfig config = {blocks, 1, 1, 16, 1, 1, 0, on, &attribute, 1};
    struct hand_args copy = *args;
    void *params[] = {&copy};
    return cu.cuLaunchKernelEx(&config, function, params, NULL);
}

TEST(kernels, cooperative_grids_start_whole)
{
    static atomic_uint met;
    struct hand_args meet = hand_args();
    meet.started = &met;
    hold(stream);
    OK(launch_cooperative(hand_function("meet"), SLOTS, &meet, other));
    usleep(50000);
    ck_assert_uint_eq(atomic_load(&met), 0); /* one slot is taken, so no block starts */
    release();
    OK(cu.cuCtxSynchronize());
    ck_assert_uint_eq(atomic_load(&met), SLOTS * 16);
    BREAKS(COOPERATIVE_LAUNCH_TOO_LARGE, cuLaunchKernelEx, "17 blocks, of which 16",
           &(CUlaunchConfig){
               SLOTS + 1, 1, 1, 16, 1, 1, 0, stream,
               &(CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1},
               1},
           hand_function("meet"), (void *[]){&meet}, NULL);
}

/* Fills the device but for two slots, and queues a grid that needs all. */
static void queue_a_grid_that_does_not_fit(void)
{
    static atomic_uint met;
    struct hand_args args = hand_args();
    OK(hand_launch(hand_function("spin"), SLOTS - 2, 8, &args, stream));
    hand_wait_for(&started, SLOTS - 2);
    args.started = &met;
    OK(launch_cooperative(hand_function("meet"), SLOTS, &args, other));
    usleep(50000);
}

static CUstream stream_of_priority(int priority)
{
    CUstream made;
    OK(cu.cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, priority));
    return made;
}

static struct hand_args number_args(void)
{
    static uint32_t out[2];
    struct hand_args args = hand_args();
    args.out = out;
    return args;
}

/* A grid that fits starts at once if its priority is above that of the grids that do not fit. */
TEST(kernels, the_greatest_priority_goes_first)
{
    const struct hand_args number = number_args();
    int least, greatest;
    OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    ck_assert_int_lt(greatest, least);
    CUstream first = stream_of_priority(greatest - 1), late = stream_of_priority(least + 1);
    queue_a_grid_that_does_not_fit();
    OK(hand_launch(hand_function("number"), 1, 1, &number, late));
    usleep(50000);
    GIVES(NOT_READY, cu.cuStreamQuery(late));
    OK(hand_launch(hand_function("number"), 1, 1, &number, first));
    OK(cu.cuStreamSynchronize(first));
    GIVES(NOT_READY, cu.cuStreamQuery(late));
    GIVES(NOT_READY, cu.cuStreamQuery(other));
    release();
    OK(cu.cuCtxSynchronize());
    OK(cu.cuStreamDestroy(first));
    OK(cu.cuStreamDestroy(late));
}

/* Captures a kernel in a stream of the greatest priority. */
static CUgraphExec capture_urgent(unsigned long long flags)
{
    const struct hand_args number = number_args();
    CUgraph graph;
    CUgraphExec exec;
    int least, greatest;
    OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    CUstream urgent = stream_of_priority(greatest);
    OK(cu.cuStreamBeginCapture(urgent, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(hand_launch(hand_function("number"), 1, 1, &number, urgent));
    OK(cu.cuStreamEndCapture(urgent, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, flags));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuStreamDestroy(urgent));
    return exec;
}

/* Kernels of a graph keep the priorities of their capture only if its flags say so. */
TEST(kernels, graphs_keep_priorities_on_request)
{
    CUstream a, b;
    CUgraphExec plain = capture_urgent(0),
                urgent = capture_urgent(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY);
    OK(cu.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    queue_a_grid_that_does_not_fit();
    OK(cu.cuGraphLaunch(plain, a));
    usleep(50000);
    OK(cu.cuGraphLaunch(urgent, b));
    OK(cu.cuStreamSynchronize(b));
    GIVES(NOT_READY, cu.cuStreamQuery(a));
    GIVES(NOT_READY, cu.cuStreamQuery(other));
    release();
    OK(cu.cuCtxSynchronize());
    OK(cu.cuGraphExecDestroy(plain));
    OK(cu.cuGraphExecDestroy(urgent));
    OK(cu.cuStreamDestroy(a));
    OK(cu.cuStreamDestroy(b));
}

TEST(kernels, many_cooperative_grids_in_turn)
{
    struct hand_args args = hand_args();
    CUfunction meet = hand_function("meet");
    static atomic_uint met[200];
    for (unsigned i = 0; i < 200; i++) {
        args.started = &met[i];
        OK(launch_cooperative(meet, 1 + i % SLOTS, &args, i % 3 ? stream : other));
    }
    OK(cu.cuCtxSynchronize());
    for (unsigned i = 0; i < 200; i++)
        ck_assert_uint_eq(atomic_load(&met[i]), (1 + i % SLOTS) * 16);
}
