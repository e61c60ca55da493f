/* Modules, functions and launches: lazy loading, and calls that break a rule. */
#include "hand_streams.h"

#include <pthread.h>
#include "exercise.h"

/* ---- Lazy loading ---- */

static void *release_later(void *arg)
{
    usleep(1500000);
    atomic_store((atomic_uint *)arg, 1);
    return NULL;
}

TEST_GROUP(launches, 60, .setup = open_driver, .teardown = close_driver);

TEST(launches, the_first_launch_waits_for_the_device)
{
    static uint32_t out[8];
    struct hand_args args = hand_args();
    args.out = out;
    CUfunction loaded = hand_function("number"), unloaded = hand_unloaded_function("append");
    hold(stream);
    OK(hand_launch(loaded, 1, 8, &args, other)); /* does not wait */
    OK(cu.cuStreamSynchronize(other));
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, release_later, &go), 0);
    int64_t begin = now_ms();
    atomic_store(&started, 0);
    OK(hand_launch(unloaded, 1, 1, &args, other));
    ck_assert_int_ge(now_ms() - begin, 1400);
    driver_reported(driver_rank, "cuLaunchKernelEx",
                    "the first launch of append waits until the device");
    pthread_join(thread, NULL);
    begin = now_ms();
    OK(hand_launch(unloaded, 1, 1, &args, other));
    ck_assert_int_le(now_ms() - begin, 90);
    OK(cu.cuCtxSynchronize());
}

/* ---- Modules and launches that break a rule ---- */

TEST(launches, modules)
{
    CUmodule module;
    CUfunction function;
    struct symm_emulated_module wrong = hand_module;
    char noise[64] = "\177ELF";
    BREAKS(INVALID_IMAGE, cuModuleLoadData, "not an image", &module, noise);
    wrong.abi = 77;
    BREAKS(INVALID_IMAGE, cuModuleLoadData, "version 77", &module, &wrong);
    GIVES(NOT_FOUND, cu.cuModuleGetFunction(&function, hand_loaded, "nothing"));
    OK(cu.cuModuleLoadData(&module, &hand_module));
    OK(cu.cuModuleGetFunction(&function, module, "spin"));
    OK(cu.cuFuncLoad(function));
    struct hand_args args = hand_args();
    OK(hand_launch(function, 1, 1, &args, stream));
    WRONG(cuModuleUnload, "one of its kernels runs", module);
    release();
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuModuleUnload(module));
    BREAKS(INVALID_HANDLE, cuModuleUnload, "no such module", module);
    BREAKS(INVALID_HANDLE, cuFuncLoad, "no such function", function);
}

TEST(launches, function_attributes)
{
    int value;
    CUfunction append = hand_function("append"), number = hand_function("number");
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, append));
    ck_assert_int_eq(value, 32);
    OK(cu.cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, number));
    ck_assert_int_eq(value, 1024);
    GIVES(INVALID_VALUE, cu.cuFuncGetAttribute(&value, 77, number));
    WRONG(cuFuncSetAttribute, "cannot be set", number, CU_FUNC_ATTRIBUTE_NUM_REGS, 1);
}

TEST(launches, much_shared_memory_needs_the_attribute)
{
    enum { DEFAULT = 48 << 10, ALL = 227 << 10, DYNAMIC = 8 };
    static uint32_t out[1];
    struct hand_args args = hand_args();
    void *params[] = {&args};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, DEFAULT, stream, NULL, 0};
    CUfunction f = hand_function("number"), other_one = hand_function("append");
    int value;
    args.out = out;
    ck_assert_int_eq(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, DYNAMIC);
    OK(cu.cuFuncGetAttribute(&value, DYNAMIC, f));
    ck_assert_int_eq(value, DEFAULT);
    OK(cu.cuLaunchKernelEx(&config, f, params, NULL));
    config.sharedMemBytes = DEFAULT + 1;
    WRONG(cuLaunchKernelEx, "MAX_DYNAMIC_SHARED", &config, f, params, NULL);
    WRONG(cuFuncSetAttribute, "at most", f, DYNAMIC, ALL + 1);
    WRONG(cuFuncSetAttribute, "at most", f, DYNAMIC, -1);
    OK(cu.cuFuncSetAttribute(f, DYNAMIC, DEFAULT + 1));
    OK(cu.cuLaunchKernelEx(&config, f, params, NULL));
    WRONG(cuLaunchKernelEx, "MAX_DYNAMIC_SHARED", &config, other_one, params, NULL);
    config.sharedMemBytes = ALL;
    WRONG(cuLaunchKernelEx, "may have 49153", &config, f, params, NULL);
    OK(cu.cuFuncSetAttribute(f, DYNAMIC, ALL));
    OK(cu.cuLaunchKernelEx(&config, f, params, NULL));
    OK(cu.cuFuncGetAttribute(&value, DYNAMIC, f));
    ck_assert_int_eq(value, ALL);
    OK(cu.cuStreamSynchronize(stream));
}

