/*
 * A program that uses NCCL, with libsymm_nccl.so preloaded and the stand-in behind it. The
 * stand-in's record tells which calls came through: the others were taken.
 */
#include "nccl_client.h"
#include "nccl_record.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

enum { N = 3000 };

/* Starts again with the library preloaded. */
void test_setup(void)
{
    preload("libsymm_nccl.so");
}

TEST_GROUP(dropin, 60, IN_A_FOLDER);

DEVICE_TEST(dropin, collectives_are_taken_and_right, 4)
{
    const float sum = 0 + 1 + 2 + 3;
    float *x = floats(4 * N, (float)self->rank), *y = floats(4 * N, -1), *all = floats(4 * N, -1);
    JOIN(self);
    record(self);
    ALL_REDUCE(x, y, c->stream);
    NCCL_TRY(self, ncclReduceScatter(x, all, N, ncclFloat32, ncclMax, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, y, N, sum);
    CHECK_FLOATS(self, all, N, 3);
    NCCL_TRY(self, ncclAllGather(x, all, N, ncclFloat32, c->comm, c->stream));
    NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclAvg, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    for (int r = 0; r < 4; r++)
        CHECK_FLOATS(self, all + (size_t)r * N, N, r);
    CHECK_FLOATS(self, x, N, sum / 4);
    CHECK_RANK(self, forwarded("nccl") == 0);
out:
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
    cu.cuMemFreeHost(all);
}

/* The calls behind a simulated group run as if there had been none. */
DEVICE_TEST(dropin, a_simulated_group_runs_nothing, 3)
{
    ncclSimInfo_t info = {.size = sizeof info};
    float *x = floats(N, 1);
    JOIN(self);
    record(self);
    NCCL_TRY(self, ncclGroupStart());
    ALL_REDUCE(x, x, c->stream);
    NCCL_TRY(self, ncclBroadcast(x, x, N, ncclFloat32, 1, c->comm, c->stream));
    NCCL_TRY(self, ncclGroupSimulateEnd(&info));
    CHECK_RANK(self, info.estimatedTime == 1);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 1);
    ALL_REDUCE(x, x, c->stream);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 3);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 0);
out:
    cu.cuMemFreeHost(x);
}

/* The NULL stream is that of the communicator's device, also if no device is current. */
DEVICE_TEST(dropin, a_group_joins_the_null_stream_of_its_device, 3)
{
    CUcontext own = NULL;
    float *x = floats(N, 1), *y = floats(N, 2);
    JOIN(self);
    record(self);
    CU_TRY(self, cu.cuCtxGetCurrent(&own));
    CU_TRY(self, cu.cuCtxSetCurrent(NULL));
    NCCL_TRY(self, ncclGroupStart());
    ALL_REDUCE(x, x, c->stream);
    ALL_REDUCE(y, y, NULL);
    NCCL_TRY(self, ncclGroupEnd());
    CU_TRY(self, cu.cuCtxSetCurrent(own));
    CU_TRY(self, cu.cuStreamSynchronize(NULL));
    CHECK_FLOATS(self, x, N, 3);
    CHECK_FLOATS(self, y, N, 6);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 0);
out:
    cu.cuCtxSetCurrent(own);
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
}

/* Products, 8-bit integers, unsigned minima, empty calls: the others go to NCCL, and are right. */
DEVICE_TEST(dropin, other_calls_are_forwarded, 3)
{
    float *x = floats(N, 2);
    uint32_t *u = buffer(N * sizeof *u);
    JOIN(self);
    for (int i = 0; i < N; i++)
        u[i] = self->rank ? 0xffffffffu : 7;
    record(self);
    NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclProd, c->comm, c->stream));
    NCCL_TRY(self, ncclAllReduce(u, u, N, ncclUint32, ncclMin, c->comm, c->stream));
    NCCL_TRY(self, ncclBroadcast(x, x, N, ncclFloat32, 1, c->comm, c->stream));
    NCCL_TRY(self, ncclAllReduce(x, x, 0, ncclFloat32, ncclSum, c->comm, c->stream));
    NCCL_EXPECT(self, ncclInvalidArgument,
                ncclAllReduce(NULL, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 8);
    CHECK_RANK(self, u[0] == 7 && u[N - 1] == 7);
    CHECK_RANK(self, forwarded("ncclAllReduce") >= 3);
out:
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(u);
}

