/* Groups: their ranks and order, overlaps, shared memory, the order of their calls. */
#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "group_pair.h"
#include "test.h"
#include "world.h"

/* The ranks of a mask, ascending; returns how many. */
static int ranks_of(unsigned mask, int ranks[])
{
    int n = 0;
    for (int r = 0; r < 32; r++)
        if (mask >> r & 1)
            ranks[n++] = r;
    return n;
}

static int place_of(const int ranks[], int n, int rank)
{
    for (int i = 0; i < n; i++)
        if (ranks[i] == rank)
            return i;
    return -1;
}

TEST_GROUP(members, 90);

WORLD_TEST(members, any_subset_of_the_ranks_makes_a_group, 4, _i, .loop = {0, 2})
{
    symm_group *g = NULL;
    int ranks[RANKS_MAX];
    for (unsigned mask = 1; mask < 1u << self->nranks; mask++) {
        const int n = ranks_of(mask, ranks);
        if (!(mask >> self->rank & 1))
            continue;
        RANK_TRY(self, symm_group_create(world, n, ranks, &g));
        CHECK_RANK(self, symm_nranks(g) == n && symm_rank(g) == place_of(ranks, n, self->rank));
        RANK_TRY(self,
                 exercise_all_reduce(self, ctx, g, SYMM_ALGO_TWO_SHOT, SYMM_BFLOAT16, 777, mask));
        RANK_TRY(self, symm_group_destroy(g));
        g = NULL;
    }
out:
    symm_group_destroy(g);
}

WORLD_TEST(members, groups_overlap, 4)
{
    static const int low[] = {0, 1, 2}, high[] = {1, 2, 3}, ends[] = {3, 0};
    symm_group *a = NULL, *b = NULL, *c = NULL;
    if (self->rank <= 2)
        RANK_TRY(self, symm_group_create(world, 3, low, &a));
    if (self->rank >= 1)
        RANK_TRY(self, symm_group_create(world, 3, high, &b));
    if (self->rank == 0 || self->rank == 3)
        RANK_TRY(self, symm_group_create(world, 2, ends, &c));
    for (uint64_t round = 0; round < 3; round++) {
        if (a)
            RANK_TRY(self, exercise_group(self, ctx, a, round));
        if (b)
            RANK_TRY(self, exercise_group(self, ctx, b, round + 10));
        if (c)
            RANK_TRY(self, exercise_group(self, ctx, c, round + 20));
        RANK_TRY(self, exercise_group(self, ctx, world, round + 30));
    }
    CHECK_RANK(self, !c || symm_rank(c) == (self->rank == 3 ? 0 : 1));
out:
    symm_group_destroy(c);
    symm_group_destroy(a);
    symm_group_destroy(b);
}

WORLD_TEST(members, a_group_numbers_its_ranks_in_the_order_given, 4)
{
    static const int order[] = {3, 2, 1, 0};
    symm_group *g = NULL;
    int32_t *x = NULL, got[4] = {0}, mine = 100 + self->rank;
    RANK_TRY(self, symm_group_create(world, 4, order, &g));
    CHECK_RANK(self, symm_rank(g) == 3 - self->rank);
    RANK_TRY(self, symm_alloc(g, sizeof got, (void **)&x));
    /* Everybody writes its number into its place at rank 1 of the group: world rank 2. */
    RANK_TRY(self, symm_put(g, x + self->rank, &mine, sizeof mine, 1, s));
    RANK_TRY(self, symm_barrier(g, s));
    RANK_TRY(self, symm_copy(got, x, sizeof got, s));
    RANK_TRY(self, symm_synchronize(g, s));
    for (int r = 0; r < 4 && self->rank == 2; r++)
        CHECK_RANK_MSG(self, got[r] == 100 + r, "got[%d] is %d", r, got[r]);
    CHECK_RANK(self, symm_peer(g, x, 3 - self->rank) == x);
    CHECK_RANK(self, symm_peer(g, x, 0) == symm_peer(world, x, 3));
    RANK_TRY(self, exercise_group(self, ctx, g, 3));
out:
    symm_group_destroy(g);
}

