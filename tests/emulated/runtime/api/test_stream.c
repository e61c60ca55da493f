/* Streams, events, pinned memory, and several groups at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include "bench.h"
#include "emulated.h"
#include "test.h"
#include "trace.h"

TEST_GROUP(events, 60);

/* Rank 0's stream is held up until rank 1, after the exchange, signals. */
static symm_status hold(const struct bench *b)
{
    return b->self->rank == 0 ? symm_wait(b->world, b->pad, 0, 1, 1, b->s) : SYMM_OK;
}

static symm_status let_go(const struct bench *b)
{
    symm_status st = symm_exchange(b->world, NULL, 0, NULL);

    if (st == SYMM_OK && b->self->rank == 1)
        st = symm_signal(b->world, b->pad, 0, 0, 1, b->s);
    return st;
}

BENCH_TEST(events, a_stream_waits_for_an_event_of_another, 2)
{
    symm_stream other = NULL;
    symm_event held = NULL, copied = NULL;
    char *host = NULL;
    int happened = -1;
    RANK_TRY(self, symm_stream_create(b->ctx, &other));
    RANK_TRY(self, symm_event_create(b->ctx, &held));
    RANK_TRY(self, symm_event_create(b->ctx, &copied));
    RANK_TRY(self, symm_host_alloc(b->ctx, 64, (void **)&host));
    memset(host, 1, 64);
    RANK_TRY(self, symm_event_query(held, &happened));
    CHECK_RANK(self, happened == 1);
    RANK_TRY(self, symm_event_synchronize(held));
    RANK_TRY(self, hold(b));
    RANK_TRY(self, symm_fill(b->plain, 7, 64, b->s));
    RANK_TRY(self, symm_event_record(held, b->s));
    RANK_TRY(self, symm_stream_wait(other, held));
    RANK_TRY(self, symm_copy(host, b->plain, 64, other));
    RANK_TRY(self, symm_event_record(copied, other));
    if (self->rank == 0) {
        RANK_TRY(self, symm_event_query(held, &happened));
        CHECK_RANK(self, happened == 0);
        RANK_TRY(self, symm_event_query(copied, &happened));
        CHECK_RANK(self, happened == 0 && host[63] == 1);
    }
    RANK_TRY(self, let_go(b));
    RANK_TRY(self, symm_event_synchronize(copied));
    CHECK_RANK(self, host[0] == 7 && host[63] == 7);
    RANK_TRY(self, symm_event_query(held, &happened));
    CHECK_RANK(self, happened == 1);
    RANK_TRY(self, symm_synchronize(b->world, b->s));
out:
    symm_host_free(b->ctx, host);
    symm_event_destroy(held);
    symm_event_destroy(copied);
    symm_stream_destroy(other);
}

BENCH_TEST(events, a_stream_can_be_waited_for_without_a_group, 2)
{
    char *host = NULL;
    RANK_TRY(self, symm_host_alloc(b->ctx, 64, (void **)&host));
    memset(host, 0, 64);
    RANK_TRY(self, let_go(b)); /* the signal may come first */
    RANK_TRY(self, hold(b));
    RANK_TRY(self, symm_fill(b->plain, 9, 64, b->s));
    RANK_TRY(self, symm_copy(host, b->plain, 64, b->s));
    RANK_TRY(self, symm_stream_synchronize(b->s));
    CHECK_RANK(self, host[63] == 9);
    RANK_TRY(self, symm_stream_synchronize(NULL));
out:
    symm_host_free(b->ctx, host);
}

