/*
 * How the emulated driver runs kernels: threads, barriers, warps, blocks and their places, lazy
 * loading, launches that break a rule, and faults.
 */
#include "driver_table.h"
#include "hand_kernels.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#define RANK "3"
#define DEVICE 3
#define SMS 8
#define PLACES (SMS * 2)

static CUstream stream, other;

static void open_driver(void)
{
    hand_open(DEVICE);
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
}

static void close_streams(void)
{
    OK(cu.cuStreamDestroy(stream));
    OK(cu.cuStreamDestroy(other));
}

static void close_driver(void)
{
    close_streams();
    hand_close(DEVICE);
}

static void run(const char *name, unsigned blocks, unsigned threads, const struct hand_args *args)
{
    OK(hand_launch(hand_function(name), blocks, threads, args, stream));
    OK(cu.cuStreamSynchronize(stream));
}

/* ---- Threads and blocks ---- */

START_TEST(three_dimensions)
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
END_TEST

START_TEST(more_blocks_than_places)
{
    static uint32_t out[300 * 33];
    struct hand_args args = hand_args();
    args.out = out;
    run("number", 300, 33, &args);
    for (uint32_t i = 0; i < sizeof out / sizeof *out; i++)
        ck_assert_uint_eq(out[i], i);
}
END_TEST

START_TEST(barriers)
{
    static const unsigned threads[] = {1, 2, 31, 32, 33, 256, 1024};
    struct hand_args args = hand_args();
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        run("sync", 3, threads[i], &args);
    ck_assert_uint_eq(atomic_load(&started), 0);
}
END_TEST

START_TEST(threads_that_left_count_at_the_barrier)
{
    struct hand_args args = hand_args();
    run("leave", 2, 512, &args);
    ck_assert_uint_eq(atomic_load(&started), 2 * 512 / 8);
}
END_TEST

START_TEST(warp_exchanges)
{
    static const unsigned threads[] = {1, 7, 32, 40, 64, 1024};
    struct hand_args args = hand_args();
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
        run("exchange", 2, threads[i], &args);
    ck_assert_uint_eq(atomic_load(&started), 0);
}
END_TEST

/* The seed, and nothing else, decides how threads are interleaved. */
static void take_order(const char *seed, uint32_t out[64])
{
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        static uint32_t order[64];
        setenv("SYMM_EMULATED_SEED", seed, 1);
        hand_open(DEVICE);
        OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        struct hand_args args = hand_args();
        args.out = order;
        run("order", 1, 32, &args);
        OK(cu.cuStreamDestroy(stream));
        hand_close(DEVICE);
        _exit(write(ends[1], order, sizeof order) != sizeof order);
    }
    ck_assert_int_eq(read(ends[0], out, 64 * sizeof *out), 64 * sizeof *out);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    close(ends[0]);
    close(ends[1]);
}

START_TEST(the_seed_orders_threads)
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
END_TEST

/* ---- Places ---- */

START_TEST(blocks_beyond_the_places_wait)
{
    struct hand_args args = hand_args();
    CUfunction spin = hand_function("spin");
    OK(hand_launch(spin, PLACES - 2, 8, &args, stream));
    OK(hand_launch(spin, PLACES, 8, &args, other));
    hand_wait_for(&started, PLACES);
    usleep(50000);
    ck_assert_uint_eq(atomic_load(&started), PLACES);
    ck_assert_int_eq(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    atomic_store(&go, 1);
    OK(cu.cuCtxSynchronize());
    ck_assert_uint_eq(atomic_load(&started), 2 * PLACES - 2);
    ck_assert_uint_le(atomic_load(&most), PLACES);
    OK(cu.cuStreamQuery(stream));
}
END_TEST

START_TEST(big_blocks_take_a_multiprocessor_each)
{
    int n;
    CUfunction spin = hand_function("spin");
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 256, 0));
    ck_assert_int_eq(n, 2);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, spin, 256, 200 << 10));
    ck_assert_int_eq(n, 0); /* nobody asked for so much */
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
    atomic_store(&go, 1);
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(atomic_load(&started), SMS + 3);
}
END_TEST