/* What a member does wrong, and what the other one is told. */
WORLD_TEST(members, a_mistake_does_not_keep_the_members_apart, 2, _i,
           .env = {{"SYMM_TIMEOUT_MS", "2000"}}, .loop = {0, 2})
{
    static const int both[] = {0, 1}, turned[] = {1, 0}, twice[] = {1, 1};
    symm_group *g = NULL;
    const bool wrong = self->rank == 1;
    /* Local to rank 1: rank 0 waits in vain; or not, when rank 1 corrects itself. */
    for (int round = 0; round < 2; round++) {
        if (wrong)
            RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_group_create(world, 2, twice, &g));
        else if (round == 0)
            RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT,
                             "rank 1 did not reach symm_group_create(ranks 0 1)",
                             symm_group_create(world, 2, both, &g));
        if (round == 0 && wrong)
            pause_ms(1500); /* or it would wait for rank 0 as long as rank 0 for it */
        if (round == 0)
            RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
        RANK_TRY(self, symm_group_create(world, 2, both, &g));
        RANK_TRY(self, exercise_all_reduce(self, ctx, g, SYMM_ALGO_AUTO, SYMM_FLOAT32, 777,
                                           (uint64_t)round));
        RANK_TRY(self, symm_group_destroy(g));
        g = NULL;
    }
    /* What both hear of, at once. */
    const int64_t start = now_ms();
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "out is NULL (on rank 1)",
                     symm_group_create(world, 2, both, wrong ? NULL : &g));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH,
                     "rank 0: symm_group_create(ranks 0 1); rank 1: symm_group_create(ranks 1 0)",
                     symm_group_create(world, 2, wrong ? turned : both, &g));
    CHECK_RANK(self, now_ms() - start < 1000);
    RANK_TRY(self, symm_group_create(world, 2, turned, &g));
    RANK_TRY(self, symm_group_destroy(g));
    g = NULL;
out:
    symm_group_destroy(g);
}

/* "(on rank ...)" has both numbers; the ranks of all other texts are those of the world. */
WORLD_TEST(members, texts_tell_the_world_rank_of_a_member, 2)
{
    static const int turned[] = {1, 0};
    symm_group *g = NULL;
    void *p = NULL;
    RANK_TRY(self, symm_group_create(world, 2, turned, &g));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT,
                     self->rank ? "dst is NULL (on rank 0, world rank 1)"
                                : "dst is NULL (on rank 1, world ",
                     symm_put(g, NULL, &p, 4, 0, s));
    /* Of the other rank, in a vote. */
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "(on rank 0, world rank 1)",
                     symm_alloc(g, 64, self->rank ? NULL : &p));
    if (self->rank == 1)
        symm_abort(g, "enough");
    for (int i = 0; i < 500 && symm_check(g) == SYMM_OK; i++)
        pause_ms(10);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 1 aborted: enough", symm_check(g));
out:
    symm_group_destroy(g);
}

WORLD_TEST(members, a_group_needs_its_members_only_and_no_rank_0, 4)
{
    static const int others[] = {1, 2, 3};
    symm_group *g = NULL;
    int64_t start, took[4];
    start = now_ms();
    if (self->rank == 0) {
        pause_ms(2000); /* in no call of the library at all */
    } else {
        RANK_TRY(self, symm_group_create(world, 3, others, &g));
        RANK_TRY(self, exercise_group(self, ctx, g, 4));
        RANK_TRY(self, symm_group_destroy(g));
        g = NULL;
        self->report->value[0] = now_ms() - start;
    }
    RANK_TRY(self, symm_exchange(world, &self->report->value[0], sizeof took[0], took));
    CHECK_RANK_MSG(self, took[1] < 1900 && took[1] > 0, "%lld ms", (long long)took[1]);
out:
    symm_group_destroy(g);
}

WORLD_TEST(members, a_group_of_a_group_counts_in_its_parent, 4)
{
    static const int outer[] = {3, 1, 0}, inner[] = {2, 1}; /* world ranks 0 and 1 */
    symm_group *a = NULL, *b = NULL;
    if (self->rank != 2)
        RANK_TRY(self, symm_group_create(world, 3, outer, &a));
    if (self->rank < 2) {
        RANK_TRY(self, symm_group_create(a, 2, inner, &b));
        CHECK_RANK(self, symm_rank(b) == self->rank && symm_nranks(b) == 2);
        RANK_TRY(self, exercise_group(self, ctx, b, 6));
    }
    if (a)
        RANK_TRY(self, exercise_group(self, ctx, a, 7));
out:
    symm_group_destroy(b);
    symm_group_destroy(a);
}

