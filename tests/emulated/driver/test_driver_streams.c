/*
 * Streams, events and copies of the emulated driver: their order, and a call that breaks each rule.
 */
#include "hand_streams.h"

#include <pthread.h>
#include <time.h>

TEST_GROUP(streams, 60, .setup = open_driver, .teardown = close_driver);

/* ---- Streams ---- */

TEST(streams, streams_are_asynchronous_and_in_order)
{
    hold(stream);
    for (uint32_t i = 0; i < 50; i++)
        append(i, stream);
    append(100, other); /* overtakes */
    OK(cu.cuStreamSynchronize(other));
    NOTED(100);
    GIVES(NOT_READY, cu.cuStreamQuery(stream));
    release();
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuStreamQuery(stream));
    ck_assert_uint_eq(atomic_load(&nnoted), 50);
    for (uint32_t i = 0; i < 50; i++)
        ck_assert_uint_eq(noted[i], i);
}

TEST(streams, the_legacy_stream_waits_for_blocking_streams)
{
    hold(blocking);
    append(1, NULL);
    append(2, blocking2); /* after the legacy stream's work, so behind `blocking` too */
    append(3, stream);    /* exempt */
    OK(cu.cuStreamSynchronize(stream));
    NOTED(3);
    GIVES(NOT_READY, cu.cuStreamQuery(NULL));
    GIVES(NOT_READY, cu.cuStreamQuery(blocking2));
    release();
    OK(cu.cuStreamSynchronize(blocking2));
    NOTED(1, 2);
    OK(cu.cuStreamSynchronize(NULL));
    OK(cu.cuStreamQuery(NULL));
}

TEST(streams, a_destroyed_stream_finishes)
{
    CUstream short_lived;
    OK(cu.cuStreamCreate(&short_lived, CU_STREAM_NON_BLOCKING));
    hold(short_lived);
    append(5, short_lived);
    int64_t before = driver_objects().streams;
    OK(cu.cuStreamDestroy(short_lived));
    ck_assert_int_eq(driver_objects().streams, before - 1);
    BREAKS(INVALID_HANDLE, cuStreamQuery, "no such stream", short_lived);
    BREAKS(INVALID_HANDLE, cuStreamDestroy, "no such stream", short_lived);
    ck_assert_uint_eq(atomic_load(&nnoted), 0);
    release();
    OK(cu.cuCtxSynchronize());
    NOTED(5);
}

TEST(streams, streams_check_their_arguments)
{
    CUstream wrong;
    CUcontext ctx, current;
    GIVES(INVALID_VALUE, cu.cuStreamCreate(&wrong, 2));
    GIVES(INVALID_VALUE, cu.cuStreamCreate(NULL, 0));
    BREAKS(INVALID_HANDLE, cuStreamDestroy, "no such stream", NULL);
    BREAKS(INVALID_HANDLE, cuStreamQuery, "no such stream", (CUstream)event);
    OK(cu.cuCtxGetCurrent(&current));
    OK(cu.cuStreamGetCtx(stream, &ctx));
    ck_assert_ptr_eq(ctx, current);
    OK(cu.cuStreamGetCtx(NULL, &ctx));
    ck_assert_ptr_eq(ctx, current);
}

/* ---- Events ---- */

TEST(streams, events_order_streams)
{
    OK(cu.cuStreamWaitEvent(other, event, 0)); /* never recorded: no wait */
    OK(cu.cuEventQuery(event));
    OK(cu.cuEventSynchronize(event));
    hold(stream);
    append(1, stream);
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuStreamWaitEvent(other, event, 0));
    append(2, other);
    GIVES(NOT_READY, cu.cuEventQuery(event));
    GIVES(NOT_READY, cu.cuStreamQuery(other));
    /* A later record does not change what `other` waits for. */
    OK(cu.cuEventRecord(event, stream));
    release();
    OK(cu.cuStreamSynchronize(other));
    NOTED(1, 2);
    OK(cu.cuEventSynchronize(event));
    OK(cu.cuEventQuery(event));
}

