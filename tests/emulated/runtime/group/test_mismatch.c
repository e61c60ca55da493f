/* Different calls: all texts name both, at once with SYMM_CHECK, else after the timeout. */
#include <stdatomic.h>
#include <stdlib.h>
#include <symm/collectives.h>
#include <symm/stream.h>
#include "bench.h"
#include "exercise.h"
#include "test.h"

TEST_GROUP(disagreement, 60);

BENCH_TEST(disagreement, sizes_that_differ_are_a_mismatch_that_names_both, 2)
{
    int32_t mine[8] = {0}, all[16];
    void *p = NULL;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "4096",
                     symm_alloc(b->world, self->rank ? 8192 : 4096, &p));
    RANK_TEXT(self, "8192");
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "symm_exchange",
                     symm_exchange(b->world, mine, self->rank ? 8 : 4, all));
    CHECK_RANK(self, !p);
out:;
}

BENCH_TEST(disagreement, different_collective_calls_are_a_mismatch_that_names_both, 2)
{
    void *p = NULL;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "symm_alloc",
                     self->rank ? symm_trim(b->world) : symm_alloc(b->world, 4096, &p));
    RANK_TEXT(self, "symm_trim");
out:;
}

BENCH_TEST(disagreement, a_bad_argument_on_one_rank_reaches_the_others, 2)
{
    void *p = NULL;
    const symm_status st = rank_note(self, symm_alloc(b->world, self->rank ? 0 : 4096, &p));
    if (self->rank == 1)
        CHECK_RANK(self, st == SYMM_ERROR_ARGUMENT);
    CHECK_RANK_MSG(self, st == SYMM_ERROR_ARGUMENT || st == SYMM_ERROR_MISMATCH, "%s: %s",
                   symm_status_name(st), self->report->text);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "out is NULL (on rank 1)",
                     symm_alloc(b->world, 4096, self->rank ? NULL : &p));
    CHECK_RANK(self, !p);
out:;
}

BENCH_TEST(disagreement, a_bad_shape_on_one_rank_is_a_mismatch_on_the_others, 3)
{
    const int64_t shape[] = {self->rank == 1 ? 0 : 16};
    symm_tensor t = {.data = NULL};

    if (self->rank == 1) {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "symm_tensor_alloc: shape[0] is 0 (on rank 1)",
                         symm_tensor_alloc(b->world, SYMM_FLOAT32, 1, shape, &t));
    } else {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH,
                         "rank 0, 2: symm_alloc(64 bytes); rank 1: symm_tensor_alloc(1 dimensions)",
                         symm_tensor_alloc(b->world, SYMM_FLOAT32, 1, shape, &t));
    }
    CHECK_RANK(self, !t.data);
out:;
}

BENCH_TEST(disagreement, different_stream_calls_are_named_at_once_with_checking_on, 2)
{
    b->ended = true;
    RANK_EXPECT_TEXT(
        self, SYMM_ERROR_MISMATCH, "symm_all_reduce",
        self->rank ? symm_barrier(b->world, b->s)
                   : symm_all_reduce(b->world, b->x, b->x, 64, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    RANK_TEXT(self, "symm_barrier");
out:;
}

BENCH_TEST(disagreement, counts_that_differ_are_named_at_once_with_checking_on, 2)
{
    b->ended = true;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "4711",
                     symm_all_reduce(b->world, b->x, b->x, self->rank ? 4711 : 64, SYMM_FLOAT32,
                                     SYMM_SUM, NULL, b->s));
    RANK_TEXT(self, "64");
out:;
}

/* The ranks call on two groups, each first on another one. */
BENCH_TEST(disagreement, groups_in_opposite_orders_wait_for_each_other_with_checking_on, 2,
           .env = {{"SYMM_TIMEOUT_MS", "1000"}})
{
    static const int both[] = {0, 1};
    symm_group *groups[2] = {NULL, NULL};
    b->ended = true;
    for (int i = 0; i < 2; i++)
        RANK_TRY(self, symm_group_create(b->world, 2, both, &groups[i]));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, " (SYMM_CHECK=1 compares calls before they are ",
                     symm_barrier(groups[self->rank], b->s));
    /* The other rank may still wait in its call; destroying its group would be another call. */
    for (int i = 0; i < 500 && symm_check(groups[!self->rank]) == SYMM_OK; i++)
        pause_ms(20);
out:
    for (int i = 0; i < 2; i++)
        symm_group_destroy(groups[i]);
}

/* The votes of a call are called as it is. */
BENCH_TEST(disagreement, the_last_call_of_a_rank_is_a_public_one, 2,
           .env = {{"SYMM_TIMEOUT_MS", "1000"}})
{
    static const int both[] = {0, 1};
    symm_group *g = NULL;
    b->ended = true;
    RANK_TRY(self, symm_group_create(b->world, 2, both, &g));
    if (self->rank == 1)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT,
                         "the last call that rank 0 finished is symm_group_create",
                         symm_barrier(g, b->s));
    for (int i = 0; i < 500 && symm_check(g) == SYMM_OK; i++)
        pause_ms(20);
    CHECK_RANK(self, symm_check(g) == SYMM_ERROR_TIMEOUT);
out:
    symm_group_destroy(g);
}