TEST(launches, launches_are_checked)
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
#define LAUNCH(error, part, ...)                                                                   \
    BREAKS(error, cuLaunchKernelEx, part, &(CUlaunchConfig){__VA_ARGS__}, f, params, NULL)
    LAUNCH(INVALID_VALUE, "grid of 0x1x1", 0, 1, 1, 1, 1, 1, 0, stream, NULL, 0);
    LAUNCH(INVALID_VALUE, "at most 32", 1, 1, 1, 33, 1, 1, 0, stream, NULL, 0);
    LAUNCH(INVALID_VALUE, "at most 32", 1, 1, 1, 65536, 65536, 1, 0, stream, NULL, 0);
    LAUNCH(INVALID_VALUE, "shared memory", 1, 1, 1, 1, 1, 1, (227 << 10) + 1, stream, NULL, 0);
    LAUNCH(INVALID_VALUE, "multiple of the cluster", 3, 1, 1, 1, 1, 1, 0, stream, &cluster, 1);
    OK(cu.cuLaunchKernelEx(&(CUlaunchConfig){2, 1, 1, 1, 1, 1, 0, stream, &cluster, 1}, f, params,
                           NULL));
    OK(cu.cuLaunchKernelEx(&(CUlaunchConfig){1, 1, 1, 1, 1, 1, 0, stream, &serial, 1}, f, params,
                           NULL));
    BREAKS(NOT_SUPPORTED, cuLaunchKernelEx, "extra",
           &(CUlaunchConfig){1, 1, 1, 1, 1, 1, 0, stream, NULL, 0}, f, params, params);
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(atomic_load(&started), 3);
}

/* A quarter of an SM has registers for four warps of 112 a thread: an SM has them for 512. */
TEST(launches, a_block_has_registers_on_one_sm)
{
    int n;
    struct hand_args args = hand_args();
    CUfunction f = hand_function("spin_with_112");
    release();
    OK(hand_launch(f, 1, 512, &args, stream));
    BREAKS(LAUNCH_OUT_OF_RESOURCES, cuLaunchKernelEx, "too few registers for one of spin_with_112",
           &(CUlaunchConfig){1, 1, 1, 513, 1, 1, 0, stream, NULL, 0}, f, (void *[]){&args}, NULL);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 512, 0));
    ck_assert_int_eq(n, 1);
    OK(cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 513, 0));
    ck_assert_int_eq(n, 0);
    OK(cu.cuStreamSynchronize(stream));
}

TEST(launches, contexts_do_not_mix)
{
    CUcontext ctx;
    struct hand_args args = hand_args();
    CUfunction f = hand_function("append");
    OK(cu.cuDevicePrimaryCtxRetain(&ctx, 1));
    OK(cu.cuCtxPushCurrent(ctx));
    CUstream foreign;
    OK(cu.cuStreamCreate(&foreign, 0));
    BREAKS_ON("1", INVALID_HANDLE, cuLaunchKernelEx, "stream belongs to device 2",
              &(CUlaunchConfig){1, 1, 1, 1, 1, 1, 0, stream, NULL, 0}, f, (void *[]){&args}, NULL);
    BREAKS_ON("1", INVALID_HANDLE, cuLaunchKernelEx, "function belongs to device 2",
              &(CUlaunchConfig){1, 1, 1, 1, 1, 1, 0, foreign, NULL, 0}, f, (void *[]){&args}, NULL);
    BREAKS_ON("1", INVALID_HANDLE, cuEventRecord, "event belongs to device 2", event, foreign);
    OK(cu.cuStreamDestroy(foreign));
    OK(cu.cuCtxPopCurrent(NULL));
    OK(cu.cuDevicePrimaryCtxRelease(1));
}