/* Each rank's own number, in host memory or on the device; the reduction goes before the group. */
DEVICE_TEST(dropin, scaled_sums_are_taken, 2)
{
    float *x = floats(2 * N, 1), *y = floats(N, 0), *number = floats(1, 5);
    float own = self->rank ? 0.5f : 3;
    ncclRedOp_t scaled, on_device;
    JOIN(self);
    NCCL_TRY(self, ncclRedOpCreatePreMulSum(&scaled, &own, ncclFloat32, ncclScalarHostImmediate,
                                            c->comm));
    NCCL_TRY(self,
             ncclRedOpCreatePreMulSum(&on_device, number, ncclFloat32, ncclScalarDevice, c->comm));
    record(self);
    NCCL_TRY(self, ncclAllReduce(x, y, N, ncclFloat32, scaled, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, y, N, 3.5);
    *number = self->rank ? 7 : -2;
    NCCL_TRY(self, ncclGroupStart());
    NCCL_TRY(self, ncclReduceScatter(x, y, N, ncclFloat32, on_device, c->comm, c->stream));
    NCCL_TRY(self, ncclRedOpDestroy(on_device, c->comm));
    NCCL_TRY(self, ncclGroupEnd());
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, y, N, 5);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 0);
    NCCL_EXPECT(self, ncclInvalidArgument, /* another type than the number's: NCCL's error */
                ncclAllReduce(x, y, N / 2, ncclFloat64, scaled, c->comm, c->stream));
    NCCL_TRY(self, ncclRedOpDestroy(scaled, c->comm));
    NCCL_EXPECT(self, ncclInvalidArgument,
                ncclAllReduce(x, y, N, ncclFloat32, scaled, c->comm, c->stream));
out:
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
    cu.cuMemFreeHost(number);
}

/* Taken and forwarded calls, on two streams, in one group that begins inside of another. */
DEVICE_TEST(dropin, groups_mix_both, 3)
{
    CUstream other = NULL;
    float *x[4], *got = floats(N, 0);
    int next = (self->rank + 1) % 3, before = (self->rank + 2) % 3;
    for (int i = 0; i < 4; i++)
        x[i] = floats(N, (float)(self->rank + i));
    JOIN(self);
    CU_TRY(self, cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    NCCL_TRY(self, ncclGroupStart());
    ALL_REDUCE(x[0], x[0], c->stream);
    NCCL_TRY(self, ncclGroupStart());
    NCCL_TRY(self, ncclSend(x[3], N, ncclFloat32, next, c->comm, other));
    NCCL_TRY(self, ncclRecv(got, N, ncclFloat32, before, c->comm, other));
    ALL_REDUCE(x[1], x[1], other);
    NCCL_TRY(self, ncclGroupEnd());
    ALL_REDUCE(x[2], x[2], c->stream);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x[0], N, self->rank); /* nothing runs before the group ends */
    NCCL_TRY(self, ncclGroupEnd());
    CU_TRY(self, cu.cuStreamSynchronize(other)); /* each stream waits for the whole group */
    for (int i = 0; i < 3; i++)
        CHECK_FLOATS(self, x[i], N, 3 + 3 * i);
    CHECK_FLOATS(self, got, N, before + 3);
out:
    cu.cuStreamDestroy(other);
    for (int i = 0; i < 4; i++)
        cu.cuMemFreeHost(x[i]);
    cu.cuMemFreeHost(got);
}

/* A taken call in a group with an error of NCCL is dropped. */
DEVICE_TEST(dropin, a_failed_group_takes_nothing, 2)
{
    float *x = floats(N, 1);
    JOIN(self);
    NCCL_TRY(self, ncclGroupStart());
    ALL_REDUCE(x, x, c->stream);
    CHECK_RANK(self, ncclSend(x, N, ncclFloat32, 7, c->comm, c->stream) != ncclSuccess);
    CHECK_RANK(self, ncclGroupEnd() != ncclSuccess);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 1);
    ALL_REDUCE(x, x, c->stream);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 2);
out:
    cu.cuMemFreeHost(x);
}

DEVICE_TEST(dropin, replays_run_beside_eager_calls, 3)
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUstream other = NULL;
    float *x = floats(N, 1), *y = floats(N, 1);
    JOIN(self);
    CU_TRY(self, cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU_TRY(self, cu.cuStreamBeginCapture(c->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    ALL_REDUCE(x, x, c->stream);
    CU_TRY(self, cu.cuStreamEndCapture(c->stream, &graph));
    CU_TRY(self, cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 8; i++) {
        CU_TRY(self, cu.cuGraphLaunch(exec, c->stream));
        ALL_REDUCE(y, y, other);
    }
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(other));
    CHECK_FLOATS(self, x, N, 6561);
    CHECK_FLOATS(self, y, N, 6561);
out:
    cu.cuGraphExecDestroy(exec);
    cu.cuGraphDestroy(graph);
    cu.cuStreamDestroy(other);
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
}

/* A child communicator, whose ranks destroy it at different times. */
DEVICE_TEST(dropin, split_and_destroyed_at_different_times, 4)
{
    ncclComm_t half = NULL;
    float *x = floats(N, 1);
    JOIN(self);
    NCCL_TRY(self, ncclCommSplit(c->comm, self->rank % 2, 0, &half, NULL));
    record(self);
    NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclSum, half, c->stream));
    usleep((useconds_t)self->rank * 30000);
    NCCL_TRY(self, ncclCommDestroy(half)); /* waits for the all-reduce */
    CHECK_FLOATS(self, x, N, 2);
    ALL_REDUCE(x, x, c->stream);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 8);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 0);