static CUresult launch_cooperative(CUfunction function, unsigned blocks,
                                   const struct hand_args *args, CUstream on)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    CUlaunchConfig config = {blocks, 1, 1, 16, 1, 1, 0, on, &attribute, 1};
    struct hand_args copy = *args;
    void *params[] = {&copy};
    return cu.cuLaunchKernelEx(&config, function, params, NULL);
}

START_TEST(cooperative_grids_start_whole)
{
    static atomic_uint met;
    struct hand_args spin = hand_args(), meet = hand_args();
    meet.started = &met;
    OK(hand_launch(hand_function("spin"), 1, 8, &spin, stream));
    hand_wait_for(&started, 1);
    OK(launch_cooperative(hand_function("meet"), PLACES, &meet, other));
    usleep(50000);
    ck_assert_uint_eq(atomic_load(&met), 0); /* one place is taken, so none of its blocks starts */
    atomic_store(&go, 1);
    OK(cu.cuCtxSynchronize());
    ck_assert_uint_eq(atomic_load(&met), PLACES * 16);
    BREAKS(
        RANK, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, cuLaunchKernelEx, "17 blocks, of which 16",
        &(CUlaunchConfig){
            PLACES + 1, 1, 1, 16, 1, 1, 0, stream,
            &(CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1}, 1},
        hand_function("meet"), (void *[]){&meet}, NULL);
}
END_TEST