TEST(streams, events_measure_time)
{
    CUevent end, untimed;
    float ms = -1;
    OK(cu.cuEventCreate(&end, CU_EVENT_DEFAULT));
    OK(cu.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    BREAKS(INVALID_HANDLE, cuEventElapsedTime, "never recorded", &ms, event, end);
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuStreamSynchronize(stream));
    hold(stream);
    OK(cu.cuEventRecord(end, stream));
    OK(cu.cuEventRecord(untimed, stream));
    GIVES(NOT_READY, cu.cuEventElapsedTime(&ms, event, end));
    usleep(20000);
    release();
    OK(cu.cuEventSynchronize(end));
    OK(cu.cuEventElapsedTime(&ms, event, end));
    ck_assert(ms >= 20 && ms < 20000);
    BREAKS(INVALID_HANDLE, cuEventElapsedTime, "without timing", &ms, event, untimed);
    OK(cu.cuEventDestroy(end));
    OK(cu.cuEventDestroy(untimed));
}

TEST(streams, a_recorded_event_may_be_destroyed)
{
    CUevent gone;
    OK(cu.cuEventCreate(&gone, 0));
    hold(stream);
    OK(cu.cuEventRecord(gone, stream));
    OK(cu.cuStreamWaitEvent(other, gone, 0));
    OK(cu.cuEventDestroy(gone));
    append(1, other);
    BREAKS(INVALID_HANDLE, cuEventQuery, "no such event", gone);
    GIVES(NOT_READY, cu.cuStreamQuery(other));
    release();
    OK(cu.cuStreamSynchronize(other));
    NOTED(1);
}

/* ---- Copies ---- */

TEST(streams, copies_between_all_kinds_of_memory)
{
    enum { N = 100000 };
    static unsigned char source[N], target[N];
    CUdeviceptr a = device_memory(N), b = device_memory(N);
    void *pinned;
    OK(cu.cuMemHostAlloc(&pinned, N, CU_MEMHOSTALLOC_PORTABLE));
    for (int i = 0; i < N; i++)
        source[i] = (unsigned char)(i * 7 + i / 256);
    OK(cu.cuMemcpyAsync(a, address(source), N, stream));
    OK(cu.cuMemcpyAsync(b, a, N, stream));
    OK(cu.cuMemcpyAsync(address(pinned), b, N, stream));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_mem_eq(pinned, source, N);
    OK(cu.cuMemcpyAsync(address(target), address(pinned), N, stream)); /* waits */
    ck_assert_mem_eq(target, source, N);
    OK(cu.cuMemsetD8Async(b + 1, 0x5a, 10, stream));
    OK(cu.cuMemsetD32Async(b + 16, 0x01020304, 3, stream));
    OK(cu.cuMemcpyAsync(address(target), b, 64, stream));
    ck_assert_uint_eq(target[0], source[0]);
    ck_assert_uint_eq(target[1], 0x5a);
    ck_assert_uint_eq(target[10], 0x5a);
    ck_assert_uint_eq(target[11], source[11]);
    ck_assert_uint_eq(target[16], 4);
    ck_assert_uint_eq(target[27], 1);
    ck_assert_uint_eq(target[28], source[28]);
    OK(cu.cuMemcpyAsync(address(target), b, 0, stream));
    OK(cu.cuMemFreeHost(pinned));
    OK(cu.cuMemFree(a));
    OK(cu.cuMemFree(b));
}

/* Rows and then a word, repeatedly. A reader of the word must find all rows before it. */
enum { FOLLOWING = 400, ROW_WORDS = 600 };

struct following {
    uint32_t rows[FOLLOWING][ROW_WORDS];
    uint64_t words[FOLLOWING]; /* all are copied to the address of the first, one after the other */
};