TEST_GROUP(repeated, 90);

/* ---- Repeated, and memory ---- */

WORLD_TEST(repeated, groups_use_each_others_memory_where_all_their_ranks_have_it, 3)
{
    static const int pair[] = {0, 1};
    symm_group *a = NULL, *b = NULL, *few = NULL;
    void *x = NULL, *y = NULL;
    RANK_TRY(self, group_of_all(world, &a));
    RANK_TRY(self, group_of_all(world, &b));
    RANK_TRY(self, symm_alloc(a, 5000, &x));
    for (int r = 0; r < 3; r++)
        CHECK_RANK(self, symm_peer(b, x, r) && symm_peer(b, x, r) == symm_peer(a, x, r));
    if (self->rank < 2) {
        RANK_TRY(self, symm_group_create(world, 2, pair, &few));
        CHECK_RANK(self,
                   symm_peer(few, x, 1) == symm_peer(a, x, 1)); /* fewer ranks: the same bytes */
        RANK_TRY(self, symm_alloc(few, 5000, &y));
        CHECK_RANK(self, !symm_peer(a, y, 0)); /* not on all of the three */
        CHECK_RANK_MSG(self, symm_error_text()[0], "no text");
    }
    RANK_TRY(self, symm_group_destroy(few));
    few = NULL;
    RANK_TRY(self, symm_group_destroy(a));
    a = NULL;
    CHECK_RANK(self, !symm_peer(b, x, 0)); /* freed with the group it came from */
    RANK_TRY(self, exercise_group(self, ctx, b, 8));
out:
    symm_group_destroy(few);
    symm_group_destroy(a);
    symm_group_destroy(b);
}

WORLD_TEST(repeated, many_groups_live_at_once_and_die_with_the_context, 3)
{
    enum { MANY = 40 };
    symm_group *g[MANY] = {NULL};
    for (int i = 0; i < MANY; i++)
        RANK_TRY(self, group_of_all(world, &g[i]));
    for (int i = 0; i < MANY; i += 7)
        RANK_TRY(self, exercise_all_reduce(self, ctx, g[i], SYMM_ALGO_ONE_SHOT, SYMM_FLOAT16, 300,
                                           (uint64_t)i));
    for (int i = 0; i < MANY; i += 2) {
        RANK_TRY(self, symm_group_destroy(g[i]));
        g[i] = NULL;
    }
    RANK_TRY(self,
             exercise_all_reduce(self, ctx, g[MANY - 1], SYMM_ALGO_AUTO, SYMM_FLOAT16, 300, 99));
out:; /* leaving takes the other half along */
}

static const struct group_pair group_pairs[] = {
#define PAIR(n, ...)                                                                               \
    {                                                                                              \
        {__VA_ARGS__}, .count = 700, .max_blocks = 1, .replays = n, .looks = 50                    \
    }
    PAIR(1000, {ALL_REDUCE, SYMM_ALGO_ONE_SHOT}, {ALL_REDUCE, SYMM_ALGO_TWO_SHOT}),
    PAIR(1000, {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY}, {ALL_REDUCE, SYMM_ALGO_LOW_LATENCY_TWO_SHOT}),
    PAIR(1000, {ALL_REDUCE, SYMM_ALGO_LAMPORT}, {REDUCE_SCATTER, SYMM_ALGO_LAMPORT}),
    PAIR(300, {REDUCE_SCATTER, SYMM_ALGO_ONE_SHOT}, {ALL_GATHER, SYMM_ALGO_ONE_SHOT}),
    PAIR(300, {ALL_GATHER, SYMM_ALGO_LOW_LATENCY}, {REDUCE_SCATTER, SYMM_ALGO_LOW_LATENCY}),
    PAIR(300, {REDUCE_SCATTER, SYMM_ALGO_MULTIMEM}, {ALL_GATHER, SYMM_ALGO_MULTIMEM}),
    PAIR(300, {BROADCAST, SYMM_ALGO_LOW_LATENCY}, {BROADCAST, SYMM_ALGO_ONE_SHOT}),
};
enum { NGROUP_PAIRS = sizeof group_pairs / sizeof group_pairs[0] };