BENCH_TEST(events, a_captured_wait_joins_the_streams, 2)
{
    symm_stream branch = NULL;
    symm_event fork = NULL, join = NULL;
    symm_graph graph = NULL;
    char host[64] = {0};
    int happened = -1;
    RANK_TRY(self, symm_stream_create(b->ctx, &branch));
    RANK_TRY(self, symm_event_create(b->ctx, &fork));
    RANK_TRY(self, symm_event_create(b->ctx, &join));
    RANK_TRY(self, symm_graph_begin(b->s));
    RANK_TRY(self, symm_event_record(fork, b->s));
    RANK_TRY(self, symm_stream_wait(branch, fork));
    RANK_TRY(self, symm_fill(b->plain, 5, 64, branch));
    RANK_TRY(self, symm_event_record(join, branch));
    RANK_TRY(self, symm_stream_wait(b->s, join));
    RANK_TRY(self, symm_graph_end(b->s, &graph));
    RANK_EXPECT(self, SYMM_ERROR_STATE, symm_event_query(join, &happened));
    RANK_EXPECT(self, SYMM_ERROR_STATE, symm_event_synchronize(join));
    CHECK_RANK(self, happened == -1);
    RANK_TRY(self, symm_graph_launch(graph, b->s));
    RANK_TRY(self, symm_copy(host, b->plain, 64, b->s));
    RANK_TRY(self, symm_stream_synchronize(b->s));
    CHECK_RANK(self, host[0] == 5 && host[63] == 5);
out:
    symm_graph_destroy(graph);
    symm_event_destroy(fork);
    symm_event_destroy(join);
    symm_stream_destroy(branch);
}

/* ----------------------------------------------------------------------------------- priorities */

static void make_streams(struct rank *self, void *arg)
{
    symm_context *ctx = NULL;
    symm_stream stream = NULL;
    int least = 7, greatest = 7;
    (void)arg;
    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, symm_stream_priorities(ctx, &least, &greatest));
    CHECK_RANK_MSG(self, least == 0 && greatest < 0, "%d to %d", least, greatest);
    RANK_TRY(self, symm_stream_create_with_priority(ctx, greatest, &stream));
    RANK_TRY(self, symm_synchronize(symm_context_world(ctx), stream));
out:
    symm_stream_destroy(stream);
    symm_context_destroy(ctx);
}

TEST(events, a_stream_has_the_priority_asked_for)
{
    trace_begin();
    ranks_run_ok(1, RANKS_AS_PROCESSES, make_streams, NULL, 50);
    ck_assert_int_eq(trace_count(0, "cuStreamCreateWithPriority"), 1);
    ck_assert_int_eq(trace_count(0, "priority=-5"), 1);
    trace_end();
}

/* ---------------------------------------------------------------------------------- host memory */