static void enqueue_following(struct following *to, const struct following *from, size_t width)
{
    hold(stream);
    for (int i = 0; i < FOLLOWING; i++) {
        OK(cu.cuMemcpyAsync(address(to->rows[i]), address(from->rows[i]), sizeof to->rows[i],
                            stream));
        OK(cu.cuMemcpyAsync(address(to->words), address(&from->words[i]), width, stream));
    }
    release();
}

static void look_at_following(const struct following *to, size_t width)
{
    for (uint64_t seen = 0, word; seen < FOLLOWING; seen = word) {
        word = width == 8 ? __atomic_load_n(to->words, __ATOMIC_ACQUIRE)
                          : __atomic_load_n((const uint32_t *)to->words, __ATOMIC_ACQUIRE);
        ck_assert_uint_le(word, FOLLOWING);
        for (uint64_t i = seen; i < word; i++)
            for (int j = 0; j < ROW_WORDS; j++)
                ck_assert_uint_eq(to->rows[i][j], i + 1);
    }
}

TEST_GROUP(words, 60);

TEST_LOOP(words, a_word_comes_after_the_copies_before_it, 0, 4)
{
    const size_t width = _i % 2 ? 4 : 8;
    void *from, *to;

    if (TEST_TSAN && _i / 2)
        TEST_SKIP("builds with ThreadSanitizer have no weakly ordered memory");
    setenv("SYMM_EMULATED_WEAK", _i / 2 ? "1" : "0", 1);
    open_driver();
    OK(cu.cuMemHostAlloc(&from, sizeof(struct following), CU_MEMHOSTALLOC_PORTABLE));
    OK(cu.cuMemHostAlloc(&to, sizeof(struct following), CU_MEMHOSTALLOC_PORTABLE));
    memset(to, 0, sizeof(struct following));
    for (uint32_t i = 0; i < FOLLOWING; i++) {
        ((struct following *)from)->words[i] = i + 1;
        for (int j = 0; j < ROW_WORDS; j++)
            ((struct following *)from)->rows[i][j] = i + 1;
    }
    enqueue_following(to, from, width);
    look_at_following(to, width);
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemFreeHost(from));
    OK(cu.cuMemFreeHost(to));
    close_driver();
}

TEST(streams, pageable_sources_are_staged)
{
    uint32_t source = 1, target = 0;
    CUdeviceptr a = device_memory(4);
    hold(stream);
    OK(cu.cuMemcpyAsync(a, address(&source), 4, stream));
    source = 2; /* after the call has read it */
    release();
    OK(cu.cuMemcpyAsync(address(&target), a, 4, stream));
    ck_assert_uint_eq(target, 1);
    OK(cu.cuMemFree(a));
}

TEST(streams, copies_are_checked)
{
    char host[16] = {0};
    CUdeviceptr a = device_memory(64);
    WRONG(cuMemsetD32Async, "multiple of 4", a + 2, 0, 1, stream);
    WRONG(cuMemsetD8Async, "not device memory", address(host), 0, 1, stream);
    /* Sources that cannot be read are refused before they are staged. */
    WRONG(cuMemcpyAsync, "outside of the allocation", a, a + 256, 16, stream);
    WRONG(cuMemcpyAsync, "end of the address space", address(host), a, SIZE_MAX, stream);
    CUdeviceptr freed = device_memory(64);
    OK(cu.cuMemFree(freed));
    WRONG(cuMemcpyAsync, "freed, or never memory", a, freed, 16, stream);
    WRONG(cuMemcpyAsync, "freed, or never memory", freed, address(host), 16, stream);
    CUmemGenericAllocationHandle handle = memory_create(DEVICE, GRANULE);
    CUdeviceptr mapped = memory_reserve(GRANULE);
    WRONG(cuMemcpyAsync, "nothing is mapped", mapped, a, 16, stream);
    OK(cu.cuMemMap(mapped, GRANULE, 0, handle, 0));
    WRONG(cuMemcpyAsync, "no access", mapped, a, 16, stream);
    memory_access(mapped, GRANULE, DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READ);
    WRONG(cuMemcpyAsync, "may only read", mapped, a, 16, stream);
    OK(cu.cuMemcpyAsync(a, mapped, 16, stream));
    WRONG(cuMemcpyAsync, "runs over the end", a, mapped + GRANULE - 8, 16, stream);
    OK(cu.cuStreamSynchronize(stream));
    memory_unmap(mapped, GRANULE);
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemFree(a));
}