WORLD_RANK(replay_two_groups)
{
    group_pair_replay(self, ctx, arg);
}

TEST_GROUP(one_order, 180);

TEST_LOOP(one_order, two_groups_on_two_streams_replay_their_graphs_a_thousand_times, 0,
          NGROUP_PAIRS)
{
    struct rank_report reports[3];
    struct group_pair pair = group_pairs[_i];
    if (!collective_built(pair.variants[0].algo))
        TEST_SKIP("a build without multicast");
    if (TEST_INSTRUMENTED && pair.replays > 300)
        pair.replays = 200;
    setenv("SYMM_CHECK", "0", 1); /* calls come in another order on each rank */
    ranks_run(3, RANKS_AS_PROCESSES, replay_two_groups, &pair, reports, 150);
    ranks_assert_ok(reports, 3);
    ck_assert_int_eq(reports[0].value[0], 2 * pair.replays / 50);
}

WORLD_TEST(one_order, a_group_goes_on_while_another_one_waits, 2)
{
    symm_group *a = NULL, *b = NULL;
    symm_signal_pad *pad = NULL;
    RANK_TRY(self, group_of_all(world, &a));
    RANK_TRY(self, group_of_all(world, &b));
    RANK_TRY(self, symm_signal_pad_alloc(a, 1, &pad));
    if (self->rank == 0)
        RANK_TRY(self, symm_wait(a, pad, 0, 1, 1, s)); /* holds the stream of a */
    RANK_TRY(self, exercise_all_reduce(self, ctx, b, SYMM_ALGO_TWO_SHOT, SYMM_FLOAT32, 3000, 1));
    if (self->rank == 1)
        RANK_TRY(self, symm_signal(a, pad, 0, 0, 1, s));
    RANK_TRY(self, symm_synchronize(a, s));
out:
    symm_group_destroy(a);
    symm_group_destroy(b);
}

WORLD_TEST(one_order, a_call_on_another_stream_waits_for_the_call_before, 2)
{
    enum { COUNT = 2000 };
    symm_group *aside = NULL;
    symm_signal_pad *pad = NULL;
    symm_stream streams[3] = {s, NULL, NULL};
    float *x = NULL, *host = calloc(COUNT, sizeof *host);
    RANK_TRY(self, group_of_all(world, &aside));
    RANK_TRY(self, symm_alloc(world, COUNT * sizeof *x, (void **)&x));
    RANK_TRY(self, symm_signal_pad_alloc(aside, 1, &pad));
    for (int i = 1; i < 3; i++)
        RANK_TRY(self, symm_stream_create(ctx, &streams[i]));
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = (float)(1 + self->rank);
        RANK_TRY(self, symm_copy(x, host, COUNT * sizeof *x, streams[0]));
        /* The first stream is held up on rank 0; calls on the second one must wait. */
        if (self->rank == 0)
            RANK_TRY(self, symm_wait(aside, pad, 0, 1, 1, streams[0]));
        RANK_TRY(self,
                 symm_all_reduce(world, x, x, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL, streams[0]));
        RANK_TRY(self,
                 symm_all_reduce(world, x, x, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL, streams[1]));
        RANK_TRY(self,
                 symm_all_reduce(world, x, x, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL, streams[0]));
        if (self->rank == 1) {
            pause_ms(2);
            /* Of another group: in the world's order it would come after the sums. */
            RANK_TRY(self, symm_signal(aside, pad, 0, 0, 1, streams[2]));
        }
        RANK_TRY(self, symm_copy(host, x, COUNT * sizeof *x, streams[0]));
        RANK_TRY(self, symm_synchronize(world, streams[0]));
        for (int i = 0; i < COUNT; i++)
            self->report->wrong += host[i] != 3.0f * 2 * 2; /* (1 + 2), doubled twice */
    }
out:
    for (int i = 1; i < 3; i++)
        symm_stream_destroy(streams[i]);
    symm_group_destroy(aside);
    free(host);
}
