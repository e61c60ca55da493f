/* Windows of symmetric memory, with libsymm_nccl.so preloaded and the stand-in behind it. */
#include "nccl_client.h"
#include "nccl_record.h"

#include <stdlib.h>
#include "reference.h"

/* Areas as large as on GPUs: in the tests' small ones such calls take long. */
#define AREAS                                                                                      \
    {                                                                                              \
        "SYMM_STAGING_BYTES", "16M"                                                                \
    }

/* A rank's part of an all-gather by two ranks that symm takes in windows only. */
enum { PART = (8 << 20) + 4096, WHOLE = 2 * PART };

void test_setup(void)
{
    preload("libsymm_nccl.so");
}

TEST_GROUP(windows, 100, IN_A_FOLDER);

/* Fresh words of a rank, cheaply: these are millions. */
static uint64_t word(uint64_t round, int rank, size_t i)
{
    static _Thread_local uint64_t of = UINT64_MAX, base;
    const uint64_t key = round * 64 + (uint64_t)rank;
    if (of != key)
        base = reference_random(of = key, 0);
    return (base + i) * UINT64_C(0x9e3779b97f4a7c15);
}

static void fill(char *part, uint64_t round, int rank)
{
    for (size_t i = 0; i < PART / 8; i++)
        ((uint64_t *)(void *)part)[i] = word(round, rank, i);
}

static int64_t wrong_words(const char *part, uint64_t round, int rank)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < PART / 8; i++)
        wrong += ((const uint64_t *)(const void *)part)[i] != word(round, rank, i);
    return wrong;
}