/* Copies two lines of nbytes. */
static CUDA_MEMCPY2D lines(CUdeviceptr to, CUdeviceptr from, size_t width)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                           .srcDevice = from,
                           .srcPitch = 16,
                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                           .dstDevice = to,
                           .dstPitch = 12,
                           .WidthInBytes = width,
                           .Height = 2};
}

TEST(streams, lines_are_copied_and_checked)
{
    const uint32_t source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint32_t target[8] = {0};
    CUdeviceptr a = device_memory(32), b = device_memory(32);
    CUDA_MEMCPY2D copy = lines(b, a + 4, 8);

    OK(cu.cuMemcpyAsync(a, address(source), sizeof source, stream));
    OK(cu.cuMemsetD8Async(b, 0, 32, stream));
    OK(cu.cuMemcpy2DAsync(&copy, stream));
    OK(cu.cuMemcpyAsync(address(target), b, sizeof target, stream));
    const uint32_t wanted[8] = {2, 3, 0, 6, 7};
    ck_assert_mem_eq(target, wanted, sizeof wanted);

    copy = lines(b, a, 13);
    WRONG(cuMemcpy2DAsync, "rows of 13 bytes", &copy, stream);
    copy = lines(b, a, 8);
    copy.dstXInBytes = 5;
    WRONG(cuMemcpy2DAsync, "to x = 5, with pitches 16 and 12", &copy, stream);
    copy = lines(b, a, 8);
    copy.srcXInBytes = 9;
    WRONG(cuMemcpy2DAsync, "from x = 9 to x = 0", &copy, stream);
    copy = lines(b, a, 8);
    copy.Height = 1;
    copy.srcPitch = 1u << 31;
    WRONG(cuMemcpy2DAsync, "pitches 2147483648", &copy, stream);
    copy.srcPitch--;
    OK(cu.cuMemcpy2DAsync(&copy, stream));
    copy = lines(b, a, 8);
    copy.srcMemoryType = 1; /* the host's */
    WRONG(cuMemcpy2DAsync, "from device memory to device memory only", &copy, stream);
    copy = lines(b + 24, a, 8); /* the second line ends beyond the allocation */
    WRONG(cuMemcpy2DAsync, "outside of the allocation", &copy, stream);
    copy = lines(b, a + 12, 12);
    WRONG(cuMemcpy2DAsync, "outside of the allocation", &copy, stream);
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemFree(a));
    OK(cu.cuMemFree(b));
}

/* Columns of a matrix may be copied to its other columns. */
TEST(streams, sources_do_not_overlap_their_targets)
{
    CUdeviceptr a = device_memory(64);
    CUDA_MEMCPY2D copy = lines(a + 8, a, 8);

    OK(cu.cuMemcpyAsync(a, a + 16, 16, stream));
    WRONG(cuMemcpyAsync, "overlap", a, a + 15, 16, stream);
    WRONG(cuMemcpyAsync, "overlap", a + 15, a, 16, stream);
    WRONG(cuMemcpyAsync, "overlap", a, a, 16, stream);
    copy.dstPitch = copy.srcPitch;
    OK(cu.cuMemcpy2DAsync(&copy, stream));
    copy.dstPitch--;
    WRONG(cuMemcpy2DAsync, "2 rows of 8 bytes", &copy, stream);
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuMemFree(a));
}

