/* The order of a group's calls on several streams, and its price: driver calls of an eager call. */
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include "bench.h"
#include "emulated.h"
#include "exercise.h"
#include "runtime/driver/driver.h"
#include "test.h"

enum { COUNT = 300, ROUNDS = 12 };

TEST_GROUP(price, 100);
TEST_GROUP(order, 300);

/* A stream that symm_stream_create() made, or one of other code. */
static symm_status open_stream(const struct bench *b, bool foreign, symm_stream *out)
{
    if (!foreign)
        return symm_stream_create(b->ctx, out);
    return symm__driver_current()->cuStreamCreate(out, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS
               ? SYMM_OK
               : SYMM_ERROR_DRIVER;
}

static void close_stream(bool foreign, symm_stream s)
{
    if (!foreign)
        symm_stream_destroy(s);
    else if (s)
        symm__driver_current()->cuStreamDestroy(s);
}

static symm_status all_reduce(const struct bench *b, symm_stream s)
{
    return symm_all_reduce(b->world, b->x, b->x, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL, s);
}

/* ---------------------------------------------------------------------------------------- price */

static int64_t ncalls(int rank)
{
    uint64_t (*count)(int);

    *(void **)&count = emulated_symbol("symm_emulated_calls");
    return (int64_t)count(rank);
}

/* What a call on the stream of the call before asks of the driver: no event is among it. */
BENCH_TEST(price, a_call_on_the_same_stream_makes_three_driver_calls, 2)
{
    enum { CALLS = 3 /* the current context, whether the stream is captured, the launch */ };
    RANK_TRY(self, all_reduce(b, b->s));
    RANK_TRY(self, symm_exchange(b->world, NULL, 0, NULL));
    for (int i = 1; i <= ROUNDS; i++) {
        emulated_set_fault("cuEventRecord#1+=700;cuStreamWaitEvent#1+=700");
        RANK_TRY(self, all_reduce(b, b->s));
        CHECK_RANK(self, ncalls(self->rank) == CALLS);
        RANK_TRY(self, symm_barrier(b->world, b->s));
        CHECK_RANK(self, ncalls(self->rank) == 2 * CALLS);
        RANK_TRY(self, symm_signal(b->world, b->pad, 0, 1 - self->rank, 1, b->s));
        RANK_TRY(self, symm_wait(b->world, b->pad, 0, 1 - self->rank, 1, b->s));
        CHECK_RANK(self, ncalls(self->rank) == 4 * CALLS);
    }
out:
    emulated_set_fault(NULL);
}

/* A stream of other code may be destroyed at any time, so the end of each call on it is marked. */
BENCH_TEST(price, a_call_on_a_stream_of_other_code_records_an_event, 2)
{
    symm_stream foreign = NULL;
    RANK_TRY(self, open_stream(b, true, &foreign));
    RANK_TRY(self, all_reduce(b, foreign));
    RANK_TRY(self, symm_exchange(b->world, NULL, 0, NULL));
    emulated_set_fault(NULL);
    RANK_TRY(self, all_reduce(b, foreign));
    CHECK_RANK(self, ncalls(self->rank) == 5);
    RANK_TRY(self, symm_synchronize(b->world, foreign));
out:
    close_stream(true, foreign);
}

/* ---------------------------------------------------------------------------------------- order */

enum parting { STAYS, DESTROYED, CAPTURED, FOREIGN, FOREIGN_DESTROYED, PARTINGS };

/* What happens to the first stream before the group's call on the second one. */
static symm_status part(enum parting how, symm_stream *first)
{
    if (how == CAPTURED)
        return symm_graph_begin(*first);
    if (how == DESTROYED || how == FOREIGN_DESTROYED) {
        close_stream(how == FOREIGN_DESTROYED, *first);
        *first = NULL;
    }
    return SYMM_OK;
}

/*
 * On rank 0 the first stream is held up before the data come, so a call on the second stream that
 * does not wait for the first one reduces the data of the round before. The second stream may have
 * the handle of the first one.
 */
static void check_round(struct rank *self, struct bench *b, symm_group *aside, symm_signal_pad *pad,
                        enum parting how, float value)
{
    symm_stream first = NULL, second = NULL;
    symm_graph graph = NULL;
    float *host = calloc(COUNT, sizeof *host);
    RANK_TRY(self, open_stream(b, how >= FOREIGN, &first));
    for (int i = 0; i < COUNT; i++)
        host[i] = value;
    if (self->rank == 0)
        RANK_TRY(self, symm_wait(aside, pad, 0, 1, 1, first));
    RANK_TRY(self, symm_copy(b->x, host, COUNT * sizeof *host, first));
    RANK_TRY(self, all_reduce(b, first));
    RANK_TRY(self, part(how, &first));
    RANK_TRY(self, symm_stream_create(b->ctx, &second));
    RANK_TRY(self, all_reduce(b, second));
    if (self->rank == 1)
        RANK_TRY(self, symm_signal(aside, pad, 0, 0, 1, b->s));
    RANK_TRY(self, symm_copy(host, b->x, COUNT * sizeof *host, second));
    RANK_TRY(self, symm_synchronize(b->world, second));
    for (int i = 0; i < COUNT; i++)
        self->report->wrong += host[i] != 4 * value;
    if (how == CAPTURED)
        RANK_TRY(self, symm_graph_end(first, &graph));
out:
    symm_graph_destroy(graph);
    close_stream(how >= FOREIGN, first);
    symm_stream_destroy(second);
    free(host);
}

static void check_partings(struct rank *self, struct bench *b)
{
    const int all[] = {0, 1};
    symm_group *aside = NULL;
    symm_signal_pad *pad = NULL;
    RANK_TRY(self, symm_group_create(b->world, 2, all, &aside));
    RANK_TRY(self, symm_signal_pad_alloc(aside, 1, &pad));
    for (int i = 0; i < ROUNDS * PARTINGS && self->report->status == SYMM_OK; i++)
        check_round(self, b, aside, pad, i % PARTINGS, (float)(i + 1));
    RANK_TRY(self, self->report->status);
out:
    symm_group_destroy(aside);
}

BENCH_TEST(order, calls_on_two_streams_are_in_order, 2)
{
    check_partings(self, b);
}

BENCH_TEST(order, calls_on_two_streams_are_in_order_in_weak_memory, 2,
           .env = {{"SYMM_EMULATED_WEAK", "1"}})
{
    check_partings(self, b);
}

/* A group waits for its work also when the stream is gone. */
BENCH_TEST(order, a_group_is_destroyed_after_its_work_on_a_destroyed_stream, 2)
{
    const int all[] = {0, 1};
    symm_group *group = NULL;
    symm_stream s = NULL;
    char *host = NULL;
    RANK_TRY(self, symm_group_create(b->world, 2, all, &group));
    RANK_TRY(self, symm_host_alloc(b->ctx, BENCH_NBYTES, (void **)&host));
    for (int i = 0; i < ROUNDS; i++) {
        RANK_TRY(self, symm_stream_create(b->ctx, &s));
        host[BENCH_NBYTES - 1] = 0;
        RANK_TRY(self, symm_fill(host, i + 1, BENCH_NBYTES, s));
        RANK_TRY(self, symm_barrier(group, s));
        symm_stream_destroy(s);
        s = NULL;
        RANK_TRY(self, symm_group_destroy(group));
        group = NULL;
        CHECK_RANK(self, host[BENCH_NBYTES - 1] == i + 1);
        RANK_TRY(self, symm_group_create(b->world, 2, all, &group));
    }
out:
    symm_stream_destroy(s);
    symm_group_destroy(group);
    symm_host_free(b->ctx, host);
}

/* Nothing tells where the group's last call ends in a stream that other code captures. */
BENCH_TEST(order, a_stream_captured_by_other_code_cannot_be_followed, 2)
{
    symm_stream first = NULL;
    CUgraph graph = NULL;
    RANK_TRY(self, symm_stream_create(b->ctx, &first));
    RANK_TRY(self, all_reduce(b, first));
    CHECK_RANK(self, symm__driver_current()->cuStreamBeginCapture(
                         first, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_STATE,
                     "symm_all_reduce: the stream of the group's last call is being captured",
                     all_reduce(b, b->s));
    CHECK_RANK(self, symm__driver_current()->cuStreamEndCapture(first, &graph) == CUDA_SUCCESS);
    RANK_TRY(self, all_reduce(b, b->s));
    RANK_TRY(self, symm_synchronize(b->world, b->s));
out:
    if (graph)
        symm__driver_current()->cuGraphDestroy(graph);
    symm_stream_destroy(first);
}

/* --------------------------------------------------------------------- calls that fail half-way */

static const char last_launch[] = "cuLaunchKernelEx#2=999",
                  last_launch_and_event[] = "cuLaunchKernelEx#2=999;cuEventRecord#4=999";

/* An all-gather whose first barrier is enqueued, and whose last one is refused. */
static symm_status fail_half_way(struct rank *self, const struct bench *b, symm_group *group,
                                 const char *faults, symm_stream s)
{
    const symm_options options = {.algo = SYMM_ALGO_COPY_ENGINE};

    emulated_set_fault(faults);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, "symm_all_gather: symm_stream_barrier<<<",
                     symm_all_gather(group, b->plain, b->x, 16, SYMM_FLOAT32, &options, s));
out:
    emulated_set_fault(NULL);
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

/* On rank 0 a new stream waits for rank 1, then fills *host and begins a call that fails. */
static symm_status fail_late(struct rank *self, const struct bench *b, symm_group *group,
                             const char *faults, bool foreign, char *host, symm_stream *out)
{
    *host = 0;
    RANK_TRY(self, open_stream(b, foreign, out));
    if (self->rank == 0)
        RANK_TRY(self, symm_wait(b->world, b->pad, 0, 1, 1, *out));
    RANK_TRY(self, symm_fill(host, 1, 1, *out));
    return fail_half_way(self, b, group, faults, *out);
out:
    return SYMM_ERROR_STATE;
}

/* Rank 1 lets rank 0's stream go on, late. */
static symm_status let_go_on(struct rank *self, const struct bench *b)
{
    if (self->rank == 0)
        return SYMM_OK;
    pause_ms(100);
    return symm_signal(b->world, b->pad, 0, 0, 1, b->s);
}

static void check_failed_call(struct rank *self, struct bench *b, bool foreign)
{
    const int all[] = {0, 1};
    symm_group *group = NULL;
    symm_stream failed = NULL, second = NULL;
    char *host = NULL;
    RANK_TRY(self, symm_group_create(b->world, 2, all, &group));
    RANK_TRY(self, symm_stream_create(b->ctx, &second));
    RANK_TRY(self, symm_host_alloc(b->ctx, 1, (void **)&host));
    RANK_TRY(self, fail_late(self, b, group, last_launch, foreign, host, &failed));
    RANK_TRY(self, symm_barrier(group, second));
    RANK_TRY(self, let_go_on(self, b));
    RANK_TRY(self, symm_synchronize(group, second));
    CHECK_RANK(self, *host == 1);
    close_stream(foreign, failed);
    RANK_TRY(self, fail_late(self, b, group, foreign ? last_launch_and_event : last_launch, foreign,
                             host, &failed));
    RANK_TRY(self, let_go_on(self, b));
    RANK_TRY(self, symm_group_leave(group)); /* waits for no other rank */
    group = NULL;
    CHECK_RANK(self, *host == 1);
out:
    close_stream(foreign, failed);
    symm_stream_destroy(second);
    symm_group_destroy(group);
    symm_host_free(b->ctx, host);
}

BENCH_TEST(order, work_of_a_call_that_fails_half_way_is_in_order, 2)
{
    check_failed_call(self, b, false);
}

BENCH_TEST(order, work_of_a_failed_call_on_a_stream_of_other_code_is_in_order, 2)
{
    check_failed_call(self, b, true);
}
