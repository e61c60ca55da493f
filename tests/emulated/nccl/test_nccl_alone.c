/* A program that uses NCCL where there is no NCCL: nccl/libnccl.so.2 alone. */
#include "nccl_client.h"

enum { N = 3000, LARGE = (17 << 20) / 4 /* floats; with NCCL, such a call would be forwarded */ };

/* Starts again with the library preloaded, in the place of the stand-in. */
void test_setup(void)
{
    setenv("SYMM_NCCL_LIBRARY", "none", 1);
    preload("nccl/libnccl.so.2");
}

TEST_GROUP(alone, 60);

#define TEXT(self, part)                                                                           \
    CHECK_RANK_MSG(self, strstr(ncclGetLastError(NULL), part), "%s", ncclGetLastError(NULL))
#define REFUSED(self, part, call)                                                                  \
    do {                                                                                           \
        NCCL_EXPECT(self, ncclInvalidUsage, call);                                                 \
        TEXT(self, part);                                                                          \
    } while (0)

DEVICE_TEST(alone, collectives_of_every_world_size_are_right, _i, .loop = {1, 9})
{
    const int n = self->nranks;
    const float all = (float)(n * (n - 1) / 2);
    float two = 2;
    ncclRedOp_t scaled;
    float *x = floats((size_t)n * N, (float)self->rank), *y = floats((size_t)n * N, -1);
    JOIN(self);
    check_facts(self, c->comm, self->rank, n, self->rank);
    check_sum(self, c->comm, c->stream, N, (float)self->rank, all);
    NCCL_TRY(self, ncclReduceScatter(x, y, N, ncclFloat32, ncclMax, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, y, N, n - 1);
    NCCL_TRY(self, ncclAllGather(x, y, 4 * N, ncclUint8, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    for (int r = 0; r < n; r++)
        CHECK_FLOATS(self, y + (size_t)r * N, N, r);
    NCCL_TRY(self, ncclAllReduce(x, x, 0, ncclFloat32, ncclSum, c->comm, c->stream));
    NCCL_TRY(self, ncclRedOpCreatePreMulSum(&scaled, &two, ncclFloat32, ncclScalarHostImmediate,
                                            c->comm));
    NCCL_TRY(self, ncclAllReduce(x, y, N, ncclFloat32, scaled, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, y, N, 2 * all);
    NCCL_TRY(self, ncclRedOpDestroy(scaled, c->comm));
out:
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
}

DEVICE_TEST(alone, large_calls_are_taken_too, 2)
{
    JOIN(self);
    check_sum(self, c->comm, c->stream, LARGE, 1, 2);
out:;
}

DEVICE_TEST(alone, splits_order_ranks_by_key, 4)
{
    JOIN(self);
    check_facts(self, c->comm, self->rank, 4, self->rank);
    check_splits(self, c, N);
out:;
}

/* One thread has both ranks, so no call may wait for the other rank's. */
DEVICE_TEST(alone, a_thread_has_several_devices, 1)
{
    enum { DEVICES = 2, COUNT = 100000 };
    ncclComm_t comms[DEVICES] = {NULL, NULL};
    CUcontext contexts[DEVICES] = {NULL, NULL};
    CUstream streams[DEVICES] = {NULL, NULL};
    float *x[DEVICES] = {floats(COUNT, 1), floats(COUNT, 2)};
    for (int i = 0; i < DEVICES; i++) {
        CU_TRY(self, cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
        CU_TRY(self, cu.cuCtxSetCurrent(contexts[i]));
        CU_TRY(self, cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    }
    NCCL_TRY(self, ncclCommInitAll(comms, DEVICES, NULL));
    for (int round = 0; round < 3; round++) {
        NCCL_TRY(self, ncclGroupStart());
        for (int i = 0; i < DEVICES; i++)
            NCCL_TRY(self,
                     ncclAllReduce(x[i], x[i], COUNT, ncclFloat32, ncclAvg, comms[i], streams[i]));
        NCCL_TRY(self, ncclGroupEnd());
        for (int i = 0; i < DEVICES; i++) {
            CU_TRY(self, cu.cuStreamSynchronize(streams[i]));
            CHECK_FLOATS(self, x[i], COUNT, 1.5);
        }
    }
out:
    for (int i = 0; i < DEVICES; i++) {
        ncclCommDestroy(comms[i]);
        cu.cuStreamDestroy(streams[i]);
        cu.cuDevicePrimaryCtxRelease(i);
        cu.cuMemFreeHost(x[i]);
    }
    cu.cuCtxSetCurrent(c->context);
}

DEVICE_TEST(alone, other_calls_are_refused_with_a_text, 2)
{
    float *x = floats(N, 1);
    ncclRedOp_t op;
    JOIN(self);
    REFUSED(self, "no such type or reduction",
            ncclAllReduce(x, x, N, ncclFloat32, ncclProd, c->comm, c->stream));
    REFUSED(self, "SYMM_NCCL_LIBRARY=none",
            ncclReduceScatter(x, x, N, ncclInt8, ncclSum, c->comm, c->stream));
    REFUSED(self, "this function", ncclBroadcast(x, x, N, ncclFloat32, 0, c->comm, c->stream));
    NCCL_EXPECT(self, ncclInvalidArgument,
                ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat32, ncclScalarDevice, c->comm));
    TEXT(self, "scalar is NULL");
    NCCL_TRY(self, ncclRedOpCreatePreMulSum(&op, x, ncclInt32, ncclScalarDevice, c->comm));
    REFUSED(self, "no such type or reduction",
            ncclAllReduce(x, x, N, ncclInt32, op, c->comm, c->stream));
    NCCL_TRY(self, ncclRedOpDestroy(op, c->comm));
    NCCL_EXPECT(self, ncclInvalidArgument,
                ncclAllReduce(NULL, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
    TEXT(self, "a buffer is NULL");
    NCCL_EXPECT(self, ncclInvalidArgument, ncclAllGather(x, x, N, ncclFloat32, NULL, c->stream));
    check_sum(self, c->comm, c->stream, N, 1, 2);
out:
    cu.cuMemFreeHost(x);
}

DEVICE_TEST(alone, wrong_ranks_are_refused, 1)
{
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    NCCL_TRY(self, ncclGetUniqueId(&id));
    NCCL_EXPECT(self, ncclInvalidArgument, ncclCommInitRank(&comm, 2, id, 2));
    TEXT(self, "rank 2 of 2 ranks");
    NCCL_EXPECT(self, ncclInvalidArgument, ncclCommInitRank(&comm, 0, id, 0));
    CU_TRY(self, cu.cuCtxSetCurrent(NULL));
    NCCL_EXPECT(self, ncclInvalidUsage, ncclCommInitRank(&comm, 1, id, 0));
    TEXT(self, "no device is current");
    CU_TRY(self, cu.cuCtxSetCurrent(c->context));
    CHECK_RANK(self, comm == NULL);
out:;
}

/* Two ranks on one device: they cannot join, and the communicator is not made. */
DEVICE_TEST(alone, ranks_that_cannot_join_get_the_reason, 2)
{
    ncclComm_t comm = (ncclComm_t)(void *)self;
    CUcontext first = NULL;
    CU_TRY(self, cu.cuDevicePrimaryCtxRetain(&first, 0));
    CU_TRY(self, cu.cuCtxSetCurrent(first));
    NCCL_EXPECT(self, ncclSystemError,
                ncclCommInitRank(&comm, 2, common_id(self->rank, place), self->rank));
    TEXT(self, "the same device");
    CHECK_RANK(self, comm == NULL);
out:
    cu.cuDevicePrimaryCtxRelease(0);
    cu.cuCtxSetCurrent(c->context);
}