/* What fits runs at once if its stream has priority over the grids that do not fit. */
START_TEST(the_greatest_priority_goes_first)
{
    static atomic_uint met;
    static uint32_t out[2];
    struct hand_args spin = hand_args(), meet = hand_args(), number = hand_args();
    CUstream first, late;
    int least, greatest;
    meet.started = &met;
    number.out = out;
    OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    ck_assert_int_lt(greatest, least);
    OK(cu.cuStreamCreateWithPriority(&first, CU_STREAM_NON_BLOCKING, greatest - 1));
    OK(cu.cuStreamCreateWithPriority(&late, CU_STREAM_NON_BLOCKING, least + 1));
    OK(hand_launch(hand_function("spin"), PLACES - 2, 8, &spin, stream));
    hand_wait_for(&started, PLACES - 2);
    OK(launch_cooperative(hand_function("meet"), PLACES, &meet, other));
    usleep(50000);
    OK(hand_launch(hand_function("number"), 1, 1, &number, late));
    usleep(50000);
    ck_assert_int_eq(cu.cuStreamQuery(late), CUDA_ERROR_NOT_READY);
    OK(hand_launch(hand_function("number"), 1, 1, &number, first));
    OK(cu.cuStreamSynchronize(first));
    ck_assert_int_eq(cu.cuStreamQuery(late), CUDA_ERROR_NOT_READY);
    ck_assert_int_eq(cu.cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    atomic_store(&go, 1);
    OK(cu.cuCtxSynchronize());
    OK(cu.cuStreamDestroy(first));
    OK(cu.cuStreamDestroy(late));
}
END_TEST

/* A kernel captured in a stream of the greatest priority; out counts one thread that ran. */
static CUgraphExec capture_urgent(unsigned long long flags, struct hand_args *number)
{
    CUgraph graph;
    CUgraphExec exec;
    CUstream urgent;
    int least, greatest;
    OK(cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    OK(cu.cuStreamCreateWithPriority(&urgent, CU_STREAM_NON_BLOCKING, greatest));
    OK(cu.cuStreamBeginCapture(urgent, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(hand_launch(hand_function("number"), 1, 1, number, urgent));
    OK(cu.cuStreamEndCapture(urgent, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, flags));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuStreamDestroy(urgent));
    return exec;
}

/* In a graph kernels have their stream's priority only if that is asked for. */
START_TEST(graphs_have_priorities_that_are_asked_for)
{
    static atomic_uint met;
    static uint32_t out[2];
    struct hand_args spin = hand_args(), meet = hand_args(), number = hand_args();
    CUstream a, b;
    meet.started = &met;
    number.out = out;
    CUgraphExec plain = capture_urgent(0, &number),
                urgent = capture_urgent(CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY, &number);
    OK(cu.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(hand_launch(hand_function("spin"), PLACES - 2, 8, &spin, stream));
    hand_wait_for(&started, PLACES - 2);
    OK(launch_cooperative(hand_function("meet"), PLACES, &meet, other));
    usleep(50000);
    OK(cu.cuGraphLaunch(plain, a));
    usleep(50000);
    OK(cu.cuGraphLaunch(urgent, b));
    OK(cu.cuStreamSynchronize(b));
    ck_assert_int_eq(cu.cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    ck_assert_int_eq(cu.cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    atomic_store(&go, 1);
    OK(cu.cuCtxSynchronize());
    OK(cu.cuGraphExecDestroy(plain));
    OK(cu.cuGraphExecDestroy(urgent));
    OK(cu.cuStreamDestroy(a));
    OK(cu.cuStreamDestroy(b));
}
END_TEST

START_TEST(many_cooperative_grids_in_turn)
{
    struct hand_args args = hand_args();
    CUfunction meet = hand_function("meet");
    static atomic_uint met[200];
    for (unsigned i = 0; i < 200; i++) {
        args.started = &met[i];
        OK(launch_cooperative(meet, 1 + i % PLACES, &args, i % 3 ? stream : other));
    }
    OK(cu.cuCtxSynchronize());
    for (unsigned i = 0; i < 200; i++)
        ck_assert_uint_eq(atomic_load(&met[i]), (1 + i % PLACES) * 16);
}
END_TEST

/* ---- Lazy loading ---- */

static void *release_later(void *arg)
{
    usleep(1500000);
    atomic_store((atomic_uint *)arg, 1);
    return NULL;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

START_TEST(the_first_launch_waits_for_the_device)
{
    static uint32_t out[8];
    struct hand_args args = hand_args();
    args.out = out;
    CUfunction loaded = hand_function("number"), unloaded = hand_unloaded_function("append");
    OK(hand_launch(hand_function("spin"), 1, 1, &args, stream));
    hand_wait_for(&started, 1);
    OK(hand_launch(loaded, 1, 8, &args, other)); /* does not wait */
    OK(cu.cuStreamSynchronize(other));
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, release_later, &go), 0);
    double begin = now_s();
    atomic_store(&started, 0);
    OK(hand_launch(unloaded, 1, 1, &args, other));
    ck_assert_double_ge(now_s() - begin, 1.4);
    driver_reported(RANK, "cuLaunchKernelEx", "the first launch of append waits until the device");
    pthread_join(thread, NULL);
    begin = now_s();
    OK(hand_launch(unloaded, 1, 1, &args, other));
    ck_assert_double_le(now_s() - begin, 0.09);
    OK(cu.cuCtxSynchronize());
}
END_TEST

/* ---- Modules and launches that break a rule ---- */

START_TEST(modules)
{
    CUmodule module;
    CUfunction function;
    struct symm_emulated_module wrong = hand_module;
    char noise[64] = "\177ELF";
    BREAKS(RANK, CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData, "not an image", &module, noise);
    wrong.abi = 77;
    BREAKS(RANK, CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData, "version 77", &module, &wrong);
    ck_assert_int_eq(cu.cuModuleGetFunction(&function, hand_loaded, "nothing"),
                     CUDA_ERROR_NOT_FOUND);
    OK(cu.cuModuleLoadData(&module, &hand_module));
    OK(cu.cuModuleGetFunction(&function, module, "spin"));
    OK(cu.cuFuncLoad(function));
    struct hand_args args = hand_args();
    OK(hand_launch(function, 1, 1, &args, stream));
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuModuleUnload, "one of its kernels runs", module);
    atomic_store(&go, 1);
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuModuleUnload(module));
    BREAKS(RANK, CUDA_ERROR_INVALID_HANDLE, cuModuleUnload, "no such module", module);
    BREAKS(RANK, CUDA_ERROR_INVALID_HANDLE, cuFuncLoad, "no such function", function);
}
END_TEST

START_TEST(function_attributes)
{
    int value;
    CUfunction append = hand_function("append"), number = hand_function("number");
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, append));
    ck_assert_int_eq(value, 32);
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, number));
    ck_assert_int_eq(value, 1024);
    ck_assert_int_eq(cu.cuFuncGetAttribute(&value, 77, number), CUDA_ERROR_INVALID_VALUE);
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute, "cannot be set", number,
           CU_FUNC_ATTRIBUTE_NUM_REGS, 1);
}
END_TEST

