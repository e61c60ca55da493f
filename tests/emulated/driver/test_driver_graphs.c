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

TEST_GROUP(graphs, 60, .setup = open_driver, .teardown = close_driver);

TEST(graphs, graphs_replay_in_order)
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

TEST(graphs, launches_of_one_graph_are_ordered_across_streams)
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

TEST(graphs, captures_fork_and_join)
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
    OK(cu.cuEventRecord(event, stream)); /* an ordinary event again */
    OK(cu.cuEventSynchronize(event));
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuEventDestroy(back));
}

/* Each branch can run while the other one waits. */
TEST(graphs, branches_of_a_graph_run_concurrently)
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
                usleep(1000); /* one branch waits */
            ck_assert_int_eq(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
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
    OK(cu.cuEventRecord(event, stream));
    OK(cu.cuStreamWaitEvent(other, event, 0));
    append(2, other);
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture, "not joined", stream,
           &graph);
    ck_assert_ptr_null(graph);
    append(3, other); /* outside of the capture */
    OK(cu.cuStreamSynchronize(other));
    NOTED(3);
}

/* Ends a capture that a call has made invalid. */
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

TEST(graphs, capturing_streams_cannot_be_queried)
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

TEST(graphs, captures_are_isolated)
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

TEST(graphs, the_legacy_stream_and_captures)
{
    int status;
    CUgraph graph;
    struct hand_args args = hand_args();
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture, "legacy", NULL,
           CU_STREAM_CAPTURE_MODE_GLOBAL);
    begin(); /* a non-blocking stream does not concern the legacy stream */
    append(1, NULL);
    OK(cu.cuStreamSynchronize(NULL));
    OK(cu.cuStreamIsCapturing(NULL, &status));
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphDestroy(graph));
    OK(cu.cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ck_assert_int_eq(cu.cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    OK(cu.cuStreamIsCapturing(blocking, &status));
    ck_assert_int_eq(status,
                     CU_STREAM_CAPTURE_STATUS_ACTIVE); /* the question leaves the capture valid */
    ck_assert_int_eq(hand_launch(hand_function("append"), 1, 1, &args, NULL),
                     CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    ends_invalid(blocking);
    OK(cu.cuStreamIsCapturing(NULL, &status));
    ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_NONE);
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
    begin();
    OK(cu.cuStreamEndCapture(stream, &graph));
    begin();
    BREAKS(RANK, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuGraphInstantiateWithFlags,
           "during a capture", &exec, graph, 0);
    ends_invalid(stream);
    OK(cu.cuGraphDestroy(graph));

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
