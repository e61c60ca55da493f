/*
 * Captures and graphs of the emulated driver: their order, and a call that breaks each rule.
 */
#include "hand_streams.h"

#include <pthread.h>

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

/* Ends a capture and drops its graph. */
static void end_unused(CUstream on)
{
    CUgraph graph;
    OK(cu.cuStreamEndCapture(on, &graph));
    OK(cu.cuGraphDestroy(graph));
}

static void capture_is(CUstream on, int want)
{
    int status;
    OK(cu.cuStreamIsCapturing(on, &status));
    ck_assert_int_eq(status, want);
}

/* Orders `to` after `from`. */
static void follow(CUstream from, CUstream to, CUevent by)
{
    OK(cu.cuEventRecord(by, from));
    OK(cu.cuStreamWaitEvent(to, by, 0));
}

TEST_GROUP(graphs, 60, .setup = open_driver, .teardown = close_driver);

TEST(graphs, graphs_replay_in_order)
{
    uint32_t target = 0;
    CUdeviceptr a = device_memory(4);
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    capture_is(stream, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    for (uint32_t i = 0; i < 5; i++)
        append(i, stream);
    OK(cu.cuMemsetD32Async(a, 77, 1, stream));
    append(9, stream);
    CUgraphExec exec = end(stream);
    capture_is(stream, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_uint_eq(atomic_load(&nnoted), 0); /* recorded, not run */
    hold(other);
    append(50, other);
    OK(cu.cuGraphLaunch(exec, other));
    OK(cu.cuGraphLaunch(exec, other)); /* while the first is pending */
    append(51, other);
    OK(cu.cuGraphExecDestroy(exec)); /* while both are */
    BREAKS(INVALID_HANDLE, cuGraphLaunch, "no such executable graph", exec, other);
    release();
    OK(cu.cuStreamSynchronize(other));
    NOTED(50, 0, 1, 2, 3, 4, 9, 0, 1, 2, 3, 4, 9, 51);
    OK(cu.cuMemcpyAsync(address(&target), a, 4, stream));
    ck_assert_uint_eq(target, 77);
    OK(cu.cuMemFree(a));
    ck_assert_int_eq(driver_objects().graphs, 0);
    ck_assert_int_eq(driver_objects().graph_execs, 0);
}

TEST(graphs, launches_of_one_graph_are_ordered_across_streams)
{
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    append(1, stream);
    CUgraphExec exec = end(stream);
    hold(stream);
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuGraphLaunch(exec, other));
    usleep(20000);
    GIVES(NOT_READY, cu.cuStreamQuery(other));
    release();
    OK(cu.cuCtxSynchronize());
    NOTED(1, 1);
    OK(cu.cuGraphExecDestroy(exec));
}

TEST(graphs, captures_fork_and_join)
{
    CUevent back;
    OK(cu.cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    append(1, stream);
    follow(stream, other, event);
    capture_is(other, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    int status;
    uint64_t id = 0, other_id = 1;
    OK(cu.cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, NULL));
    OK(cu.cuStreamGetCaptureInfo(other, &status, &other_id, NULL, NULL, NULL, NULL));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    ck_assert_uint_eq(id, other_id);
    ck_assert_uint_ne(id, 0);
    append(2, other);
    OK(cu.cuEventRecord(back, other));
    append(2, stream);
    OK(cu.cuStreamWaitEvent(stream, back, 0));
    append(4, stream);
    CUgraphExec exec = end(stream);
    capture_is(other, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cu.cuStreamGetCaptureInfo(other, &status, &id, NULL, NULL, NULL, NULL));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
    BREAKS(NOT_SUPPORTED, cuStreamGetCaptureInfo, "its status and id", other, &status, &id, NULL,
           NULL, NULL, (size_t[1]){0});
    OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuStreamSynchronize(stream));
    NOTED(1, 2, 2, 4);
    BREAKS(CAPTURED_EVENT, cuStreamWaitEvent, "in a capture", other, event, 0);
    OK(cu.cuEventRecord(event, stream)); /* an ordinary event again */
    OK(cu.cuEventSynchronize(event));
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuEventDestroy(back));
}

