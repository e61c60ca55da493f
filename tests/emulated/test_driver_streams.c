/*
 * Streams, events, copies, captures and graphs of the emulated driver: their order, and for each
 * rule a call that breaks it.
 */
#include "driver_table.h"
#include "hand_kernels.h"

#include <pthread.h>
#include <time.h>

#define RANK "2"
#define DEVICE 2

static CUstream stream, other, blocking, blocking2;
static CUevent event;

static void open_driver(void)
{
    hand_open(DEVICE);
    OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cu.cuStreamCreate(&blocking2, CU_STREAM_DEFAULT));
    OK(cu.cuEventCreate(&event, CU_EVENT_DEFAULT));
}

static void close_driver(void)
{
    OK(cu.cuEventDestroy(event));
    OK(cu.cuStreamDestroy(stream));
    OK(cu.cuStreamDestroy(other));
    OK(cu.cuStreamDestroy(blocking));
    OK(cu.cuStreamDestroy(blocking2));
    hand_close(DEVICE);
}

/* Keeps the stream busy until release(). */
static void spin(CUstream on)
{
    struct hand_args args = hand_args();
    OK(hand_launch(hand_function("spin"), 1, 1, &args, on));
}

/* The same, from now on. */
static void hold(CUstream on)
{
    unsigned before = atomic_load(&started);
    spin(on);
    hand_wait_for(&started, before + 1);
}

static void release(void)
{
    atomic_store(&go, 1);
}

/* What append() leaves behind, in its order. */
static uint32_t noted[1024];
static atomic_uint nnoted;

static void append(uint32_t value, CUstream on)
{
    struct hand_args args = hand_args();
    args.out = noted;
    args.started = &nnoted;
    args.value = value;
    args.stay = value % 3;
    OK(hand_launch(hand_function("append"), 1, 1, &args, on));
}

