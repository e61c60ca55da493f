/*
 * Children of nonblocking communicators, with libsymm_nccl.so preloaded: all ranks take their
 * calls, whichever rank's part of the real library ends first.
 */
#include "nccl_client.h"
#include "nccl_record.h"

enum { N = 3000 };

void test_setup(void)
{
    preload("libsymm_nccl.so");
}

TEST_GROUP(children, 60, IN_A_FOLDER);

/* One child of a call, one of a group, and a rank in neither. The ranks are not equally fast. */
DEVICE_TEST(children, they_attach_together, 4, .env = {{"NCCL_STANDIN_DELAY_US", "20000"}})
{
    ncclComm_t halves = NULL, three = NULL;
    const int color = self->rank == 2 ? NCCL_SPLIT_NOCOLOR : 7;
    float *x = floats(N, 1);
    JOIN_NONBLOCKING(self);
    await_ready(self, c->comm);
    NCCL_TRY(self, ncclCommSplit(c->comm, self->rank % 2, 0, &halves, NULL));
    await_ready(self, c->comm);
    NCCL_TRY(self, ncclGroupStart());
    ncclCommSplit(c->comm, color, 0, &three, NULL);
    NCCL_EXPECT(self, ncclInProgress, ncclGroupEnd());
    await_ready(self, c->comm);
    CHECK_RANK(self, halves && (three == NULL) == (self->rank == 2));
    record(self);
    NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclSum, halves, c->stream));
    if (three)
        NCCL_TRY(self, ncclAllReduce(x, x, N, ncclFloat32, ncclSum, three, c->stream));
    CU_TRY(self, cu.cuStreamSynchronize(c->stream));
    CHECK_FLOATS(self, x, N, three ? 6 : 2);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 0);
out:
    if (halves)
        ncclCommDestroy(halves);
    if (three)
        ncclCommDestroy(three);
    cu.cuMemFreeHost(x);
}

/* Sums over a communicator, which is taken. */
static void check_taken(struct rank *self, ncclComm_t comm, CUstream stream, float expected)
{
    record(self);
    check_sum(self, comm, stream, N, 1, expected);
    CHECK_RANK(self, forwarded("ncclAllReduce") == 0);
out:;
}

/* The parent stays nonblocking after its calls were aborted. */
DEVICE_TEST(children, of_a_shrink_that_aborts_attach, 3, .timeout_s = 20,
            .env = {{"NCCL_STANDIN_DELAY_US", "20000"}})
{
    JOIN_NONBLOCKING(self);
    await_ready(self, c->comm);
    for (int i = 0; i < 2 && self->rank != 1; i++) {
        ncclComm_t rest = NULL;
        const int flags = i == 0 ? NCCL_SHRINK_ABORT : 0;
        NCCL_TRY(self, ncclCommShrink(c->comm, (int[]){1}, 1, &rest, NULL, flags));
        await_ready(self, c->comm);
        check_taken(self, rest, c->stream, 2);
        NCCL_TRY(self, ncclCommDestroy(rest));
    }
out:
    ncclCommAbort(c->comm);
    c->comm = NULL;
}

/* NCCL's variable goes before every configuration. */
DEVICE_TEST(children, of_parents_that_a_variable_makes_nonblocking_attach, 3, .timeout_s = 20,
            .env = {{"NCCL_STANDIN_DELAY_US", "20000"}, {"NCCL_COMM_BLOCKING", "0"}})
{
    ncclComm_t child = NULL;
    NCCL_EXPECT(self, ncclInProgress,
                ncclCommInitRank(&c->comm, 3, common_id(self->rank, place), self->rank));
    await_ready(self, c->comm);
    NCCL_TRY(self, ncclCommSplit(c->comm, 0, 0, &child, NULL));
    await_ready(self, c->comm);
    check_taken(self, child, c->stream, 3);
out:
    if (child)
        ncclCommDestroy(child);
}