START_TEST(much_shared_memory_is_asked_for_first)
{
    enum { UNASKED = 48 << 10, ALL = 227 << 10, DYNAMIC = 8 };
    static uint32_t out[1];
    struct hand_args args = hand_args();
    void *params[] = {&args};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, UNASKED, stream, NULL, 0};
    CUfunction f = hand_function("number"), other_one = hand_function("append");
    int value;
    args.out = out;
    ck_assert_int_eq(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, DYNAMIC);
    OK(cu.cuFuncGetAttribute(&value, DYNAMIC, f));
    ck_assert_int_eq(value, UNASKED);
    OK(cu.cuLaunchKernelEx(&config, f, params, NULL));
    config.sharedMemBytes = UNASKED + 1;
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx, "MAX_DYNAMIC_SHARED", &config, f,
           params, NULL);
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute, "at most", f, DYNAMIC, ALL + 1);
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuFuncSetAttribute, "at most", f, DYNAMIC, -1);
    OK(cu.cuFuncSetAttribute(f, DYNAMIC, UNASKED + 1));
    OK(cu.cuLaunchKernelEx(&config, f, params, NULL));
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx, "MAX_DYNAMIC_SHARED", &config,
           other_one, params, NULL);
    config.sharedMemBytes = ALL;
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx, "may have 49153", &config, f, params,
           NULL);
    OK(cu.cuFuncSetAttribute(f, DYNAMIC, ALL));
    OK(cu.cuLaunchKernelEx(&config, f, params, NULL));
    OK(cu.cuFuncGetAttribute(&value, DYNAMIC, f));
    ck_assert_int_eq(value, ALL);
    OK(cu.cuStreamSynchronize(stream));
}
END_TEST

START_TEST(launches_are_checked)
{
    struct hand_args args = hand_args();
    void *params[] = {&args};
    CUfunction f = hand_function("append");
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                 .value.clusterDim = {2, 1, 1}};
    CUlaunchAttribute serial = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                .value.programmaticStreamSerializationAllowed = 1};
    static uint32_t out[8];
    args.out = out;
#define LAUNCH(result, part, ...)                                                                  \
    BREAKS(RANK, result, cuLaunchKernelEx, part, &(CUlaunchConfig){__VA_ARGS__}, f, params, NULL)
    LAUNCH(CUDA_ERROR_INVALID_VALUE, "grid of 0x1x1", 0, 1, 1, 1, 1, 1, 0, stream, NULL, 0);
    LAUNCH(CUDA_ERROR_INVALID_VALUE, "at most 32", 1, 1, 1, 33, 1, 1, 0, stream, NULL, 0);
    LAUNCH(CUDA_ERROR_INVALID_VALUE, "at most 32", 1, 1, 1, 65536, 65536, 1, 0, stream, NULL, 0);
    LAUNCH(CUDA_ERROR_INVALID_VALUE, "shared memory", 1, 1, 1, 1, 1, 1, (227 << 10) + 1, stream,
           NULL, 0);
    LAUNCH(CUDA_ERROR_INVALID_VALUE, "multiple of the cluster", 3, 1, 1, 1, 1, 1, 0, stream,
           &cluster, 1);
    OK(cu.cuLaunchKernelEx(&(CUlaunchConfig){2, 1, 1, 1, 1, 1, 0, stream, &cluster, 1}, f, params,
                           NULL));
    OK(cu.cuLaunchKernelEx(&(CUlaunchConfig){1, 1, 1, 1, 1, 1, 0, stream, &serial, 1}, f, params,
                           NULL));
    BREAKS(RANK, CUDA_ERROR_NOT_SUPPORTED, cuLaunchKernelEx, "extra",
           &(CUlaunchConfig){1, 1, 1, 1, 1, 1, 0, stream, NULL, 0}, f, params, params);
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(atomic_load(&started), 3);
}
END_TEST