/* Gathers fresh words of all ranks to `all`, out of place or in place. Returns the wrong ones. */
static int64_t gather(struct rank *self, struct client *c, char *all, bool in_place, uint64_t round)
{
    char *part = in_place ? all + (size_t)self->rank * PART : buffer(PART);
    int64_t wrong = -1;
    fill(part, round, self->rank);
    NCCL_TRY(self, ncclAllGather(part, all, PART, ncclUint8, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    wrong = 0;
    for (int r = 0; r < self->nranks; r++)
        wrong += wrong_words(all + (size_t)r * PART, round, r);
out:
    if (!in_place)
        cu.cuMemFreeHost(part);
    return wrong;
}

DEVICE_TEST(windows, large_gathers_in_them_are_taken, 2, .env = {AREAS})
{
    char *all = NULL;
    ncclWindow_t window = NULL;
    JOIN(self);
    NCCL_TRY(self, ncclMemAlloc((void **)&all, WHOLE + 4096));
    record(self);
    CHECK_RANK(self, gather(self, c, all, false, 1) == 0);
    CHECK_RANK(self, forwarded("ncclAllGather") == 1); /* still plain memory */
    NCCL_TRY(self,
             ncclCommWindowRegister(c->comm, all + 4096, WHOLE, &window, NCCL_WIN_COLL_SYMMETRIC));
    record(self);
    CHECK_RANK(self, gather(self, c, all + 4096, false, 2) == 0);
    CHECK_RANK(self, gather(self, c, all + 4096, true, 3) == 0);
    CHECK_RANK(self, forwarded("ncclAllGather") == 0);
    record(self);
    CHECK_RANK(self, gather(self, c, all, false, 4) == 0);
    CHECK_RANK(self, forwarded("ncclAllGather") == 1); /* begins before the window */
    NCCL_TRY(self, ncclCommWindowDeregister(c->comm, window));
    record(self);
    CHECK_RANK(self, gather(self, c, all + 4096, false, 5) == 0);
    CHECK_RANK(self, forwarded("ncclAllGather") == 1);
out:
    ncclMemFree(all);
}

/* In a graph, with the input in a second window. */
DEVICE_TEST(windows, graphs_gather_in_them, 2, .env = {AREAS})
{
    char *all = NULL, *part = NULL;
    ncclWindow_t windows[2] = {NULL};
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    JOIN(self);
    NCCL_TRY(self, ncclMemAlloc((void **)&all, WHOLE));
    NCCL_TRY(self, ncclMemAlloc((void **)&part, PART));
    NCCL_TRY(self, ncclGroupStart());
    NCCL_TRY(self,
             ncclCommWindowRegister(c->comm, all, WHOLE, &windows[0], NCCL_WIN_COLL_SYMMETRIC));
    NCCL_TRY(self,
             ncclCommWindowRegister(c->comm, part, PART, &windows[1], NCCL_WIN_COLL_SYMMETRIC));
    NCCL_TRY(self, ncclGroupEnd());
    record(self);
    CU_TRY(self, cu.cuStreamBeginCapture(c->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    NCCL_TRY(self, ncclAllGather(part, all, PART, ncclUint8, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamEndCapture(c->stream, &graph));
    CU_TRY(self, cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (uint64_t round = 0; round < 2; round++) {
        fill(part, round, self->rank);
        CU_TRY(self, cu.cuGraphLaunch(exec, c->stream));
        CU_TRY(self, cu.cuStreamSynchronize(c->stream));
        for (int r = 0; r < 2; r++)
            self->report->wrong += wrong_words(all + (size_t)r * PART, round, r);
    }
    CHECK_RANK(self, forwarded("ncclAllGather") == 0);
    NCCL_TRY(self, ncclCommWindowDeregister(c->comm, windows[1]));
    NCCL_TRY(self, ncclCommWindowDeregister(c->comm, windows[0]));
out:
    cu.cuGraphExecDestroy(exec);
    cu.cuGraphDestroy(graph);
    ncclMemFree(all);
    ncclMemFree(part);
}

/* Of integers, which at this size are taken only in windows. */
DEVICE_TEST(windows, reductions_in_them_are_taken, 2, .env = {AREAS})
{
    enum { N = (4 << 20) + 1024 };
    int32_t *x = NULL, *y = NULL;
    ncclWindow_t windows[2];
    int64_t wrong = 0;
    JOIN(self);
    NCCL_TRY(self, ncclMemAlloc((void **)&x, N * sizeof *x));
    NCCL_TRY(self, ncclMemAlloc((void **)&y, N * sizeof *y));
    NCCL_TRY(self, ncclCommWindowRegister(c->comm, x, N * sizeof *x, &windows[0],
                                          NCCL_WIN_COLL_SYMMETRIC));
    for (int i = 0; i < N; i++)
        x[i] = i * (self->rank + 1);
    record(self);
    NCCL_TRY(self, ncclAllReduce(x, y, N, ncclInt32, ncclSum, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_RANK(self, forwarded("ncclAllReduce") == 1); /* y is in no window */
    NCCL_TRY(self, ncclCommWindowRegister(c->comm, y, N * sizeof *y, &windows[1],
                                          NCCL_WIN_COLL_SYMMETRIC));
    memset(y, 0xff, N * sizeof *y);
    record(self);
    NCCL_TRY(self, ncclAllReduce(x, y, N, ncclInt32, ncclSum, c->comm, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_RANK(self, forwarded("ncclAllReduce") == 0);
    for (int i = 0; i < N; i++)
        wrong += y[i] != i * 3;
    CHECK_RANK_MSG(self, wrong == 0, "%lld wrong", (long long)wrong);
out:
    ncclMemFree(x); /* the communicator has the windows still */
    ncclMemFree(y);
}

/* A communicator that is polled is not ready before its window is. */
DEVICE_TEST(windows, nonblocking_communicators_register_them, 2, .env = {AREAS})
{
    ncclWindow_t window = NULL;
    char *all = NULL;
    JOIN_NONBLOCKING(self);
    await_ready(self, c->comm);
    NCCL_TRY(self, ncclMemAlloc((void **)&all, WHOLE));
    if (self->rank == 0)
        usleep(100000);
    NCCL_TRY(self, ncclCommWindowRegister(c->comm, all, WHOLE, &window, NCCL_WIN_COLL_SYMMETRIC));
    await_ready(self, c->comm);
    record(self);
    CHECK_RANK(self, gather(self, c, all, true, 6) == 0);
    CHECK_RANK(self, forwarded("ncclAllGather") == 0);
    NCCL_TRY(self, ncclCommWindowDeregister(c->comm, window));
out:
    ncclMemFree(all);
}

/* Rank 1 never registers one. */
DEVICE_TEST(windows, an_abort_ends_registering, 2, .timeout_s = 20)
{
    ncclWindow_t window = NULL;
    void *all = NULL;
    JOIN_NONBLOCKING(self);
    await_ready(self, c->comm);
    NCCL_TRY(self, ncclMemAlloc(&all, WHOLE));
    if (self->rank == 0)
        NCCL_TRY(self,
                 ncclCommWindowRegister(c->comm, all, WHOLE, &window, NCCL_WIN_COLL_SYMMETRIC));
    usleep(100000);
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
out:
    ncclMemFree(all);
}

/* Rank 1 registers a plain one, which NCCL refuses on both ranks. For symm's, rank 0 would wait. */
DEVICE_TEST(windows, an_error_while_they_are_mapped_is_seen, 2, .timeout_s = 20)
{
    const int flags = self->rank == 0 ? NCCL_WIN_COLL_SYMMETRIC : NCCL_WIN_DEFAULT;
    ncclResult_t state = ncclInProgress;
    ncclWindow_t window = NULL;
    void *all = NULL;
    JOIN_NONBLOCKING(self);
    await_ready(self, c->comm);
    NCCL_TRY(self, ncclMemAlloc(&all, WHOLE));
    NCCL_TRY(self, ncclCommWindowRegister(c->comm, all, WHOLE, &window, flags));
    while (state == ncclInProgress) {
        NCCL_TRY(self, ncclCommGetAsyncError(c->comm, &state));
        usleep(1000);
    }
    CHECK_RANK(self, state == ncclInvalidUsage);
    atomic_fetch_add(&place->count, 1);
    while (atomic_load(&place->count) < 2) /* neither rank's abort helps the other */
        usleep(1000);
    NCCL_TRY(self, ncclCommAbort(c->comm));
    c->comm = NULL;
out:
    ncclMemFree(all);
}

/* Both ranks in one thread: their windows are made in one group, as nccl-tests does. */
DEVICE_TEST(windows, a_thread_registers_those_of_several_devices, 1, .env = {AREAS})
{
    const int devices[] = {0, 1};
    ncclComm_t comms[2] = {NULL};
    CUcontext contexts[2] = {NULL};
    ncclWindow_t windows[2] = {NULL};
    CUstream streams[2] = {NULL};
    char *all[2] = {NULL};
    NCCL_TRY(self, ncclCommInitAll(comms, 2, devices));
    for (int i = 0; i < 2; i++) {
        CU_TRY(self, cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
        CU_TRY(self, cu.cuCtxSetCurrent(contexts[i]));
        CU_TRY(self, cu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        NCCL_TRY(self, ncclMemAlloc((void **)&all[i], WHOLE));
        fill(all[i] + (size_t)i * PART, 7, i);
    }
    NCCL_TRY(self, ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        CU_TRY(self, cu.cuCtxSetCurrent(contexts[i]));
        NCCL_TRY(self, ncclCommWindowRegister(comms[i], all[i], WHOLE, &windows[i],
                                              NCCL_WIN_COLL_SYMMETRIC));
    }
    NCCL_TRY(self, ncclGroupEnd());
    record(self);
    NCCL_TRY(self, ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        CU_TRY(self, cu.cuCtxSetCurrent(contexts[i]));
        NCCL_TRY(self, ncclAllGather(all[i] + (size_t)i * PART, all[i], PART, ncclUint8, comms[i],
                                     streams[i]));
    }
    NCCL_TRY(self, ncclGroupEnd());
    for (int i = 0; i < 2; i++) {
        CU_TRY(self, cu.cuCtxSetCurrent(contexts[i]));
        CU_TRY(self, cu.cuStreamSynchronize(streams[i]));
        for (int r = 0; r < 2; r++)
            self->report->wrong += wrong_words(all[i] + (size_t)r * PART, 7, r);
    }
    CHECK_RANK(self, forwarded("ncclAllGather") == 0);
out:
    for (int i = 0; i < 2; i++) {
        cu.cuCtxSetCurrent(contexts[i]);
        ncclCommDestroy(comms[i]);
        ncclMemFree(all[i]);
        cu.cuStreamDestroy(streams[i]);
        cu.cuCtxSetCurrent(NULL);
        if (contexts[i])
            cu.cuDevicePrimaryCtxRelease(i);
    }
    cu.cuCtxSetCurrent(c->context);
}

/* One rank cannot map it: then it is plain memory for all ranks. */
DEVICE_TEST(windows, what_one_rank_lacks_none_has, 2,
            .env = {AREAS, {"SYMM_EMULATED_FAULT", "cuMemGetAllocationPropertiesFromHandle@1=2"}})
{
    char *all = NULL;
    ncclWindow_t window = NULL;
    JOIN(self);
    NCCL_TRY(self, ncclMemAlloc((void **)&all, WHOLE));
    NCCL_TRY(self, ncclCommWindowRegister(c->comm, all, WHOLE, &window, NCCL_WIN_COLL_SYMMETRIC));
    CHECK_RANK(self, window);
    record(self);
    CHECK_RANK(self, gather(self, c, all, false, 8) == 0);
    CHECK_RANK(self, forwarded("ncclAllGather") == 1);
    NCCL_TRY(self, ncclCommWindowDeregister(c->comm, window));
out:
    ncclMemFree(all);
}
