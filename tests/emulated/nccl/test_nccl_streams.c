/* The stand-in's operations in groups, on several streams and in graphs; its record. */
#include "folder.h"
#include "nccl_client.h"

#include <glob.h>

enum { N = 64 };

TEST_GROUP(nccl_streams, 60, IN_A_FOLDER);

/* Other streams, of which a group joins all. */
DEVICE_TEST(nccl_streams, groups_join_their_streams, 3, .env = {{"NCCL_STANDIN_DELAY_US", "20000"}})
{
    CUstream other = NULL;
    float *x = floats(N, 1), *y = floats(N, 2), *got = floats(N, 0);
    int next = (self->rank + 1) % 3, before = (self->rank + 2) % 3;
    JOIN(self);
    CU_TRY(self, cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 5; i++) {
        NCCL_TRY(self, ncclGroupStart());
        NCCL_TRY(self, ncclRecv(got, N, ncclFloat32, before, c->comm, other));
        NCCL_TRY(self, ncclGroupStart());
        NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
        NCCL_TRY(self, ncclAllReduce(y, y, N, ncclFloat32, ncclMax, c->comm, other));
        NCCL_TRY(self, ncclGroupEnd());
        NCCL_TRY(self, ncclSend(y, N, ncclFloat32, next, c->comm, c->stream));
        CU_TRY(self, cu.cuStreamQuery(c->stream)); /* nothing is enqueued before the last end */
        NCCL_TRY(self, ncclGroupEnd());
        CU_TRY(self, cu.cuStreamSynchronize(i % 2 ? other : c->stream)); /* either has all */
        CHECK_FLOATS(self, x, N, i % 2 ? 9 : 3);
        CHECK_FLOATS(self, got, N, 2);
        for (int k = 0; k < N && i % 2; k++)
            x[k] = 1;
        CU_TRY(self, cu.cuCtxSynchronize());
    }
out:
    cu.cuStreamDestroy(other);
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
    cu.cuMemFreeHost(got);
}

/* Operations of one communicator run in their order: nothing else orders these streams. */
DEVICE_TEST(nccl_streams, a_communicator_orders_its_streams, 3,
            .env = {{"NCCL_STANDIN_DELAY_US", "2000"}})
{
    CUstream other = NULL;
    float *x = floats(N, 1);
    JOIN(self);
    CU_TRY(self, cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 10; i++) {
        NCCL_TRY(self,
                 ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, i % 2 ? other : c->stream));
        NCCL_TRY(self,
                 ncclBroadcast(x, x, N, ncclFloat32, i % 3, c->comm, i % 2 ? c->stream : other));
    }
    CU_TRY(self, cu.cuStreamSynchronize(other));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, 59049);
out:
    cu.cuStreamDestroy(other);
    cu.cuMemFreeHost(x);
}

/* Replays, with eager operations on another stream at the same time. */
DEVICE_TEST(nccl_streams, graphs_are_replayed_beside_eager_calls, 3,
            .env = {{"NCCL_STANDIN_DELAY_US", "2000"}})
{
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    CUstream other = NULL;
    float *x = floats(N, 1), *y = floats(N, 1), *got = floats(N, 0);
    int next = (self->rank + 1) % 3, before = (self->rank + 2) % 3;
    JOIN(self);
    CU_TRY(self, cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    CU_TRY(self, cu.cuStreamBeginCapture(c->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclSum, c->comm, c->stream));
    NCCL_TRY(self, ncclGroupStart());
    NCCL_TRY(self, ncclSend(x, N, ncclFloat32, next, c->comm, c->stream));
    NCCL_TRY(self, ncclRecv(got, N, ncclFloat32, before, c->comm, c->stream));
    NCCL_TRY(self, ncclGroupEnd());
    CU_TRY(self, cu.cuStreamEndCapture(c->stream, &graph));
    CU_TRY(self, cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    CHECK_FLOATS(self, x, N, 1);
    for (int i = 0; i < 5; i++) {
        CU_TRY(self, cu.cuGraphLaunch(exec, c->stream));
        NCCL_TRY(self, ncclAllReduce(y, y, N, ncclFloat32, ncclSum, c->comm, other));
    }
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(other));
    CHECK_FLOATS(self, x, N, 243);
    CHECK_FLOATS(self, got, N, 243);
    CHECK_FLOATS(self, y, N, 243);
out:
    cu.cuGraphExecDestroy(exec);
    cu.cuGraphDestroy(graph);
    cu.cuStreamDestroy(other);
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
    cu.cuMemFreeHost(got);
}

/* Two communicators on one stream, whose operations come in another order on each rank. */
DEVICE_TEST(nccl_streams, communicators_are_independent, 2)
{
    ncclComm_t child = NULL;
    CUstream other = NULL;
    float *x = floats(N, 1), *y = floats(N, 1);
    JOIN(self);
    NCCL_TRY(self, ncclCommSplit(c->comm, 0, 0, &child, NULL));
    CU_TRY(self, cu.cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 2; i++) {
        bool first = i == self->rank;
        NCCL_TRY(self, ncclAllReduce(first ? x : y, first ? x : y, N, ncclFloat32, ncclSum,
                                     first ? c->comm : child, first ? c->stream : other));
    }
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(other));
    CHECK_FLOATS(self, x, N, 2);
    CHECK_FLOATS(self, y, N, 2);
out:
    ncclCommDestroy(child);
    cu.cuStreamDestroy(other);
    cu.cuMemFreeHost(x);
    cu.cuMemFreeHost(y);
}

/* ---- The record ---- */

DEVICE_TEST(nccl_streams, calls_are_recorded, 2)
{
    char prefix[80], text[2][256] = {{0}};
    float *x = floats(N, 1);
    glob_t found = {0};
    snprintf(prefix, sizeof prefix, "%s/record", folder);
    JOIN(self); /* a library before the stand-in may have a call of its own here */
    setenv("NCCL_STANDIN_RECORD", prefix, 1);
    NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclMax, c->comm, c->stream));
    NCCL_TRY(self, ncclBroadcast(x, x, N / 2, ncclFloat32, 1, c->comm, c->stream));
    NCCL_TRY(self, ncclCommFinalize(c->comm));
    if (self->rank == 0) {
        strcat(prefix, ".*");
        CHECK_RANK(self, glob(prefix, 0, NULL, &found) == 0 && found.gl_pathc == 2);
        for (int i = 0; i < 2; i++) {
            FILE *file = fopen(found.gl_pathv[i], "r");
            CHECK_RANK(self, file);
            text[i][fread(text[i], 1, sizeof text[i] - 1, file)] = 0;
            fclose(file);
            unlink(found.gl_pathv[i]);
        }
        CHECK_RANK_MSG(
            self,
            strcmp(text[0], "ncclAllReduce 64 7 2 0\nncclBroadcast 32 7 0 1\nncclCommFinalize\n") ==
                0,
            "%s", text[0]);
        CHECK_RANK(self, strcmp(text[0], text[1]) == 0);
    }
out:
    globfree(&found);
    unsetenv("NCCL_STANDIN_RECORD");
    cu.cuMemFreeHost(x);
}
