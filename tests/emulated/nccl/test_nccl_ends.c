/*
 * Communicators that end: by a death, an exit, an abort, a shrink; in the middle of attaching, of a
 * group, or beside calls that never end. libsymm_nccl.so is preloaded.
 */
#include "nccl_client.h"
#include "nccl_record.h"

#include <signal.h>
#include <stdlib.h>
#include "runtime/base/deadline.h"

enum { N = 3000 };

void test_setup(void)
{
    preload("libsymm_nccl.so");
}

TEST_GROUP(ends, 60, IN_A_FOLDER);

/* A communicator whose rank 1 is gone soon returns that error. */
static void await_remote_error(struct rank *self, ncclComm_t comm)
{
    const int64_t start = symm__now_us();
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess && symm__now_us() - start < 5000000) {
        NCCL_TRY(self, ncclCommGetAsyncError(comm, &state));
        usleep(1000);
    }
    CHECK_RANK(self, state == ncclRemoteError);
    CHECK_RANK_MSG(self, symm__now_us() - start < 2000000, "%lld us",
                   (long long)(symm__now_us() - start));
    CHECK_RANK_MSG(self, strstr(ncclGetLastError(comm), "rank 1"), "%s", ncclGetLastError(comm));
out:;
}

/* The stand-in does not notice a death, symm does. A call that has begun waits for the abort. */
DEVICE_TEST(ends, a_death_is_an_asynchronous_error, 3, .lost = 1 << 1)
{
    float *x = floats(N, 1);
    JOIN(self);
    while (self->rank == 1 && atomic_load(&place->count) < 2)
        usleep(1000);
    if (self->rank == 1)
        raise(SIGKILL);
    ALL_REDUCE(x, x, c->stream);
    atomic_fetch_add(&place->count, 1);
    await_remote_error(self, c->comm);
    usleep(300000);
    CHECK_RANK(self, cu.cuStreamQuery(c->stream) == CUDA_ERROR_NOT_READY);
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
out:
    cu.cuMemFreeHost(x);
}

/* Programs end without destroying communicators, some ranks earlier than others. */
static void check_early_exit(struct rank *self, struct client *c, struct meeting *place, int rank)
{
    ncclResult_t state = ncclSuccess;
    char name[16];
    float *x = floats(N, 1);
    JOIN(self);
    ALL_REDUCE(x, x, c->stream);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 3);
    if (self->rank == rank)
        exit(0);
    for (int i = 0; i < 500; i++) {
        NCCL_TRY(self, ncclCommGetAsyncError(c->comm, &state));
        CHECK_RANK_MSG(self, state == ncclSuccess, "%s", ncclGetLastError(c->comm));
        usleep(1000);
    }
    NCCL_EXPECT(self, ncclRemoteError,
                ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
    snprintf(name, sizeof name, "rank %d", rank);
    CHECK_RANK_MSG(self, strstr(ncclGetLastError(c->comm), name), "%s", ncclGetLastError(c->comm));
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
out:
    cu.cuMemFreeHost(x);
}

DEVICE_TEST(ends, an_exit_is_an_error_only_for_ranks_that_need_the_rank, 3, .lost = 1 << 1)
{
    check_early_exit(self, c, place, 1);
}

DEVICE_TEST(ends, the_exit_of_rank_0_is_one_too, 3, .lost = 1 << 0)
{
    check_early_exit(self, c, place, 0);
}

/* A call that has begun waits for the rank that exits. */
DEVICE_TEST(ends, an_exit_in_the_middle_is_an_error, 3, .lost = 1 << 1)
{
    float *x = floats(N, 1);
    JOIN(self);
    while (self->rank == 1 && atomic_load(&place->count) < 2)
        usleep(1000);
    if (self->rank == 1)
        exit(0);
    ALL_REDUCE(x, x, c->stream);
    atomic_fetch_add(&place->count, 1);
    await_remote_error(self, c->comm);
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
out:
    cu.cuMemFreeHost(x);
}

