/* Host functions of the emulated driver: their place in a stream, replays, and their one rule. */
#include "hand_streams.h"

#include <pthread.h>

TEST_GROUP(host_functions, 60, .setup = open_driver, .teardown = close_driver);

/* Adds to the values of append(). */
static void note(void *value)
{
    noted[atomic_fetch_add(&nnoted, 1)] = (uint32_t)(uintptr_t)value;
}

static void note_in(uint32_t value, CUstream on)
{
    OK(cu.cuLaunchHostFunc(on, note, (void *)(uintptr_t)value));
}

TEST(host_functions, run_in_their_turn)
{
    hold(stream);
    note_in(1, stream);
    append(2, stream);
    note_in(3, stream);
    note_in(4, other); /* overtakes */
    OK(cu.cuStreamSynchronize(other));
    NOTED(4);
    release();
    OK(cu.cuStreamSynchronize(stream));
    NOTED(1, 2, 3);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void pass_gate(void *value)
{
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    note(value);
}

/* On a thread of the driver: the caller may hold a lock that the function takes. */
TEST(host_functions, block_their_stream_alone)
{
    pthread_mutex_lock(&gate);
    OK(cu.cuLaunchHostFunc(stream, pass_gate, (void *)1));
    append(2, stream);
    append(3, other);
    OK(cu.cuStreamSynchronize(other));
    NOTED(3);
    ck_assert_int_eq(cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    pthread_mutex_unlock(&gate);
    OK(cu.cuStreamSynchronize(stream));
    NOTED(1, 2);
}

/* They see the memory that the work before them wrote, and later work sees theirs. */
static void add_one(void *ptr)
{
    ++*(uint32_t *)ptr;
}

TEST(host_functions, are_nodes_of_a_graph)
{
    CUgraph graph;
    CUgraphExec exec;
    uint32_t result = 0;
    CUdeviceptr a = device_memory(4), b = device_memory(4);
    OK(cu.cuMemsetD32Async(b, 0, 1, stream));
    OK(cu.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu.cuMemcpyAsync(a, b, 4, stream));
    OK(cu.cuLaunchHostFunc(stream, add_one, (void *)(uintptr_t)a));
    OK(cu.cuMemcpyAsync(b, a, 4, stream));
    OK(cu.cuStreamEndCapture(stream, &graph));
    OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu.cuGraphDestroy(graph));
    for (int i = 0; i < 10; i++)
        OK(cu.cuGraphLaunch(exec, stream));
    OK(cu.cuMemcpyAsync(address(&result), b, 4, stream));
    ck_assert_uint_eq(result, 10);
    OK(cu.cuGraphExecDestroy(exec));
    OK(cu.cuMemFree(a));
    OK(cu.cuMemFree(b));
}

static void call_driver(void *result)
{
    *(CUresult *)result = cu.cuStreamQuery(other);
}

TEST(host_functions, may_not_call_the_driver)
{
    CUresult result = CUDA_SUCCESS;
    OK(cu.cuLaunchHostFunc(stream, call_driver, &result));
    OK(cu.cuStreamSynchronize(stream));
    ck_assert_int_eq(result, CUDA_ERROR_NOT_PERMITTED);
    driver_reported(driver_rank, "cuStreamQuery", "a host function calls the driver");
    OK(cu.cuStreamQuery(other)); /* other threads may */
}

TEST(host_functions, have_checked_arguments)
{
    BREAKS(INVALID_VALUE, cuLaunchHostFunc, "function is NULL", stream, NULL, NULL);
    BREAKS(INVALID_HANDLE, cuLaunchHostFunc, "no such stream", (CUstream)&gate, note, NULL);
    OK(cu.cuLaunchHostFunc(NULL, note, (void *)7));
    OK(cu.cuStreamSynchronize(NULL));
    NOTED(7);
}