out:
    cu.cuMemFreeHost(x);
}

/* A blocking communicator is attached when it is returned, a nonblocking one when it is ready. */
DEVICE_TEST(dropin, nonblocking_communicators_are_attached, 3,
            .env = {{"NCCL_STANDIN_DELAY_US", "5000"}})
{
    float *x = floats(N, 1);
    JOIN_NONBLOCKING(self);
    await_ready(self, c->comm);
    record(self);
    ALL_REDUCE(x, x, c->stream);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 3);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 0);
out:
    cu.cuMemFreeHost(x);
}

/* A communicator is made, used and destroyed while a thread captures, which forbids much. */
DEVICE_TEST(dropin, communicators_come_and_go_beside_a_capture, 3)
{
    ncclComm_t child = NULL;
    CUstream beside = NULL;
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    float *x = floats(N, 1), *y = floats(N, 1);
    int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    JOIN(self);
    CU_TRY(self, cu.cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    CU_TRY(self, cu.cuStreamBeginCapture(c->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ALL_REDUCE(x, x, c->stream);
    NCCL_TRY(self, ncclCommSplit(c->comm, 0, self->rank, &child, NULL));
    NCCL_TRY(self, ncclAllReduce(y, y, N, ncclFloat32, ncclSum, child, beside));
    NCCL_TRY(self, ncclCommDestroy(child));
    usleep(300000); /* its memory is freed meanwhile */
    CU_TRY(self, cu.cuStreamEndCapture(c->stream, &graph));
    CHECK_FLOATS(self, y, N, 3);
    CU_TRY(self, cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    CU_TRY(self, cu.cuGraphLaunch(exec, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 3);
    CU_TRY(self, cu.cuThreadExchangeStreamCaptureMode(&mode));
    CHECK_RANK(self, mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
    CU_TRY(self, cu.cuThreadExchangeStreamCaptureMode(&mode));
out:
    if (exec)
        cu.cuGraphExecDestroy(exec);
    if (graph)
        cu.cuGraphDestroy(graph);
    cu.cuStreamDestroy(beside);
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
}

/*
 * Such a capture forbids the end of a context, which comes later. A communicator that is made
 * meanwhile is forwarded. What is left at exit would be an error.
 */
DEVICE_TEST(dropin, a_capture_of_a_blocking_stream_delays_the_end_of_a_communicator, 3,
            .timeout_s = 20)
{
    ncclComm_t child = NULL, forwarding = NULL;
    CUstream blocking = NULL;
    CUgraph graph = NULL;
    JOIN(self);
    NCCL_TRY(self, ncclCommSplit(c->comm, 0, self->rank, &child, NULL));
    CU_TRY(self, cu.cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    if (self->rank == 1)
        CU_TRY(self, cu.cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    meet(self, place, 1);
    NCCL_TRY(self, ncclCommDestroy(child));
    NCCL_TRY(self, ncclCommSplit(c->comm, 0, self->rank, &forwarding, NULL));
    record(self);
    check_sum(self, forwarding, c->stream, N, 1, 3);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 1);
    NCCL_TRY(self, ncclCommDestroy(forwarding));
    usleep(300000);
    if (self->rank == 1)
        CU_TRY(self, cu.cuStreamEndCapture(blocking, &graph));
    check_sum(self, c->comm, c->stream, N, 1, 3);
    meet(self, place, 2);
out:
    if (graph)
        cu.cuGraphDestroy(graph);
    cu.cuStreamDestroy(blocking);
}

/* ---- Ranks that must not attach ---- */

/* One rank has another setting: all forward, and the results are right. */
static void check_other_setting(struct rank *self, struct client *c, struct meeting *place,
                                const char *name, const char *value)
{
    float *x = floats(N, 1);
    if (self->rank == 1)
        setenv(name, value, 1);
    JOIN(self);
    record(self);
    ALL_REDUCE(x, x, c->stream);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 3);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 1);
out:
    cu.cuMemFreeHost(x);
}

DEVICE_TEST(dropin, ranks_with_other_settings_forward_all, 3)
{
    check_other_setting(self, c, place, "SYMM_NCCL_FORWARD", "allgather");
}

DEVICE_TEST(dropin, ranks_with_other_limits_forward_all, 3)
{
    check_other_setting(self, c, place, "SYMM_NCCL_MAX_BLOCKS", "1");
}

DEVICE_TEST(dropin, a_wrong_setting_of_a_rank_makes_all_forward, 3, .timeout_s = 20)
{
    check_other_setting(self, c, place, "SYMM_TIMEOUT_MS", "soon");
}

DEVICE_TEST(dropin, a_rank_that_forwards_all_votes, 3, .timeout_s = 20)
{
    check_other_setting(self, c, place, "SYMM_NCCL_FORWARD", "all");
}

/* The message of the context, after the first vote. It comes all the same. */
DEVICE_TEST(dropin, a_rank_that_cannot_copy_makes_all_forward, 3, .timeout_s = 20,
            .env = {{"SYMM_EMULATED_FAULT", "cuMemcpyAsync@1#3=700"}})
{
    check_other_setting(self, c, place, "SYMM_NCCL_STATS", "0");
}

/* So many more threads of symm are refused. The real library has its own. */
static int refused_threads;

__attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *arg)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = NULL;
    Dl_info from;

    *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    if (refused_threads > 0 && dladdr((void *)(uintptr_t)run, &from) &&
        strstr(from.dli_fname, "libsymm_nccl")) {
        refused_threads--;
        return EAGAIN;
    }
    return next(thread, attributes, run, arg);
}

DEVICE_TEST(dropin, a_rank_without_threads_votes, 3, .timeout_s = 20)
{
    CUcontext current = NULL;
    float *x = floats(N, 1);
    refused_threads = self->rank == 1 ? INT_MAX : 0;
    JOIN(self);
    CU_TRY(self, cu.cuCtxGetCurrent(&current));
    CHECK_RANK(self, current == c->context);
    record(self);
    ALL_REDUCE(x, x, c->stream);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 3);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 1);
out:
    cu.cuMemFreeHost(x);
}

/* The first of two communicators of a thread, which are made together. */
DEVICE_TEST(dropin, one_without_a_thread_votes_after_the_others_have_begun, 1, .timeout_s = 20)
{
    const ncclUniqueId id = common_id(0, place);
    ncclComm_t comms[4] = {NULL};
    CUcontext second = NULL;
    refused_threads = 1;
    NCCL_TRY(self, ncclCommInitAll(comms, 2, (int[]){0, 1}));
    CHECK_RANK(self, refused_threads == 0);
    refused_threads = 1;
    CU_TRY(self, cu.cuDevicePrimaryCtxRetain(&second, 1));
    NCCL_TRY(self, ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        CU_TRY(self, cu.cuCtxSetCurrent(i ? second : c->context));
        ncclCommInitRankConfig(&comms[2 + i], 2, id, i, NONBLOCKING);
    }
    NCCL_EXPECT(self, ncclInProgress, ncclGroupEnd());
    for (int i = 1; i >= 0; i--)
        await_ready(self, comms[2 + i]);
    CHECK_RANK(self, refused_threads == 0);
out:
    for (int i = 0; i < 4; i++)
        if (comms[i])
            ncclCommDestroy(comms[i]);
    cu.cuCtxSetCurrent(c->context);
    if (second)
        cu.cuDevicePrimaryCtxRelease(1);
}

DEVICE_TEST(dropin, one_block_is_enough, 3, .env = {{"SYMM_NCCL_MAX_BLOCKS", "1"}})
{
    float *x = floats(N, 1);
    JOIN(self);
    record(self);
    ALL_REDUCE(x, x, c->stream);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 3);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 0);
out:
    cu.cuMemFreeHost(x);
}

DEVICE_TEST(dropin, operations_are_forwarded_on_request, 2,
            .env = {{"SYMM_NCCL_FORWARD", "allgather,reducescatter"}})
{
    float *x = floats(N, 1), *y = floats(2 * N, 0);
    JOIN(self);
    record(self);
    ALL_REDUCE(x, x, c->stream);
    NCCL_TRY(self, ncclAllGather(x, y, N, ncclFloat32, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, y, 2 * N, 2);
    CHECK_RANK(self, forwarded("ncclAllGather") == 1);
out:
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
}

/* symm's part of a rank fails while attaching. */
DEVICE_TEST(dropin, a_rank_that_fails_to_attach_makes_all_forward, 3)
{
    float *x = floats(N, 1);
    if (self->rank == 2)
        setenv("SYMM_STAGING_BYTES", "1", 1);
    JOIN(self);
    record(self);
    ALL_REDUCE(x, x, c->stream);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 3);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 1);
out:
    cu.cuMemFreeHost(x);
}