static void noted_are(const uint32_t *values, unsigned n)
{
    ck_assert_uint_eq(atomic_load(&nnoted), n);
    for (unsigned i = 0; i < n; i++)
        ck_assert_uint_eq(noted[i], values[i]);
    atomic_store(&nnoted, 0);
}
#define NOTED(...)                                                                                 \
    noted_are((const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / 4)

/* ---- Streams ---- */

START_TEST(streams_are_asynchronous_and_in_order)
{
    hold(stream);
    for (uint32_t i = 0; i < 50; i++)
        append(i, stream);
    append(100, other); /* overtakes */
    OK(cu.cuStreamSynchronize(other));
    NOTED(100);
    ck_assert_int_eq(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    release();
    OK(cu.cuStreamSynchronize(stream));
    OK(cu.cuStreamQuery(stream));
    ck_assert_uint_eq(atomic_load(&nnoted), 50);
    for (uint32_t i = 0; i < 50; i++)
        ck_assert_uint_eq(noted[i], i);
}
END_TEST

START_TEST(the_legacy_stream_waits_for_blocking_streams)
{
    hold(blocking);
    append(1, NULL);
    append(2, blocking2); /* after the legacy stream's work, so behind `blocking` too */
    append(3, stream);    /* exempt */
    OK(cu.cuStreamSynchronize(stream));
    NOTED(3);
    ck_assert_int_eq(cu.cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    ck_assert_int_eq(cu.cuStreamQuery(blocking2), CUDA_ERROR_NOT_READY);
    release();
    OK(cu.cuStreamSynchronize(blocking2));
    NOTED(1, 2);
    OK(cu.cuStreamSynchronize(NULL));
    OK(cu.cuStreamQuery(NULL));
}
END_TEST

START_TEST(a_destroyed_stream_finishes)
{
    CUstream short_lived;
    OK(cu.cuStreamCreate(&short_lived, CU_STREAM_NON_BLOCKING));
    hold(short_lived);
    append(5, short_lived);
    int64_t before = driver_objects().streams;
    OK(cu.cuStreamDestroy(short_lived));
    ck_assert_int_eq(driver_objects().streams, before - 1);
    BREAKS(RANK, CUDA_ERROR_INVALID_HANDLE, cuStreamQuery, "no such stream", short_lived);
    BREAKS(RANK, CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy, "no such stream", short_lived);
    ck_assert_uint_eq(atomic_load(&nnoted), 0);
    release();
    OK(cu.cuCtxSynchronize());
    NOTED(5);
}
END_TEST

START_TEST(streams_check_their_arguments)
{
    CUstream wrong;
    CUcontext ctx, current;
    ck_assert_int_eq(cu.cuStreamCreate(&wrong, 2), CUDA_ERROR_INVALID_VALUE);
    ck_assert_int_eq(cu.cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    BREAKS(RANK, CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy, "no such stream", NULL);
    BREAKS(RANK, CUDA_ERROR_INVALID_HANDLE, cuStreamQuery, "no such stream", (CUstream)event);
    OK(cu.cuCtxGetCurrent(&current));
    OK(cu.cuStreamGetCtx(stream, &ctx));
    ck_assert_ptr_eq(ctx, current);
    OK(cu.cuStreamGetCtx(NULL, &ctx));
    ck_assert_ptr_eq(ctx, current);
}
END_TEST

/* ---- Events ---- */

START_TEST(events_order_streams)
{
    OK(cu.cuStreamWaitEvent(other, event, 0)); /* never recorded: no wait */
    OK(cu.cuEventQuery(event));
    OK(cu.cuEventSynchronize(event));
    hold(stream);
    append(1, stream);
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuStreamWaitEvent(other, event, 0));
    append(2, other);
    ck_assert_int_eq(cu.cuEventQuery(event), CUDA_ERROR_NOT_READY);
    ck_assert_int_eq(cu.cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    /* A later record does not change what `other` waits for. */
    OK(cu.cuEventRecord(event, stream));
    release();
    OK(cu.cuStreamSynchronize(other));
    NOTED(1, 2);
    OK(cu.cuEventSynchronize(event));
    OK(cu.cuEventQuery(event));
}
END_TEST

START_TEST(events_measure_time)
{
    CUevent end, untimed;
    float ms = -1;
    OK(cu.cuEventCreate(&end, CU_EVENT_DEFAULT));
    OK(cu.cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    BREAKS(RANK, CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, "never recorded", &ms, event, end);
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuStreamSynchronize(stream));
    hold(stream);
    OK(cu.cuEventRecord(end, stream));
    OK(cu.cuEventRecord(untimed, stream));
    ck_assert_int_eq(cu.cuEventElapsedTime(&ms, event, end), CUDA_ERROR_NOT_READY);
    usleep(20000);
    release();
    OK(cu.cuEventSynchronize(end));
    OK(cu.cuEventElapsedTime(&ms, event, end));
    ck_assert(ms >= 20 && ms < 20000);
    BREAKS(RANK, CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime, "without timing", &ms, event,
           untimed);
    OK(cu.cuEventDestroy(end));
    OK(cu.cuEventDestroy(untimed));
}
END_TEST

START_TEST(a_recorded_event_may_be_destroyed)
{
    CUevent gone;
    OK(cu.cuEventCreate(&gone, 0));
    hold(stream);
    OK(cu.cuEventRecord(gone, stream));
    OK(cu.cuStreamWaitEvent(other, gone, 0));
    OK(cu.cuEventDestroy(gone));
    append(1, other);
    BREAKS(RANK, CUDA_ERROR_INVALID_HANDLE, cuEventQuery, "no such event", gone);
    ck_assert_int_eq(cu.cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    release();
    OK(cu.cuStreamSynchronize(other));
    NOTED(1);
}
END_TEST

/* ---- Copies ---- */

static CUdeviceptr device_memory(size_t nbytes)
{
    CUdeviceptr ptr;
    OK(cu.cuMemAlloc(&ptr, nbytes));
    return ptr;
}

static CUdeviceptr address(const void *ptr)
{
    return (CUdeviceptr)(uintptr_t)ptr;
}

START_TEST(copies_go_every_way)
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
END_TEST

/* Rows, then a word, again and again; who sees a word finds all rows before it. */
enum { FOLLOWING = 400, ROW_WORDS = 600 };

struct following {
    uint32_t rows[FOLLOWING][ROW_WORDS];
    uint64_t words[FOLLOWING]; /* all come to the place of the first, one after the other */
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

START_TEST(a_word_comes_after_what_was_copied_before)
{
    const size_t width = _i % 2 ? 4 : 8;
    void *from, *to;

    if (TEST_TSAN && _i / 2)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
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
END_TEST

START_TEST(pageable_sources_are_staged)
{
    uint32_t source = 1, target = 0;
    CUdeviceptr a = device_memory(4);
    hold(stream);
    OK(cu.cuMemcpyAsync(a, address(&source), 4, stream));
    source = 2; /* the call has read it */
    release();
    OK(cu.cuMemcpyAsync(address(&target), a, 4, stream));
    ck_assert_uint_eq(target, 1);
    OK(cu.cuMemFree(a));
}
END_TEST

START_TEST(copies_are_checked)
{
    char host[16] = {0};
    CUdeviceptr a = device_memory(64);
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuMemsetD32Async, "multiple of 4", a + 2, 0, 1, stream);
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async, "not device memory", address(host), 0,
           1, stream);
    /* Sources that cannot be read are refused before they are staged. */
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync, "outside of the allocation", a, a + 256,
           16, stream);
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync, "end of the address space", address(host),
           a, SIZE_MAX, stream);
    CUmemGenericAllocationHandle handle = memory_create(DEVICE, GRANULE);
    CUdeviceptr mapped = memory_reserve(GRANULE);
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync, "nothing is mapped", mapped, a, 16,
           stream);
    OK(cu.cuMemMap(mapped, GRANULE, 0, handle, 0));
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync, "no access", mapped, a, 16, stream);
    memory_access(mapped, GRANULE, DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READ);
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync, "may only read", mapped, a, 16, stream);
    OK(cu.cuMemcpyAsync(a, mapped, 16, stream));
    BREAKS(RANK, CUDA_ERROR_INVALID_VALUE, cuMemcpyAsync, "runs over the end", a,
           mapped + GRANULE - 8, 16, stream);
    OK(cu.cuStreamSynchronize(stream));
    memory_unmap(mapped, GRANULE);
    OK(cu.cuMemRelease(handle));
    OK(cu.cuMemFree(a));
}
END_TEST