#define UNCHECKED .env = {{"SYMM_CHECK", "0"}, {"SYMM_TIMEOUT_MS", "1000"}}

BENCH_TEST(disagreement, a_stalled_wait_names_peer_channel_expected_and_seen, 2, UNCHECKED)
{
    b->ended = true;
    const int64_t start = now_ms();
    if (self->rank == 0) {
        RANK_TRY(self, symm_wait(b->world, b->pad, 3, 1, 5, b->s));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "rank 1", symm_synchronize(b->world, b->s));
        RANK_TEXT(self, "channel 3");
        CHECK_RANK(self, strstr(self->report->text, "5") && strstr(self->report->text, "2"));
    } else {
        RANK_TRY(self, symm_signal(b->world, b->pad, 3, 0, 2, b->s)); /* two of the five */
        RANK_TRY(self, symm_synchronize(b->world, b->s));
        while (symm_check(b->world) == SYMM_OK && now_ms() < start + 10000)
            pause_ms(20);
        const symm_status st = symm_check(b->world);
        CHECK_RANK(self, st == SYMM_ERROR_TIMEOUT || st == SYMM_ERROR_PEER);
    }
    CHECK_RANK_MSG(self, now_ms() - start < 6000, "%lld ms", (long long)(now_ms() - start));
out:;
}

BENCH_TEST(disagreement, without_checking_different_counts_are_an_error_that_names_both, 2,
           UNCHECKED)
{
    b->ended = true;
    RANK_TRY(self, symm_all_reduce(b->world, b->x, b->x, self->rank ? 4711 : 64, SYMM_FLOAT32,
                                   SYMM_SUM, NULL, b->s));
    RANK_EXPECT(self, SYMM_ERROR_MISMATCH, symm_synchronize(b->world, b->s));
    if (self->rank == 0) {
        RANK_TEXT(self, "4711");
        RANK_TEXT(self, "64");
    }
out:;
}

RANK_WITH(call_differently, struct bench, b, bench_open, bench_close)
{
    b->ended = true;
    if (self->rank == 0)
        RANK_TRY(self,
                 symm_all_reduce(b->world, b->x, b->x, 64, SYMM_FLOAT32, SYMM_SUM, NULL, b->s));
    else
        RANK_TRY(self, symm_barrier(b->world, b->s));
    /* The barrier may be over before the other rank's kernel stalls. */
    symm_status st = symm_synchronize(b->world, b->s);
    for (int ms = 0; ms < 4000 && st == SYMM_OK; ms += 20, st = symm_check(b->world))
        pause_ms(20);
    rank_note(self, st);
out:;
}

TEST(disagreement, without_checking_different_calls_are_an_error_that_names_both)
{
    struct rank_report reports[2];
    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_TIMEOUT_MS", "1000", 1);
    ranks_run(2, RANKS_AS_PROCESSES, call_differently, NULL, reports, 30);
    ranks_assert_clean(reports, 2);
    ck_assert_int_ne(reports[0].status, SYMM_OK);
    ck_assert_int_ne(reports[1].status, SYMM_OK);
    const char *text = strstr(reports[0].text, "symm_barrier") ? reports[0].text : reports[1].text;
    ck_assert_msg(strstr(text, "symm_barrier") && strstr(text, "symm_all_reduce"), "%s | %s",
                  reports[0].text, reports[1].text);
}

/* The world, once it is there, for a log that asks for its status. */
static _Atomic(symm_group *) watched;

static void check_in_log(void *user, int level, const char *line)
{
    symm_group *world = atomic_load(&watched);

    (void)user;
    (void)level;
    (void)line;
    if (world)
        symm_check(world);
}

/* Rank 1 comes late, so rank 0's thread, which must end the world, reports all the time. */
RANKS_TEST(disagreement, a_log_may_ask_while_its_thread_ends_the_group, 2, RANKS_AS_PROCESSES,
           .env = {{"SYMM_CHECK", "0"}, {"SYMM_SLOW_MS", "1"}})
{
    static const int both[] = {0, 1};
    const int64_t start = now_ms();
    symm_context *ctx = NULL;
    symm_group *other = NULL;
    float *x = NULL;

    RANK_TRY(self, symm_context_create(&(symm_config){.log = check_in_log}, &ctx));
    symm_group *world = symm_context_world(ctx);
    RANK_TRY(self, symm_group_create(world, 2, both, &other));
    RANK_TRY(self, symm_alloc(world, 128 * sizeof *x, (void **)&x));
    atomic_store(&watched, world);
    RANK_TRY(self, symm_all_reduce(world, x, x, self->rank ? 128 : 64, SYMM_FLOAT32, SYMM_SUM,
                                   &(symm_options){.algo = SYMM_ALGO_ONE_SHOT}, NULL));
    if (self->rank)
        pause_ms(1000);
    RANK_TRY(self, symm_exchange(other, NULL, 0, NULL));
    RANK_EXPECT(self, SYMM_ERROR_MISMATCH, symm_synchronize(world, NULL));
    CHECK_RANK_MSG(self, now_ms() - start < 4000, "%lld ms", (long long)(now_ms() - start));
out:
    symm_group_destroy(other);
    symm_context_destroy(ctx);
    atomic_store(&watched, NULL);
}
