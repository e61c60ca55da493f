/*
 * Faults of kernels under the emulated driver: the error sticks, the report names rank, kernel and
 * rule, and the next context is healthy. test_driver_replicas.c has those of multicast addresses.
 */
#include "hand_streams.h"

#include <sys/mman.h>

enum memory { NONE, NEAR_NULL, MAPPED_WITHOUT_ACCESS };

static const struct {
    const char *kernel;
    unsigned threads;
    enum memory memory;
    uint32_t value;
    CUresult error;
    const char *rule;
} wrong[] = {
    {"touch", 64, NEAR_NULL, 0, CUDA_ERROR_ILLEGAL_ADDRESS,
     "0x10 is memory of the host, or unmapped: a device cannot access it, by thread (63,0,0) of"},
    {"touch", 1, MAPPED_WITHOUT_ACCESS, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "access"},
    {"fault", 8, NONE, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "a packet without a receiver"},
    {"fault", 8, NONE, 1, CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned packet"},
    {"diverge", 8, NONE, 0, CUDA_ERROR_LAUNCH_FAILED, "1 at __syncthreads, 7 in warp"},
    {"dive", 4, NONE, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "stack of a CUDA thread is exhausted"},
    {"leap", 4, NONE, 0, CUDA_ERROR_ILLEGAL_ADDRESS, "stack of a CUDA thread is exhausted"},
};

/* Runs a kernel that faults. */
static void run_fault(const char *name, unsigned threads, const struct hand_args *args,
                      CUresult error, const char *rule)
{
    CUevent more;
    OK(hand_launch(hand_function(name), 2, threads, args, stream));
    ck_assert_int_eq(cu.cuStreamSynchronize(stream), error);
    driver_reported(driver_rank, name, rule);
    ck_assert_int_eq(cu.cuStreamQuery(stream), error);
    ck_assert_int_eq(cu.cuCtxSynchronize(), error);
    ck_assert_int_eq(cu.cuEventCreate(&more, 0), error);
    ck_assert_int_eq(hand_launch(NULL, 1, 1, args, stream), error);
}

TEST_GROUP(faults, 60, .setup = open_driver);

TEST_LOOP(faults, a_fault_sticks_until_the_context_ends, 0, (int)(sizeof wrong / sizeof *wrong))
{
    static uint32_t out[1];
    CUmemGenericAllocationHandle handle = memory_create(DEVICE, GRANULE);
    CUdeviceptr ptr = memory_reserve(GRANULE);
    struct hand_args args = hand_args();
    OK(cu.cuMemMap(ptr, GRANULE, 0, handle, 0));
    args.out = out;
    args.value = wrong[_i].value;
    args.ptr = (void *)(uintptr_t)(wrong[_i].memory == NEAR_NULL ? 0x10 : ptr);
    run_fault(wrong[_i].kernel, wrong[_i].threads, &args, wrong[_i].error, wrong[_i].rule);
    ck_assert_uint_eq(atomic_load(&started), 0);
    cu.cuMemUnmap(ptr, GRANULE);
    cu.cuMemAddressFree(ptr, GRANULE);
    cu.cuMemRelease(handle);
    recover_driver();
}

TEST(faults, a_fault_ends_other_kernels_of_the_device)
{
    struct hand_args args = hand_args();
    OK(hand_launch(hand_function("spin"), 2, 64, &args, other));
    hand_wait_for(&started, 2);
    run_fault("fault", 1, &args, CUDA_ERROR_ILLEGAL_ADDRESS, "without a receiver");
    GIVES(ILLEGAL_ADDRESS, cu.cuStreamSynchronize(other));
    recover_driver();
}

/* Memory of cuMemAlloc and pinned memory of the host, made while another device is current. */
static CUdeviceptr far_memory(void **pinned)
{
    CUcontext ctx;
    CUdeviceptr far;
    OK(cu.cuDevicePrimaryCtxRetain(&ctx, DEVICE + 1));
    OK(cu.cuCtxPushCurrent(ctx));
    far = device_memory(4);
    OK(cu.cuMemHostAlloc(pinned, 4, CU_MEMHOSTALLOC_PORTABLE));
    OK(cu.cuCtxPopCurrent(NULL));
    return far;
}

/* Copies cross devices. Kernels do after cuCtxEnablePeerAccess only, which this driver lacks. */
TEST(faults, kernels_do_not_access_memory_of_another_device)
{
    void *pinned;
    const CUdeviceptr far = far_memory(&pinned);
    struct hand_args args = hand_args();
    args.value = 7;
    args.ptr = pinned;
    OK(hand_launch(hand_function("reach"), 1, 1, &args, stream));
    OK(cu.cuMemcpyAsync(far, address(pinned), 4, stream));
    OK(cu.cuMemsetD8Async(address(pinned), 0, 4, stream));
    OK(cu.cuMemcpyAsync(address(pinned), far, 4, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(*(uint32_t *)pinned, 7);
    args.ptr = (void *)(uintptr_t)far;
    run_fault("reach", 1, &args, CUDA_ERROR_ILLEGAL_ADDRESS, "device 2 has no access to");
    OK(cu.cuMemFree(far));
    OK(cu.cuMemFreeHost(pinned));
    OK(cu.cuDevicePrimaryCtxRelease(DEVICE + 1));
    recover_driver();
}

static void segv_of_the_program(int socket)
{
    (void)socket;
    open_driver();
    volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 1;
}

TEST_GROUP(processes, 60);

TEST(processes, faults_outside_of_kernels_are_the_programs)
{
    struct peer peer = peer_start(segv_of_the_program);
    int status = peer_wait(&peer);
    ck_assert(WIFSIGNALED(status) || WEXITSTATUS(status) != 0);
}