START_TEST(contexts_do_not_mix)
{
    CUcontext ctx;
    struct hand_args args = hand_args();
    CUfunction f = hand_function("append");
    CUevent event;
    OK(cu.cuEventCreate(&event, 0));
    OK(cu.cuDevicePrimaryCtxRetain(&ctx, 1));
    OK(cu.cuCtxPushCurrent(ctx));
    CUstream foreign;
    OK(cu.cuStreamCreate(&foreign, 0));
    BREAKS("1", CUDA_ERROR_INVALID_HANDLE, cuLaunchKernelEx, "stream belongs to device 3",
           &(CUlaunchConfig){1, 1, 1, 1, 1, 1, 0, stream, NULL, 0}, f, (void *[]){&args}, NULL);
    BREAKS("1", CUDA_ERROR_INVALID_HANDLE, cuLaunchKernelEx, "function belongs to device 3",
           &(CUlaunchConfig){1, 1, 1, 1, 1, 1, 0, foreign, NULL, 0}, f, (void *[]){&args}, NULL);
    BREAKS("1", CUDA_ERROR_INVALID_HANDLE, cuEventRecord, "event belongs to device 3", event,
           foreign);
    OK(cu.cuStreamDestroy(foreign));
    OK(cu.cuCtxPopCurrent(NULL));
    OK(cu.cuDevicePrimaryCtxRelease(1));
    OK(cu.cuEventDestroy(event));
}
END_TEST

/* ---- Faults ---- */

/* Runs a kernel that faults: the error sticks, the report names rank, kernel and rule. */
static void run_fault(const char *name, unsigned threads, const struct hand_args *args,
                      CUresult error, const char *part)
{
    OK(hand_launch(hand_function(name), 2, threads, args, stream));
    ck_assert_int_eq(cu.cuStreamSynchronize(stream), error);
    char head[128];
    snprintf(head, sizeof head, "symm-emulated[rank " RANK "]: %s: rule: ", name);
    const char *rule = cu.last_rule();
    ck_assert_msg(strncmp(rule, head, strlen(head)) == 0, "\"%s\"", rule);
    ck_assert_msg(strstr(rule, part) != NULL, "no \"%s\" in \"%s\"", part, rule);

    CUevent event;
    ck_assert_int_eq(cu.cuStreamQuery(stream), error);
    ck_assert_int_eq(cu.cuCtxSynchronize(), error);
    ck_assert_int_eq(cu.cuEventCreate(&event, 0), error);
    ck_assert_int_eq(hand_launch(NULL, 1, 1, args, stream), error);
}

/* Everything can still be destroyed, and the next context is healthy. */
static void recover(void)
{
    ck_assert_int_ne(cu.cuStreamDestroy(stream), CUDA_SUCCESS); /* tells the error, and destroys */
    ck_assert_int_ne(cu.cuStreamDestroy(other), CUDA_SUCCESS);
    ck_assert_int_ne(cu.cuModuleUnload(hand_loaded), CUDA_SUCCESS);
    ck_assert_int_eq(driver_objects().streams, 0);
    ck_assert_int_eq(driver_objects().modules, 0);
    cu.cuCtxSetCurrent(NULL);
    OK(cu.cuDevicePrimaryCtxRelease(DEVICE));
    static uint32_t out[64];
    struct hand_args args = hand_args();
    args.out = out;
    open_driver();
    run("number", 2, 32, &args);
    ck_assert_uint_eq(out[63], 63);
    close_driver();
}

START_TEST(access_to_nothing)
{
    struct hand_args args = hand_args();
    args.ptr = (void *)(uintptr_t)0x10;
    run_fault("touch", 64, &args, CUDA_ERROR_ILLEGAL_ADDRESS,
              "0x10 is memory of the host, or unmapped: a device cannot access it, by thread "
              "(63,0,0) of");
    ck_assert_uint_eq(atomic_load(&started), 0);
    recover();
}
END_TEST

