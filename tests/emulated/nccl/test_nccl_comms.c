/* The stand-in's communicators: how they are made, asked and ended, and what is refused. */
#include "nccl_client.h"

#include <pthread.h>
#include <time.h>

enum { N = 64 };

TEST_GROUP(comms, 60);

DEVICE_TEST(comms, splits_order_ranks_by_key, 4)
{
    JOIN(self);
    check_facts(self, c->comm, self->rank, 4, self->rank);
    check_splits(self, c, N);
out:;
}

DEVICE_TEST(comms, nonblocking_communicators_are_polled, 3,
            .env = {{"NCCL_STANDIN_DELAY_US", "20000"}})
{
    ncclComm_t half = NULL;
    float *x = floats(N, 1);
    if (self->rank == 2)
        usleep(100000);
    JOIN_NONBLOCKING(self);
    if (self->rank < 2) {
        ncclResult_t state;
        NCCL_TRY(self, ncclCommGetAsyncError(c->comm, &state));
        CHECK_RANK(self, state == ncclInProgress);
        NCCL_EXPECT(self, ncclInvalidUsage,
                    ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
    }
    await_ready(self, c->comm);
    NCCL_EXPECT(self, ncclInProgress,
                ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
    await_ready(self, c->comm);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 3);
    NCCL_TRY(self, ncclCommSplit(c->comm, self->rank / 2, 0, &half, NULL));
    CHECK_RANK(self, half == NULL); /* until the parent is ready */
    await_ready(self, c->comm);
    CHECK_RANK(self, half != NULL);
    await_ready(self, half);
    NCCL_EXPECT(self, ncclInProgress, ncclCommFinalize(c->comm));
    await_ready(self, c->comm);
    NCCL_TRY(self, ncclCommDestroy(half));
out:
    cu.cuMemFreeHost(x);
}

/* One thread makes and uses the communicators of three devices. */
DEVICE_TEST(comms, one_thread_has_several_devices, 1)
{
    ncclComm_t comms[3] = {NULL};
    CUcontext contexts[3] = {NULL};
    CUstream streams[3] = {NULL};
    float *x[3] = {NULL};
    const int devices[3] = {4, 0, 6};
    NCCL_TRY(self, ncclCommInitAll(comms, 3, devices));
    for (int i = 0; i < 3; i++) {
        check_facts(self, comms[i], i, 3, devices[i]);
        CU_TRY(self, cu.cuDevicePrimaryCtxRetain(&contexts[i], devices[i]));
        CU_TRY(self, cu.cuCtxSetCurrent(contexts[i]));
        CU_TRY(self, cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        x[i] = floats(N, (float)i);
    }
    NCCL_TRY(self, ncclGroupStart());
    for (int i = 0; i < 3; i++)
        NCCL_TRY(self, ncclAllReduce(x[i], x[i], N, ncclFloat32, ncclSum, comms[i], streams[i]));
    NCCL_TRY(self, ncclGroupEnd());
    for (int i = 0; i < 3; i++) {
        CU_TRY(self, cu.cuStreamSynchronize(streams[i]));
        CHECK_FLOATS(self, x[i], N, 3);
    }
out:
    for (int i = 0; i < 3; i++) {
        if (contexts[i])
            cu.cuCtxSetCurrent(contexts[i]);
        ncclCommDestroy(comms[i]);
        cu.cuMemFreeHost(x[i]);
        cu.cuStreamDestroy(streams[i]);
        cu.cuDevicePrimaryCtxRelease(devices[i]);
    }
    cu.cuCtxSetCurrent(c->context);
}

DEVICE_TEST(comms, ranks_may_destroy_at_different_times, 3)
{
    float *x = floats(N, 1);
    JOIN(self);
    NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
    usleep((useconds_t)self->rank * 50000);
    NCCL_TRY(self, ncclCommDestroy(c->comm)); /* waits for the all-reduce */
    CHECK_FLOATS(self, x, N, 3);
    NCCL_EXPECT(self, ncclInvalidArgument, ncclCommDestroy(c->comm));
    c->comm = NULL;
out:
    cu.cuMemFreeHost(x);
}

/* ---- Failures ---- */

/* An operation for which a rank never comes hangs until its communicator is aborted. */
DEVICE_TEST(comms, an_abort_ends_what_hangs, 3)
{
    float *x = floats(N, 1);
    JOIN(self);
    if (self->rank != 1)
        NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
    usleep(100000);
    if (self->rank != 1)
        CHECK_RANK(self, cu.cuStreamQuery(c->stream) == CUDA_ERROR_NOT_READY);
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 1);
out:
    cu.cuMemFreeHost(x);
}

DEVICE_TEST(comms, an_abort_may_wait_for_all, 3, .env = {{"NCCL_STANDIN_ABORT_WAITS", "1"}})
{
    JOIN(self);
    if (self->rank == 2) {
        usleep(200000);
        CHECK_RANK(self, atomic_load(&place->count) == 0); /* no abort has returned */
    }
    NCCL_TRY(self, ncclCommAbort(c->comm));
    atomic_fetch_add(&place->count, 1);
    c->comm = NULL;
out:;
}

/* A rank that is gone is no error: the others hang and abort. */
DEVICE_TEST(comms, a_dead_rank_is_not_noticed, 3, .lost = 1 << 1)
{
    float *x = floats(N, 1);
    ncclResult_t state;
    JOIN(self);
    if (self->rank == 1)
        raise(SIGKILL);
    NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
    usleep(100000);
    CHECK_RANK(self, cu.cuStreamQuery(c->stream) == CUDA_ERROR_NOT_READY);
    NCCL_TRY(self, ncclCommGetAsyncError(c->comm, &state));
    CHECK_RANK(self, state == ncclSuccess);
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
out:
    cu.cuMemFreeHost(x);
}

DEVICE_TEST(comms, faults_are_injected, 2,
            .env = {{"NCCL_STANDIN_FAULT", "ncclSend@0#9=1;ncclAllReduce@1#2=3"}})
{
    float *x = floats(N, 1);
    JOIN(self);
    check_sum(self, c->comm, c->stream, N, 1, 2);
    NCCL_EXPECT(self, self->rank == 1 ? ncclInternalError : ncclSuccess,
                ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
    NCCL_TRY(self, ncclCommAbort(c->comm)); /* rank 0 waits for rank 1 */
    c->comm = NULL;
    CHECK_FLOATS(self, x, N, 1);
out:
    cu.cuMemFreeHost(x);
}

DEVICE_TEST(comms, faults_come_later, 2, .env = {{"NCCL_STANDIN_FAULT", "ncclReduce@-1#1=106"}})
{
    float *x = floats(N, 1);
    ncclResult_t state;
    JOIN(self);
    NCCL_TRY(self, ncclReduce(x, x, N, ncclFloat32, ncclSum, 0, c->comm, c->stream));
    NCCL_TRY(self, ncclCommGetAsyncError(c->comm, &state));
    CHECK_RANK(self, state == ncclRemoteError);
    NCCL_EXPECT(self, ncclRemoteError,
                ncclReduce(x, x, N, ncclFloat32, ncclSum, 0, c->comm, c->stream));
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
out:
    cu.cuMemFreeHost(x);
}

DEVICE_TEST(comms, different_calls_are_an_error, 2)
{
    float *x = floats(N, 1);
    ncclResult_t state;
    JOIN(self);
    NCCL_TRY(self,
             ncclAllReduce(x, x, self->rank ? N : N / 2, ncclFloat32, ncclSum, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    NCCL_TRY(self, ncclCommGetAsyncError(c->comm, &state));
    CHECK_RANK(self, state == ncclInvalidUsage);
out:
    cu.cuMemFreeHost(x);
}

DEVICE_TEST(comms, arguments_are_checked, 1, .env = {{"NCCL_STANDIN_VERSION", "21903"}})
{
    float *x = floats(N, 1), plain[N];
    int version;
    NCCL_TRY(self, ncclGetVersion(&version));
    CHECK_RANK(self, version == 21903);
    NCCL_EXPECT(self, ncclInvalidArgument, ncclCommCount(NULL, &version));
    NCCL_EXPECT(self, ncclInvalidArgument, ncclCommInitRank(&c->comm, 1, common_id(0, place), 1));
    NCCL_EXPECT(self, ncclInvalidUsage, ncclGroupEnd());
    JOIN(self);
#define REFUSED(send, recv, count, type, op)                                                       \
    NCCL_EXPECT(self, ncclInvalidArgument,                                                         \
                ncclAllReduce(send, recv, count, type, op, c->comm, c->stream))
    REFUSED(x, x, N + 1, ncclFloat32, ncclSum);
    REFUSED(x, plain, N, ncclFloat32, ncclSum);
    REFUSED(x, x, N, (ncclDataType_t)12, ncclSum);
    REFUSED(x, x, N, ncclFloat8e4m3, ncclSum);
    REFUSED(x, x, N, ncclFloat32, ncclNumOps);
    NCCL_EXPECT(self, ncclInvalidArgument, ncclSend(x, N, ncclFloat32, 1, c->comm, c->stream));
    /* A failure in a group is that of the group, in which nothing happens. */
    NCCL_TRY(self, ncclGroupStart());
    NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclProd, c->comm, c->stream));
    REFUSED(x, x, N + 1, ncclFloat32, ncclSum);
    NCCL_EXPECT(self, ncclInvalidArgument, ncclGroupEnd());
    NCCL_TRY(self, pncclAllReduce(x, x, N, ncclFloat32, ncclAvg, c->comm, c->stream));
out:
    if (c->comm)
        ncclCommDestroy(c->comm);
    c->comm = NULL;
    cu.cuMemFreeHost(x);
}

/* Rank 2 of a group of initialisations fails, so the others of this thread wait for nobody. */
DEVICE_TEST(comms, a_failed_group_makes_nothing, 1,
            .env = {{"NCCL_STANDIN_FAULT", "ncclCommInitRank@2#1=2"}})
{
    ncclComm_t comms[3] = {NULL};
    ncclResult_t state;
    NCCL_EXPECT(self, ncclSystemError, ncclCommInitAll(comms, 3, NULL));
    CHECK_RANK(self, !c->comm && !comms[2]);
    for (int i = 0; i < 2; i++) {
        NCCL_TRY(self, ncclCommGetAsyncError(comms[i], &state));
        CHECK_RANK(self, state == ncclSystemError);
        NCCL_TRY(self, ncclCommAbort(comms[i]));
    }
out:;
}

/* ---- Memory ---- */

DEVICE_TEST(comms, memory_and_registrations, 2)
{
    void *ptr = NULL, *handle = NULL;
    ncclWindow_t window = NULL;
    CUmemGenericAllocationHandle memory = 0;
    JOIN(self);
    NCCL_TRY(self, ncclMemAlloc(&ptr, 1000));
    CU_TRY(self, cu.cuMemRetainAllocationHandle(&memory, ptr));
    CU_TRY(self, cu.cuMemRelease(memory));
    NCCL_TRY(self, ncclCommRegister(c->comm, ptr, 1000, &handle));
    NCCL_TRY(self, ncclCommWindowRegister(c->comm, ptr, 1000, &window, NCCL_WIN_COLL_SYMMETRIC));
    NCCL_TRY(self, ncclAllReduce(ptr, ptr, 250, ncclFloat32, ncclSum, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    NCCL_EXPECT(self, ncclInvalidArgument, ncclCommDeregister(c->comm, window));
    NCCL_TRY(self, ncclCommWindowDeregister(c->comm, window));
    NCCL_TRY(self, ncclCommDeregister(c->comm, handle));
    NCCL_EXPECT(self, ncclInvalidUsage,
                ncclCommWindowRegister(c->comm, ptr, 500 + (size_t)self->rank, &window, 0));
out:
    ncclMemFree(ptr);
}