/* Rank 1 aborts, and rank 0 is in a call, which waits for its own abort. */
DEVICE_TEST(ends, an_abort_is_local, 3)
{
    float *x = floats(N, 1);
    ncclResult_t state;
    JOIN(self);
    ALL_REDUCE(x, x, c->stream);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    if (self->rank == 0)
        ALL_REDUCE(x, x, c->stream);
    atomic_fetch_add(&place->count, 1);
    while (atomic_load(&place->count) < 3)
        usleep(1000);
    if (self->rank == 1) {
        NCCL_TRY(self, ncclCommAbort(c->comm));
        c->comm = NULL;
        goto out;
    }
    for (int i = 0; i < 400; i++) {
        NCCL_TRY(self, ncclCommGetAsyncError(c->comm, &state));
        CHECK_RANK_MSG(self, state == ncclSuccess, "%s", ncclGetLastError(c->comm));
        usleep(1000);
    }
    if (self->rank == 0)
        CHECK_RANK(self, cu.cuStreamQuery(c->stream) == CUDA_ERROR_NOT_READY);
    NCCL_EXPECT(self, ncclRemoteError,
                ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
    CHECK_RANK_MSG(self, strstr(ncclGetLastError(c->comm), "rank 1 aborted: ncclCommAbort"), "%s",
                   ncclGetLastError(c->comm));
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
out:
    cu.cuMemFreeHost(x);
}

/*
 * A forwarded call waits for rank 1, which never comes, and so does one of another communicator.
 * Taken calls end, and neither abort waits for the other communicator's call.
 */
DEVICE_TEST(ends, an_abort_does_not_wait_for_forwarded_calls, 3, .timeout_s = 20)
{
    ncclComm_t other = NULL;
    CUstream beside = NULL;
    float *x = floats(N, 1), *y = floats(N, 1);
    JOIN(self);
    NCCL_TRY(self, ncclCommSplit(c->comm, 0, self->rank, &other, NULL));
    CU_TRY(self, cu.cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    if (self->rank != 1) {
        NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclProd, c->comm, c->stream));
        ALL_REDUCE(x, x, c->stream);
        NCCL_TRY(self, ncclAllReduce(y, y, N, ncclFloat32, ncclProd, other, beside));
    }
    meet(self, place, 1);
    const int64_t start = symm__now_us();
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
    CHECK_RANK(self, symm__now_us() - start < 1500000);
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    if (self->rank != 1)
        CHECK_RANK(self, cu.cuStreamQuery(beside) == CUDA_ERROR_NOT_READY);
    NCCL_TRY(self, ncclCommAbort(other));
    CU_TRY(self, cu.cuStreamSynchronize(beside));
out:
    cu.cuStreamDestroy(beside);
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
}

/* A taken call behind another communicator's call, which does not end: the abort gives up. */
DEVICE_TEST(ends, an_abort_does_not_wait_for_what_is_before_its_calls, 2, .timeout_s = 20)
{
    ncclComm_t other = NULL;
    float *x = floats(N, 1);
    JOIN(self);
    NCCL_TRY(self, ncclCommSplit(c->comm, 0, self->rank, &other, NULL));
    if (self->rank == 0)
        NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclProd, other, c->stream));
    ALL_REDUCE(x, x, c->stream);
    meet(self, place, 1);
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
    if (self->rank == 0)
        CHECK_RANK(self, cu.cuStreamQuery(c->stream) == CUDA_ERROR_NOT_READY);
    NCCL_TRY(self, ncclCommAbort(other));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    meet(self, place, 2); /* a rank that ends now would leave before the other has left */
out:
    cu.cuMemFreeHost(x);
}

/* Rank 1 cannot vote, so the others would wait for it. Its own communicator is ready. */
DEVICE_TEST(ends, an_abort_ends_attaching, 3, .timeout_s = 20,
            .env = {{"NCCL_STANDIN_FAULT", "ncclAllGather@1#1=3"}})
{
    ncclResult_t state = ncclInProgress;
    JOIN_NONBLOCKING(self);
    if (self->rank == 1)
        await_ready(self, c->comm);
    meet(self, place, 1);
    usleep(300000);
    NCCL_TRY(self, ncclCommGetAsyncError(c->comm, &state));
    CHECK_RANK(self, state == (self->rank == 1 ? ncclSuccess : ncclInProgress));
    const int64_t start = symm__now_us();
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
    CHECK_RANK(self, symm__now_us() - start < 1500000);
out:;
}