/* ---- Captures and graphs ---- */

static CUgraphExec instantiate(CUgraph graph)
{
    CUgraphExec exec;
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphDestroy(graph));
    return exec;
}

static CUgraphExec end(CUstream on)
{
    CUgraph graph;
    OK(cu.cuStreamEndCapture(on, &graph));
    return instantiate(graph);
}

START_TEST(graphs_replay_in_order)
{
    int status;
    uint32_t target = 0;
    CUdeviceptr a = device_memory(4);
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuStreamIsCapturing(stream, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    for (uint32_t i = 0; i < 5; i++)
        append(i, stream);
    OK(cu.cuMemsetD32Async(a, 77, 1, stream));
    append(9, stream);
    CUgraphExec exec = end(stream);
    OK(cu.cuStreamIsCapturing(stream, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(atomic_load(&nnoted), 0); /* recorded, not run */
    hold(other);
    append(50, other);
    OK(cu.cuGraphLaunch(exec, other));
    OK(cu.cuGraphLaunch(exec, other)); /* while the first is pending */
    append(51, other);
    OK(cu.cuGraphExecDestroy(exec)); /* while both are */
    BREAKS(RANK, CUDA_ERROR_INVALID_HANDLE, cuGraphLaunch, "no such executable graph", exec, other);
    release();
    OK(cu.cuStreamSynchronize(other));
    NOTED(50, 0, 1, 2, 3, 4, 9, 0, 1, 2, 3, 4, 9, 51);
    OK(cu.cuMemcpyAsync(address(&target), a, 4, stream));
    ck_assert_uint_eq(target, 77);
    OK(cu.cuMemFree(a));
    ck_assert_int_eq(driver_objects().graphs, 0);
    ck_assert_int_eq(driver_objects().graph_execs, 0);
}
END_TEST

START_TEST(launches_of_one_graph_are_ordered_across_streams)
{
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    append(1, stream);
    CUgraphExec exec = end(stream);
    hold(stream);
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuGraphLaunch(exec, other));
    usleep(20000);
    ck_assert_int_eq(cu.cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    release();
    OK(cu.cuCtxSynchronize());
    NOTED(1, 1);
    OK(cu.cuGraphExecDestroy(exec));
}
END_TEST

START_TEST(captures_fork_and_join)
{
    CUevent back;
    int status;
    OK(cu.cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    append(1, stream);
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuStreamWaitEvent(other, event, 0));
    OK(cu.cuStreamIsCapturing(other, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    append(2, other);
    OK(cu.cuEventRecord(back, other));
    append(2, stream);
    OK(cu.cuStreamWaitEvent(stream, back, 0));
    append(4, stream);
    CUgraphExec exec = end(stream);
    OK(cu.cuStreamIsCapturing(other, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    NOTED(1, 2, 2, 4);
    BREAKS(RANK, CUDA_ERROR_CAPTURED_EVENT, cuStreamWaitEvent, "in a capture", other, event, 0);
    OK(cu.cuEventRecord(event, stream)); /* an event like any other again */
    OK(cu.cuEventSynchronize(event));
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuEventDestroy(back));
}
END_TEST

/* Either branch stands still while the other one goes on. */
START_TEST(branches_of_a_graph_run_side_by_side)
{
    CUevent back;
    OK(cu.cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++) {
        OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        append(1, stream);
        OK(cu.cuEventRecord(event, stream));
        OK(cu.cuStreamWaitEvent(other, event, 0));
        spin(i ? stream : other);
        append(2, i ? other : stream);
        OK(cu.cuEventRecord(back, other));
        OK(cu.cuStreamWaitEvent(stream, back, 0));
        append(3, stream);
        CUgraphExec exec = end(stream);
        for (int k = 0; k < 3; k++) {
            atomic_store(&go, 0);
            OK(cu.cuGraphLaunch(exec, stream));
            while (atomic_load(&nnoted) < 2)
                usleep(1000); /* the one branch stands still */
            ck_assert_int_eq(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
            release();
            OK(cu.cuStreamSynchronize(stream));
            NOTED(1, 2, 3);
        }
        OK(cu.cuGraphExecDestroy(exec));
    }
    OK(cu.cuEventDestroy(back));
}
END_TEST

START_TEST(forks_must_be_joined)
{
    CUgraph graph;
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuStreamWaitEvent(other, event, 0));
    append(2, other);
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture, "not joined", stream,
           &graph);
    ck_assert_ptr_null(graph);
    append(3, other); /* captures no more */
    OK(cu.cuStreamSynchronize(other));
    NOTED(3);
}
END_TEST

/* A capture that a call has made invalid ends as such. */
static void ends_invalid(CUstream on)
{
    int status;
    CUgraph graph;
    struct hand_args args = hand_args();
    OK(cu.cuStreamIsCapturing(on, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    ck_assert_int_eq(hand_launch(hand_function("append"), 1, 1, &args, on),
                     CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ck_assert_int_eq(cu.cuStreamEndCapture(on, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ck_assert_ptr_null(graph);
    OK(cu.cuStreamSynchronize(on));
}

static void begin(void)
{
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

START_TEST(capturing_streams_cannot_be_looked_at)
{
    begin();
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize, "captures", stream);
    ends_invalid(stream);
    begin();
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery, "captures", stream);
    ends_invalid(stream);
    begin();
    ck_assert_int_eq(cu.cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(cu.last_rule(), "cuCtxSynchronize: rule: waits for a device"));
    ends_invalid(stream);
    begin();
    OK(cu.cuEventRecord(event, stream));
    BREAKS(RANK, CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize, "in a capture", event);
    ends_invalid(stream);
    BREAKS(RANK, CUDA_ERROR_CAPTURED_EVENT, cuEventQuery, "in a capture", event);
}
END_TEST

START_TEST(captures_are_isolated)
{
    CUevent inside;
    CUgraph graph;
    OK(cu.cuEventCreate(&inside, 0));
    OK(cu.cuEventRecord(event, other));
    begin();
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent, "outside of it", stream,
           event, 0);
    ends_invalid(stream);
    begin();
    OK(cu.cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuEventRecord(inside, other));
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent, "joins two", stream, inside,
           0);
    ends_invalid(stream);
    ends_invalid(other);
    begin();
    OK(cu.cuEventRecord(inside, stream));
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphDestroy(graph));
    begin();
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent, "earlier one", stream,
           inside, 0);
    ends_invalid(stream);
    OK(cu.cuEventDestroy(inside));
}
END_TEST

START_TEST(the_legacy_stream_and_captures)
{
    int status;
    CUgraph graph;
    struct hand_args args = hand_args();
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture, "legacy", NULL,
           CU_STREAM_CAPTURE_MODE_GLOBAL);
    begin(); /* non-blocking: no business of the legacy stream */
    append(1, NULL);
    OK(cu.cuStreamSynchronize(NULL));
    OK(cu.cuStreamIsCapturing(NULL, &status));
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(cu.cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    OK(cu.cuStreamIsCapturing(blocking, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE); /* asking does no harm */
    ck_assert_int_eq(hand_launch(hand_function("append"), 1, 1, &args, NULL),
                     CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    ends_invalid(blocking);
    OK(cu.cuStreamIsCapturing(NULL, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
}
END_TEST

static CUstream capturing;

static void *end_elsewhere(void *result)
{
    CUgraph graph;
    *(CUresult *)result = cu.cuStreamEndCapture(capturing, &graph);
    return NULL;
}

static CUresult end_on_another_thread(CUstream on)
{
    pthread_t thread;
    CUresult result;
    capturing = on;
    ck_assert_int_eq(pthread_create(&thread, NULL, end_elsewhere, &result), 0);
    pthread_join(thread, NULL);
    return result;
}

START_TEST(captures_end_where_they_began)
{
    CUgraph graph;
    BREAKS(RANK, CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture, "does not capture", stream, &graph);
    begin();
    BREAKS(RANK, CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture, "captures already", stream,
           CU_STREAM_CAPTURE_MODE_GLOBAL);
    ck_assert_int_eq(end_on_another_thread(stream), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuStreamWaitEvent(other, event, 0));
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture, "another stream", other,
           &graph);
    ends_invalid(stream);
    ck_assert_int_eq(cu.cuStreamBeginCapture(stream, 3), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static void *allocate(void *arg)
{
    CUdeviceptr ptr;
    CUcontext ctx;
    CUresult *result = arg;
    OK(cu.cuStreamGetCtx(stream, &ctx));
    OK(cu.cuCtxSetCurrent(ctx));
    *result = cu.cuMemAlloc(&ptr, 64);
    if (*result == CUDA_SUCCESS)
        OK(cu.cuMemFree(ptr));
    return NULL;
}

static CUresult allocate_on_another_thread(void)
{
    pthread_t thread;
    CUresult result;
    ck_assert_int_eq(pthread_create(&thread, NULL, allocate, &result), 0);
    pthread_join(thread, NULL);
    return result;
}

START_TEST(unsafe_calls_during_captures)
{
    CUdeviceptr ptr;
    CUmodule module;
    CUgraph graph;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    begin();
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc, "during a capture", &ptr, 64);
    ends_invalid(stream);
    begin();
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuModuleLoadData, "during a capture",
           &module, &hand_module);
    ends_invalid(stream);
    begin();
    ck_assert_int_eq(allocate_on_another_thread(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ends_invalid(stream);

    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(allocate_on_another_thread());
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc, "during a capture", &ptr, 64);
    ends_invalid(stream);

    begin();
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.cuMemAlloc(&ptr, 64));
    OK(cu.cuMemFree(ptr));
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphDestroy(graph));
    BREAKS(RANK, CUDA_ERROR_INVALID_HANDLE, cuGraphDestroy, "no such graph", graph);
}
END_TEST

START_TEST(a_capturing_stream_may_be_destroyed)
{
    CUstream short_lived;
    CUdeviceptr ptr;
    OK(cu.cuStreamCreate(&short_lived, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamBeginCapture(short_lived, CU_STREAM_CAPTURE_MODE_GLOBAL));
    append(1, short_lived);
    OK(cu.cuStreamDestroy(short_lived));
    OK(cu.cuMemAlloc(&ptr, 64)); /* the capture has ended */
    OK(cu.cuMemFree(ptr));
}
END_TEST

/* Ends without the leak report: the stream has gone with its context. */
static void end_a_context_that_captures(int socket)
{
    CUstream short_lived, forked;
    CUcontext kept;
    (void)socket;
    hand_open(DEVICE);
    OK(cu.cuDevicePrimaryCtxRetain(&kept, 0));
    OK(cu.cuStreamCreate(&short_lived, CU_STREAM_NON_BLOCKING));
    OK(cu.cuStreamCreate(&forked, CU_STREAM_NON_BLOCKING));
    OK(cu.cuEventCreate(&event, 0));
    OK(cu.cuStreamBeginCapture(short_lived, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuEventRecord(event, short_lived));
    OK(cu.cuStreamWaitEvent(forked, event, 0));
    OK(cu.cuDevicePrimaryCtxRelease(DEVICE));
    OK(cu.cuCtxSetCurrent(kept));
    BREAKS("0", CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy, "no such stream", forked);
    CUdeviceptr ptr;
    OK(cu.cuMemAlloc(&ptr, 64)); /* the capture has ended */
    BREAKS("0", CUDA_ERROR_CAPTURED_EVENT, cuEventSynchronize, "in a capture", event);
    OK(cu.cuEventDestroy(event));
    _exit(0);
}

START_TEST(a_context_that_captures_may_end)
{
    struct peer peer = peer_start(end_a_context_that_captures);
    PEER_OK(&peer);
}
END_TEST

START_TEST(replay_after_the_module_is_gone)
{
    CUmodule module;
    CUfunction function;
    struct hand_args args = hand_args();
    args.out = noted;
    OK(cu.cuModuleLoadData(&module, &hand_module));
    OK(cu.cuModuleGetFunction(&function, module, "append"));
    begin();
    OK(hand_launch(function, 1, 1, &args, stream));
    CUgraphExec exec = end(stream);
    OK(cu.cuModuleUnload(module));
    OK(cu.cuGraphLaunch(exec, stream));
    ck_assert_int_eq(cu.cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_ptr_nonnull(strstr(cu.last_rule(), "append: rule: a graph runs a kernel whose"));
    cu.cuGraphExecDestroy(exec);
    cu.cuEventDestroy(event);
    cu.cuStreamDestroy(stream);
    cu.cuStreamDestroy(other);
    cu.cuStreamDestroy(blocking);
    cu.cuStreamDestroy(blocking2);
    cu.cuModuleUnload(hand_loaded);
    driver_close(DEVICE);
}
END_TEST

/* ---- Much of everything ---- */

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

START_TEST(devices_side_by_side)
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
END_TEST

static void exit_while_spinning(int socket)
{
    (void)socket;
    setenv("SYMM_EMULATED_LEAKS", "off", 1);
    hand_open(DEVICE);
    struct hand_args args = hand_args();
    OK(hand_launch(hand_function("spin"), 4, 64, &args, NULL));
    hand_wait_for(&started, 4);
}

START_TEST(a_process_may_end_while_kernels_spin)
{
    struct peer peer = peer_start(exit_while_spinning);
    PEER_OK(&peer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("emulated driver: streams");
    TCase *tc = test_case(suite, "streams", 60);
    tcase_add_checked_fixture(tc, open_driver, close_driver);
    tcase_add_test(tc, streams_are_asynchronous_and_in_order);
    tcase_add_test(tc, the_legacy_stream_waits_for_blocking_streams);
    tcase_add_test(tc, a_destroyed_stream_finishes);
    tcase_add_test(tc, streams_check_their_arguments);
    tcase_add_test(tc, events_order_streams);
    tcase_add_test(tc, events_measure_time);
    tcase_add_test(tc, a_recorded_event_may_be_destroyed);
    tcase_add_test(tc, copies_go_every_way);
    tcase_add_test(tc, pageable_sources_are_staged);
    tcase_add_test(tc, copies_are_checked);
    tcase_add_test(tc, graphs_replay_in_order);
    tcase_add_test(tc, launches_of_one_graph_are_ordered_across_streams);
    tcase_add_test(tc, captures_fork_and_join);
    tcase_add_test(tc, branches_of_a_graph_run_side_by_side);
    tcase_add_test(tc, forks_must_be_joined);
    tcase_add_test(tc, capturing_streams_cannot_be_looked_at);
    tcase_add_test(tc, captures_are_isolated);
    tcase_add_test(tc, the_legacy_stream_and_captures);
    tcase_add_test(tc, captures_end_where_they_began);
    tcase_add_test(tc, unsafe_calls_during_captures);
    tcase_add_test(tc, a_capturing_stream_may_be_destroyed);
    tcase_add_test(tc, devices_side_by_side);
    tc = test_case(suite, "faults", 60);
    tcase_add_checked_fixture(tc, open_driver, NULL);
    tcase_add_test(tc, replay_after_the_module_is_gone);
    tc = test_case(suite, "words", 60);
    tcase_add_loop_test(tc, a_word_comes_after_what_was_copied_before, 0, 4);
    tc = test_case(suite, "processes", 60);
    tcase_add_test(tc, a_context_that_captures_may_end);
    tcase_add_test(tc, a_process_may_end_while_kernels_spin);
    return test_main(suite);
}