TEST(graphs, captures_have_their_own_ids)
{
    CUgraph graph;
    uint64_t ids[2] = {0};
    for (int i = 0, status; i < 2; i++) {
        OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        OK(cu.cuStreamGetCaptureInfo(stream, &status, &ids[i], NULL, NULL, NULL, NULL));
        OK(cu.cuStreamEndCapture(stream, &graph));
        OK(cu.cuGraphDestroy(graph));
    }
    ck_assert_uint_ne(ids[0], ids[1]);
}

/* Each branch can run while the other one waits. */
TEST(graphs, branches_of_a_graph_run_concurrently)
{
    CUevent back;
    OK(cu.cuEventCreate(&back, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++) {
        OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        append(1, stream);
        follow(stream, other, event);
        spin(i ? stream : other);
        append(2, i ? other : stream);
        follow(other, stream, back);
        append(3, stream);
        CUgraphExec exec = end(stream);
        for (int k = 0; k < 3; k++) {
            atomic_store(&go, 0);
            OK(cu.cuGraphLaunch(exec, stream));
            while (atomic_load(&nnoted) < 2)
                usleep(1000); /* one branch waits */
            GIVES(NOT_READY, cu.cuStreamQuery(stream));
            release();
            OK(cu.cuStreamSynchronize(stream));
            NOTED(1, 2, 3);
        }
        OK(cu.cuGraphExecDestroy(exec));
    }
    OK(cu.cuEventDestroy(back));
}

TEST(graphs, forks_must_be_joined)
{
    CUgraph graph;
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    follow(stream, other, event);
    append(2, other);
    BREAKS(STREAM_CAPTURE_UNJOINED, cuStreamEndCapture, "not joined", stream, &graph);
    ck_assert_ptr_null(graph);
    append(3, other); /* outside of the capture */
    OK(cu.cuStreamSynchronize(other));
    NOTED(3);
}

/* Ends a capture that a call has made invalid. */
static void ends_invalid(CUstream on)
{
    CUgraph graph;
    struct hand_args args = hand_args();
    capture_is(on, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    GIVES(STREAM_CAPTURE_INVALIDATED, hand_launch(hand_function("append"), 1, 1, &args, on));
    GIVES(STREAM_CAPTURE_INVALIDATED, cu.cuStreamEndCapture(on, &graph));
    ck_assert_ptr_null(graph);
    OK(cu.cuStreamSynchronize(on));
}

static void begin(void)
{
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
}

/* A call that breaks a rule during a capture makes it invalid. */
#define INVALIDATES(...)                                                                           \
    do {                                                                                           \
        begin();                                                                                   \
        BREAKS(__VA_ARGS__);                                                                       \
        ends_invalid(stream);                                                                      \
    } while (0)

TEST(graphs, capturing_streams_cannot_be_queried)
{
    INVALIDATES(STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize, "captures", stream);
    INVALIDATES(STREAM_CAPTURE_UNSUPPORTED, cuStreamQuery, "captures", stream);
    begin();
    GIVES(STREAM_CAPTURE_UNSUPPORTED, cu.cuCtxSynchronize());
    ck_assert_ptr_nonnull(strstr(cu.last_rule(), "cuCtxSynchronize: rule: waits for a device"));
    ends_invalid(stream);
    begin();
    OK(cu.cuEventRecord(event, stream));
    BREAKS(CAPTURED_EVENT, cuEventSynchronize, "in a capture", event);
    ends_invalid(stream);
    BREAKS(CAPTURED_EVENT, cuEventQuery, "in a capture", event);
}

TEST(graphs, captures_are_isolated)
{
    CUevent inside;
    OK(cu.cuEventCreate(&inside, 0));
    OK(cu.cuEventRecord(event, other));
    INVALIDATES(STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent, "outside of it", stream, event, 0);
    begin();
    OK(cu.cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuEventRecord(inside, other));
    BREAKS(STREAM_CAPTURE_MERGE, cuStreamWaitEvent, "joins two", stream, inside, 0);
    ends_invalid(stream);
    ends_invalid(other);
    begin();
    OK(cu.cuEventRecord(inside, stream));
    end_unused(stream);
    INVALIDATES(STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent, "earlier one", stream, inside, 0);
    OK(cu.cuEventDestroy(inside));
}

TEST(graphs, the_legacy_stream_and_captures)
{
    int status;
    struct hand_args args = hand_args();
    BREAKS(STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture, "legacy", NULL,
           CU_STREAM_CAPTURE_MODE_GLOBAL);
    begin(); /* a non-blocking stream does not concern the legacy stream */
    append(1, NULL);
    OK(cu.cuStreamSynchronize(NULL));
    OK(cu.cuStreamIsCapturing(NULL, &status));
    end_unused(stream);
    OK(cu.cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
    GIVES(STREAM_CAPTURE_IMPLICIT, cu.cuStreamIsCapturing(NULL, &status));
    /* The question leaves the capture valid. */
    capture_is(blocking, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    GIVES(STREAM_CAPTURE_IMPLICIT, hand_launch(hand_function("append"), 1, 1, &args, NULL));
    ends_invalid(blocking);
    capture_is(NULL, CU_STREAM_CAPTURE_STATUS_NONE);
}

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

TEST(graphs, captures_end_where_they_began)
{
    CUgraph graph;
    BREAKS(ILLEGAL_STATE, cuStreamEndCapture, "does not capture", stream, &graph);
    begin();
    BREAKS(ILLEGAL_STATE, cuStreamBeginCapture, "captures already", stream,
           CU_STREAM_CAPTURE_MODE_GLOBAL);
    GIVES(STREAM_CAPTURE_WRONG_THREAD, end_on_another_thread(stream));
    follow(stream, other, event);
    BREAKS(STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture, "another stream", other, &graph);
    ends_invalid(stream);
    GIVES(INVALID_VALUE, cu.cuStreamBeginCapture(stream, 3));
}

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

TEST(graphs, unsafe_calls_during_captures)
{
    CUdeviceptr ptr;
    CUmodule module;
    CUgraph graph;
    CUgraphExec exec;
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    INVALIDATES(STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc, "during a capture", &ptr, 64);
    INVALIDATES(STREAM_CAPTURE_UNSUPPORTED, cuModuleLoadData, "during a capture", &module,
                &hand_module);
    begin();
    GIVES(STREAM_CAPTURE_UNSUPPORTED, allocate_on_another_thread());
    ends_invalid(stream);
    begin();
    OK(cu.cuStreamEndCapture(stream, &graph));
    INVALIDATES(STREAM_CAPTURE_UNSUPPORTED, cuGraphInstantiateWithFlags, "during a capture", &exec,
                graph, 0);
    OK(cu.cuGraphDestroy(graph));

    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(allocate_on_another_thread());
    BREAKS(STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc, "during a capture", &ptr, 64);
    ends_invalid(stream);

    begin();
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu.cuMemAlloc(&ptr, 64));
    OK(cu.cuMemFree(ptr));
    OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
    ck_assert_int_eq(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    end_unused(stream);
    BREAKS(INVALID_HANDLE, cuGraphDestroy, "no such graph", graph);
}

TEST(graphs, a_capturing_stream_may_be_destroyed)
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

/* Ends without the leak report: the stream ended with its context. */
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
    follow(short_lived, forked, event);
    OK(cu.cuDevicePrimaryCtxRelease(DEVICE));
    OK(cu.cuCtxSetCurrent(kept));
    BREAKS_ON("0", INVALID_HANDLE, cuStreamDestroy, "no such stream", forked);
    CUdeviceptr ptr;
    OK(cu.cuMemAlloc(&ptr, 64)); /* the capture has ended */
    BREAKS_ON("0", CAPTURED_EVENT, cuEventSynchronize, "in a capture", event);
    OK(cu.cuEventDestroy(event));
    _exit(0);
}

TEST_GROUP(processes, 60);

TEST(processes, a_context_that_captures_may_end)
{
    struct peer peer = peer_start(end_a_context_that_captures);
    PEER_OK(&peer);
}

TEST_GROUP(faults, 60, .setup = open_driver);

TEST(faults, replay_after_the_module_is_gone)
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
    GIVES(ILLEGAL_ADDRESS, cu.cuStreamSynchronize(stream));
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