BENCH_TEST(events, pinned_memory_goes_through_collectives_and_is_freed_with_the_context, 2)
{
    float *host = NULL;
    void *left = NULL;
    RANK_TRY(self, symm_host_alloc(b->ctx, 4096, &left)); /* the leak count sees it */
    RANK_TRY(self, symm_host_alloc(b->ctx, 400, (void **)&host));
    for (int i = 0; i < 100; i++)
        host[i] = (float)(i + self->rank);
    RANK_TRY(self, symm_all_reduce(b->world, host, host, 100, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    RANK_TRY(self, symm_synchronize(b->world, b->s));
    for (int i = 0; i < 100; i++)
        self->report->wrong += host[i] != (float)(2 * i + 1);
    symm_device_free(b->ctx, host); /* not device memory: stays */
    host[0] = 1;
out:
    symm_host_free(b->ctx, host);
}

/* The leak count sees blocks that the context has lost. */
BENCH_TEST(events, memory_that_a_capture_keeps_is_freed_with_the_context, 1)
{
    symm_graph graph = NULL;
    void *device = NULL, *host = NULL;

    RANK_TRY(self, symm_device_alloc(b->ctx, 4096, &device));
    RANK_TRY(self, symm_host_alloc(b->ctx, 4096, &host));
    RANK_TRY(self, symm_graph_begin(b->s));
    symm_device_free(b->ctx, device);
    symm_host_free(b->ctx, host);
    RANK_EXPECT(self, SYMM_ERROR_STATE, symm_graph_end(b->s, &graph));
    CHECK_RANK(self, !graph);
out:;
}

BENCH_TEST(events, refusals_of_the_driver_are_told, 1)
{
    static const char *const calls[] = {"cuMemHostAlloc",      "cuStreamWaitEvent",
                                        "cuEventQuery",        "cuEventSynchronize",
                                        "cuStreamSynchronize", "cuCtxGetStreamPriorityRange"};
    symm_event event = NULL;
    void *host = NULL;
    int a = 77, c = 77;
    RANK_TRY(self, symm_event_create(b->ctx, &event));
    for (int i = 0; i < 6; i++) {
        char fault[64];
        snprintf(fault, sizeof fault, "%s#1=2", calls[i]);
        CHECK_RANK(self, emulated_set_fault(fault));
        const symm_status st = i == 0   ? symm_host_alloc(b->ctx, 4, &host)
                               : i == 1 ? symm_stream_wait(b->s, event)
                               : i == 2 ? symm_event_query(event, &a)
                               : i == 3 ? symm_event_synchronize(event)
                               : i == 4 ? symm_stream_synchronize(b->s)
                                        : symm_stream_priorities(b->ctx, &a, &c);
        emulated_set_fault(NULL);
        CHECK_RANK_MSG(self, st == SYMM_ERROR_MEMORY && strstr(symm_error_text(), calls[i]),
                       "%s: %d %s", calls[i], st, symm_error_text());
    }
    CHECK_RANK(self, a == 77 && c == 77 && !host);
out:
    symm_event_destroy(event);
}

BENCH_TEST(events, copies_and_fills_name_their_memory, 1)
{
    char host[16] = {0}, want[64];
    void *freed = NULL;
    RANK_TRY(self, symm_device_alloc(b->ctx, 64, &freed));
    symm_device_free(b->ctx, freed);
    snprintf(want, sizeof want, "symm_fill: dst %p, 16 bytes: cuMemsetD8Async", (void *)host);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, want, symm_fill(host, 0, 16, b->s));
    snprintf(want, sizeof want, "symm_copy: dst %p, src %p, 16 ", b->plain, freed);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, want, symm_copy(b->plain, freed, 16, b->s));
out:;
}

/* ------------------------------------------------------------------------------- several groups */

BENCH_TEST(events, groups_are_synchronized_together, 2)
{
    const int all[] = {0, 1};
    symm_group *second = NULL;
    symm_stream streams[2] = {b->s, NULL};
    char *host = NULL;
    RANK_TRY(self, symm_group_create(b->world, 2, all, &second));
    RANK_TRY(self, symm_stream_create(b->ctx, &streams[1]));
    RANK_TRY(self, symm_host_alloc(b->ctx, 4, (void **)&host));
    memset(host, 0, 4);
    symm_group *const groups[] = {b->world, second};
    RANK_TRY(self, symm_barrier(second, streams[1]));
    RANK_TRY(self, hold(b));
    RANK_TRY(self, let_go(b));
    RANK_TRY(self, symm_fill(host, 1, 4, streams[0]));
    RANK_TRY(self, symm_synchronize_groups(2, groups, streams));
    CHECK_RANK(self, host[3] == 1);
    RANK_TRY(self, symm_exchange(b->world, NULL, 0, NULL));
    if (self->rank == 0)
        symm_abort(second, "enough");
    /* The world's stream is waited for behind the failure. */
    RANK_TRY(self, symm_exchange(b->world, NULL, 0, NULL));
    symm_group *const turned[] = {second, b->world};
    symm_stream const theirs[] = {streams[1], streams[0]};
    RANK_TRY(self, symm_fill(host, 2, 4, streams[0]));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "symm_synchronize_groups: groups[0]: ",
                     symm_synchronize_groups(2, turned, theirs));
    CHECK_RANK(self, host[3] == 2);
    RANK_TRY(self, symm_synchronize(b->world, streams[0]));
out:
    symm_group_destroy(second);
    symm_stream_destroy(streams[1]);
    symm_host_free(b->ctx, host);
}