/*
 * Rank 1 aborts when it has voted for the second time, and rank 2 has not: then rank 0 attaches,
 * and its calls would wait for rank 1.
 */
DEVICE_TEST(ends, an_abort_at_the_end_of_attaching_is_told, 3, .timeout_s = 20,
            .env = {{"NCCL_STANDIN_FAULT", "ncclAllGather@2#3=4000"}})
{
    float *x = floats(N, 1);
    record(self);
    JOIN_NONBLOCKING(self);
    while (self->rank == 1 && recorded("ncclAllGather", false) < 3)
        usleep(1000);
    if (self->rank == 1) {
        usleep(300000);
        NCCL_TRY(self, ncclCommAbort(c->comm));
        c->comm = NULL;
    }
    if (self->rank == 0) {
        await_ready(self, c->comm);
        NCCL_EXPECT(self, ncclRemoteError,
                    ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
        CHECK_RANK(self, strstr(ncclGetLastError(c->comm), "rank 1 aborted: ncclCommAbort"));
    }
    meet(self, place, 1);
out:
    if (c->comm)
        ncclCommAbort(c->comm);
    c->comm = NULL;
    forwarded("nccl");
    cu.cuMemFreeHost(x);
}

/* Rank 1 is excluded, for which a taken and a forwarded call wait. */
DEVICE_TEST(ends, a_shrink_ends_calls_of_the_parent, 3, .timeout_s = 20)
{
    ncclComm_t rest = NULL;
    CUstream beside = NULL;
    float *x = floats(N, 1), *y = floats(N, 1);
    JOIN(self);
    CU_TRY(self, cu.cuStreamCreate(&beside, CU_STREAM_NON_BLOCKING));
    if (self->rank == 1) {
        meet(self, place, 1);
        goto out;
    }
    ALL_REDUCE(x, x, c->stream);
    NCCL_TRY(self, ncclAllReduce(y, y, N, ncclFloat32, ncclProd, c->comm, beside));
    meet(self, place, 1);
    NCCL_TRY(self, ncclCommShrink(c->comm, (int[]){1}, 1, &rest, NULL, NCCL_SHRINK_ABORT));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(beside));
    check_facts(self, rest, self->rank / 2, 2, self->rank);
    record(self);
    check_sum(self, rest, c->stream, N, 1, 2);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 0);
out:
    if (rest)
        ncclCommDestroy(rest);
    if (c->comm)
        ncclCommAbort(c->comm);
    c->comm = NULL;
    cu.cuStreamDestroy(beside);
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
}

/* The group's other calls run. */
DEVICE_TEST(ends, an_end_in_a_group_drops_its_calls, 3, .timeout_s = 20)
{
    ncclComm_t ended[3] = {NULL}, rest = NULL;
    float *x = floats(N, 1), *y = floats(N, 1);
    JOIN(self);
    for (int i = 0; i < 3; i++)
        NCCL_TRY(self, ncclCommSplit(c->comm, 0, self->rank, &ended[i], NULL));
    NCCL_TRY(self, ncclGroupStart());
    for (int i = 0; i < 3; i++)
        NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclSum, ended[i], c->stream));
    ALL_REDUCE(y, y, c->stream);
    NCCL_TRY(self, ncclCommAbort(ended[0]));
    NCCL_TRY(self, ncclCommDestroy(ended[1]));
    if (self->rank != 1)
        NCCL_TRY(self, ncclCommShrink(ended[2], (int[]){1}, 1, &rest, NULL, NCCL_SHRINK_ABORT));
    else
        NCCL_TRY(self, ncclCommAbort(ended[2]));
    NCCL_TRY(self, ncclGroupEnd());
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 1);
    CHECK_FLOATS(self, y, N, 3);
    if (self->rank == 1)
        goto out;
    check_sum(self, rest, c->stream, N, 1, 2);
    NCCL_TRY(self, ncclCommDestroy(rest));
    NCCL_TRY(self, ncclCommAbort(ended[2]));
out:
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
}