/* Each rank polls another of two parents first. */
DEVICE_TEST(children, of_parents_that_are_polled_in_any_order_attach, 2, .timeout_s = 20)
{
    ncclComm_t parents[2] = {NULL}, halves[2] = {NULL};
    JOIN_NONBLOCKING(self);
    await_ready(self, c->comm);
    parents[0] = c->comm;
    NCCL_TRY(self, ncclCommSplit(c->comm, 0, 0, &parents[1], NULL));
    await_ready(self, c->comm);
    for (int i = 0; i < 2; i++)
        NCCL_TRY(self, ncclCommSplit(parents[i], 0, 0, &halves[i], NULL));
    for (int i = 0; i < 2; i++)
        await_ready(self, parents[i ^ self->rank]);
    for (int i = 0; i < 2; i++)
        check_taken(self, halves[i], c->stream, 2);
out:
    for (int i = 0; i < 2; i++)
        if (halves[i])
            ncclCommDestroy(halves[i]);
    if (parents[1])
        ncclCommDestroy(parents[1]);
}

/* Of one thread, which polls its communicators one after the other. */
DEVICE_TEST(children, of_several_devices_of_a_thread_attach, 1, .timeout_s = 20)
{
    const ncclUniqueId id = common_id(0, place);
    ncclComm_t comms[2] = {NULL}, children[2] = {NULL};
    CUcontext contexts[2] = {NULL};
    NCCL_TRY(self, ncclGroupStart());
    for (int i = 0; i < 2; i++) {
        CU_TRY(self, cu.cuDevicePrimaryCtxRetain(&contexts[i], i));
        CU_TRY(self, cu.cuCtxSetCurrent(contexts[i]));
        ncclCommInitRankConfig(&comms[i], 2, id, i, NONBLOCKING);
    }
    NCCL_EXPECT(self, ncclInProgress, ncclGroupEnd());
    for (int i = 0; i < 2; i++)
        await_ready(self, comms[i]);
    NCCL_TRY(self, ncclGroupStart());
    for (int i = 0; i < 2; i++)
        NCCL_TRY(self, ncclCommSplit(comms[i], 0, 0, &children[i], NULL));
    NCCL_EXPECT(self, ncclInProgress, ncclGroupEnd());
    for (int i = 0; i < 2; i++)
        await_ready(self, comms[i]);
    for (int i = 0; i < 2; i++)
        check_facts(self, children[i], i, 2, i);
out:
    for (int i = 0; i < 2; i++) {
        if (children[i])
            ncclCommDestroy(children[i]);
        if (comms[i])
            ncclCommDestroy(comms[i]);
        if (contexts[i])
            cu.cuDevicePrimaryCtxRelease(i);
    }
    cu.cuCtxSetCurrent(c->context);
}

/* Ranks 0 and 1 grow by rank 2, which comes when their calls have returned. */
static void check_grown(struct rank *self, struct client *c, struct meeting *place, bool in_group)
{
    const ncclUniqueId id = common_id(self->rank, place);
    ncclComm_t grown = NULL;
    if (self->rank < 2) {
        NCCL_EXPECT(self, ncclInProgress,
                    ncclCommInitRankConfig(&c->comm, 2, id, self->rank, NONBLOCKING));
        await_ready(self, c->comm);
    }
    if (self->rank == 0)
        ncclGetUniqueId(&place->id);
    atomic_fetch_add(&place->count, 1);
    while (atomic_load(&place->count) < (self->rank < 2 ? 3 : 5))
        usleep(1000);
    if (in_group)
        NCCL_TRY(self, ncclGroupStart());
    NCCL_TRY(self, ncclCommGrow(c->comm, 3, &place->id, self->rank < 2 ? -1 : 2, &grown,
                                self->rank < 2 ? NULL : NONBLOCKING));
    if (in_group)
        NCCL_EXPECT(self, ncclInProgress, ncclGroupEnd());
    atomic_fetch_add(&place->count, 1);
    CHECK_RANK(self, grown);
    await_ready(self, grown);
    check_taken(self, grown, c->stream, 3);
out:
    if (grown)
        ncclCommDestroy(grown);
}

DEVICE_TEST(children, grown_communicators_attach_by_themselves, 3, .timeout_s = 20)
{
    check_grown(self, c, place, false);
}

DEVICE_TEST(children, in_a_group_too, 3, .timeout_s = 20)
{
    check_grown(self, c, place, true);
}