START_TEST(access_without_rights)
{
    CUmemGenericAllocationHandle handle = memory_create(DEVICE, GRANULE);
    CUdeviceptr ptr = memory_reserve(GRANULE);
    OK(cu.cuMemMap(ptr, GRANULE, 0, handle, 0));
    struct hand_args args = hand_args();
    args.ptr = (void *)(uintptr_t)ptr;
    run_fault("touch", 1, &args, CUDA_ERROR_ILLEGAL_ADDRESS, "access");
    cu.cuMemUnmap(ptr, GRANULE);
    cu.cuMemAddressFree(ptr, GRANULE);
    cu.cuMemRelease(handle);
    recover();
}
END_TEST

START_TEST(kernels_fault_on_purpose)
{
    struct hand_args args = hand_args();
    run_fault("fault", 8, &args, CUDA_ERROR_ILLEGAL_ADDRESS, "a packet for nobody");
    ck_assert_uint_eq(atomic_load(&started), 0);
    recover();
}
END_TEST

START_TEST(misaligned_access)
{
    struct hand_args args = hand_args();
    args.value = 1;
    run_fault("fault", 8, &args, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned packet");
    recover();
}
END_TEST

START_TEST(threads_that_wait_in_different_places)
{
    struct hand_args args = hand_args();
    run_fault("diverge", 8, &args, CUDA_ERROR_LAUNCH_FAILED, "1 at __syncthreads, 7 in warp");
    recover();
}
END_TEST

static const char *const overflows[] = {"dive", "leap"};

START_TEST(stack_overflow)
{
    static uint32_t out[1];
    struct hand_args args = hand_args();
    args.out = out;
    run_fault(overflows[_i], 4, &args, CUDA_ERROR_ILLEGAL_ADDRESS,
              "stack of a CUDA thread is exhausted");
    recover();
}
END_TEST

START_TEST(a_fault_ends_other_kernels_of_the_device)
{
    struct hand_args args = hand_args();
    OK(hand_launch(hand_function("spin"), 2, 64, &args, other));
    hand_wait_for(&started, 2);
    run_fault("fault", 1, &args, CUDA_ERROR_ILLEGAL_ADDRESS, "nobody");
    ck_assert_int_eq(cu.cuStreamSynchronize(other), CUDA_ERROR_ILLEGAL_ADDRESS);
    recover();
}
END_TEST

static void segv_of_the_program(int socket)
{
    (void)socket;
    hand_open(DEVICE);
    volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 1;
}

START_TEST(faults_outside_of_kernels_are_the_programs)
{
    struct peer peer = peer_start(segv_of_the_program);
    int status = peer_wait(&peer);
    ck_assert(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}
END_TEST

#if SYMM_MULTICAST
/* A multicast object of this device and the next one; memory is bound only for this device. */
static CUdeviceptr map_multicast(CUmemGenericAllocationHandle *multicast,
                                 CUmemGenericAllocationHandle *memory)
{
    CUmulticastObjectProp prop = {2, 2 * GRANULE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0};
    OK(cu.cuMulticastCreate(multicast, &prop));
    OK(cu.cuMulticastAddDevice(*multicast, DEVICE));
    OK(cu.cuMulticastAddDevice(*multicast, DEVICE + 1));
    *memory = memory_create(DEVICE, GRANULE);
    OK(cu.cuMulticastBindMem(*multicast, 0, *memory, 0, GRANULE, 0));
    return memory_map(*multicast, 2 * GRANULE, DEVICE);
}

static void unmap_multicast(CUdeviceptr ptr, CUmemGenericAllocationHandle multicast,
                            CUmemGenericAllocationHandle memory)
{
    cu.cuMemUnmap(ptr, 2 * GRANULE);
    cu.cuMemAddressFree(ptr, 2 * GRANULE);
    cu.cuMulticastUnbind(multicast, DEVICE, 0, GRANULE);
    cu.cuMemRelease(multicast);
    cu.cuMemRelease(memory);
}

START_TEST(plain_access_to_multicast)
{
    CUmemGenericAllocationHandle multicast, memory;
    CUdeviceptr ptr = map_multicast(&multicast, &memory);
    struct hand_args args = hand_args();
    args.ptr = (void *)(uintptr_t)ptr;
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async, "multicast", ptr, 0, 16, stream);
    run_fault("touch", 32, &args, CUDA_ERROR_ILLEGAL_ADDRESS,
              "plain access to the multicast address");
    unmap_multicast(ptr, multicast, memory);
    recover();
}
END_TEST

START_TEST(replicas_that_are_not_bound)
{
    CUmemGenericAllocationHandle multicast, memory;
    CUdeviceptr ptr = map_multicast(&multicast, &memory);
    struct hand_args args = hand_args();
    args.ptr = (void *)(uintptr_t)ptr;
    run_fault("replicas", 1, &args, CUDA_ERROR_ILLEGAL_ADDRESS, "bound");
    unmap_multicast(ptr, multicast, memory);
    recover();
}
END_TEST

START_TEST(replicas_of_no_bytes)
{
    struct hand_args args = hand_args();
    run_fault("none", 1, &args, CUDA_ERROR_ILLEGAL_ADDRESS, "a multimem access of 0 bytes");
    recover();
}
END_TEST

START_TEST(misaligned_multimem)
{
    CUmemGenericAllocationHandle multicast, memory;
    CUdeviceptr ptr = map_multicast(&multicast, &memory);
    struct hand_args args = hand_args();
    args.ptr = (void *)(uintptr_t)(ptr + 8);
    run_fault("replicas", 1, &args, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned multimem access");
    unmap_multicast(ptr, multicast, memory);
    recover();
}
END_TEST
#endif

int main(void)
{
    Suite *suite = suite_create("emulated driver: kernels");
    TCase *tc = test_case(suite, "kernels", 60);
    tcase_add_checked_fixture(tc, open_driver, close_driver);
    tcase_add_test(tc, three_dimensions);
    tcase_add_test(tc, more_blocks_than_places);
    tcase_add_test(tc, barriers);
    tcase_add_test(tc, threads_that_left_count_at_the_barrier);
    tcase_add_test(tc, warp_exchanges);
    tcase_add_test(tc, blocks_beyond_the_places_wait);
    tcase_add_test(tc, big_blocks_take_a_multiprocessor_each);
    tcase_add_test(tc, cooperative_grids_start_whole);
    tcase_add_test(tc, the_greatest_priority_goes_first);
    tcase_add_test(tc, graphs_have_priorities_that_are_asked_for);
    tcase_add_test(tc, many_cooperative_grids_in_turn);
    tcase_add_test(tc, the_first_launch_waits_for_the_device);
    tcase_add_test(tc, modules);
    tcase_add_test(tc, function_attributes);
    tcase_add_test(tc, much_shared_memory_is_asked_for_first);
    tcase_add_test(tc, launches_are_checked);
    tcase_add_test(tc, contexts_do_not_mix);
    tc = test_case(suite, "faults", 60);
    tcase_add_checked_fixture(tc, open_driver, NULL);
    tcase_add_test(tc, access_to_nothing);
    tcase_add_test(tc, access_without_rights);
    tcase_add_test(tc, kernels_fault_on_purpose);
    tcase_add_test(tc, misaligned_access);
    tcase_add_test(tc, threads_that_wait_in_different_places);
    tcase_add_loop_test(tc, stack_overflow, 0, 2);
    tcase_add_test(tc, a_fault_ends_other_kernels_of_the_device);
#if SYMM_MULTICAST
    tcase_add_test(tc, plain_access_to_multicast);
    tcase_add_test(tc, replicas_that_are_not_bound);
    tcase_add_test(tc, replicas_of_no_bytes);
    tcase_add_test(tc, misaligned_multimem);
#endif
    tc = test_case(suite, "processes", 60);
    tcase_add_test(tc, the_seed_orders_threads);
    tcase_add_test(tc, faults_outside_of_kernels_are_the_programs);
    return test_main(suite);
}