/* ---- Memory that goes ---- */

static atomic_int released;

static void *release_soon(void *arg)
{
    (void)arg;
    usleep(50000);
    atomic_store(&released, 1);
    release();
    return NULL;
}

TEST_LOOP(streams, free_and_unmap_wait_for_the_device, 0, 2)
{
    CUmemGenericAllocationHandle handle = memory_create(DEVICE, GRANULE);
    CUdeviceptr allocated = device_memory(64), mapped = memory_map(handle, GRANULE, DEVICE);
    pthread_t thread;
    hold(stream);
    ck_assert_int_eq(pthread_create(&thread, NULL, release_soon, NULL), 0);
    if (_i)
        OK(cu.cuMemFree(allocated));
    else
        OK(cu.cuMemUnmap(mapped, GRANULE));
    ck_assert_int_eq(atomic_load(&released), 1);
    pthread_join(thread, NULL);
    if (_i)
        OK(cu.cuMemUnmap(mapped, GRANULE));
    else
        OK(cu.cuMemFree(allocated));
    OK(cu.cuMemAddressFree(mapped, GRANULE));
    OK(cu.cuMemRelease(handle));
}

/* ---- Load ---- */

static void *many(void *arg)
{
    int device = *(int *)arg;
    CUcontext ctx;
    CUstream mine[4];
    CUevent events[4];
    CUmodule module;
    CUfunction function;
    static atomic_uint counters[8];
    static uint32_t outs[8][4096];
    struct hand_args args = hand_args();
    args.started = &counters[device];
    args.out = outs[device];
    bool ok = cu.cuDevicePrimaryCtxRetain(&ctx, device) == 0 && cu.cuCtxSetCurrent(ctx) == 0 &&
              cu.cuModuleLoadData(&module, &hand_module) == 0 &&
              cu.cuModuleGetFunction(&function, module, "append") == 0;
    for (int i = 0; i < 4 && ok; i++)
        ok = cu.cuStreamCreate(&mine[i], i % 2 ? CU_STREAM_NON_BLOCKING : 0) == 0 &&
             cu.cuEventCreate(&events[i], 0) == 0;
    for (unsigned i = 0; i < 1000 && ok; i++) {
        CUstream on = i % 7 == 0 ? NULL : mine[i % 4];
        args.stay = i % 2;
        ok = hand_launch(function, 1, 1, &args, on) == 0 &&
             cu.cuEventRecord(events[i % 4], on) == 0 &&
             cu.cuStreamWaitEvent(mine[(i + 1) % 4], events[i % 4], 0) == 0;
    }
    ok = ok && cu.cuCtxSynchronize() == 0 && atomic_load(&counters[device]) == 1000;
    for (int i = 0; i < 4 && ok; i++)
        ok = cu.cuStreamDestroy(mine[i]) == 0 && cu.cuEventDestroy(events[i]) == 0;
    ok = ok && cu.cuModuleUnload(module) == 0 && cu.cuCtxSetCurrent(NULL) == 0 &&
         cu.cuDevicePrimaryCtxRelease(device) == 0;
    return ok ? arg : NULL;
}

TEST(streams, devices_run_concurrently)
{
    pthread_t threads[3];
    int devices[3] = {0, 1, 4};
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, many, &devices[i]), 0);
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(threads[i], &result);
        ck_assert_ptr_eq(result, &devices[i]);
    }
}

static void exit_while_spinning(int socket)
{
    (void)socket;
    setenv("SYMM_EMULATED_LEAKS", "off", 1);
    hand_open(DEVICE);
    struct hand_args args = hand_args();
    OK(hand_launch(hand_function("spin"), 4, 64, &args, NULL));
    hand_wait_for(&started, 4);
}

TEST_GROUP(processes, 60);

TEST(processes, a_process_may_end_while_kernels_spin)
{
    struct peer peer = peer_start(exit_while_spinning);
    PEER_OK(&peer);
}
