/* symm_group_leave(): a rank goes by itself. */
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include "exercise.h"
#include "reference.h"
#include "test.h"
#include "world.h"

TEST_GROUP(leave, 100);

/* In any order, at any time; then the ranks may meet again, in a group as before. */
WORLD_TEST(leave, ranks_go_one_by_one, 2 + _i, .loop = {0, 4})
{
    symm_group *g = NULL;
    symm_usage before, after;
    for (uint64_t round = 0; round < 4; round++) {
        RANK_TRY(self, group_of_all(world, &g));
        RANK_TRY(self, exercise_group(self, ctx, g, round));
        if (round == 0)
            RANK_TRY(self, symm_group_reserve(g, 0));
        pause_ms((int)(reference_random(7, round * 8 + (uint64_t)self->rank) % 30));
        RANK_TRY(self, symm_group_leave(g));
        g = NULL;
        RANK_TRY(self, exercise_group(self, ctx, world, 10 + round)); /* which nobody has left */
        RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
        RANK_TRY(self, symm_memory_usage(ctx, round ? &after : &before));
    }
    CHECK_RANK_MSG(self, after.internal == before.internal && after.pending == 0,
                   "%llu bytes, then %llu", (unsigned long long)before.internal,
                   (unsigned long long)after.internal);
out:
    symm_group_leave(g);
}

/* Its last call is whole, on it and on the others, which come later. */
WORLD_TEST(leave, the_last_call_is_finished_first, 3)
{
    enum { COUNT = 5000 };
    symm_group *g = NULL;
    float *x = NULL, *host = malloc(COUNT * sizeof *host);
    RANK_TRY(self, symm_device_alloc(ctx, COUNT * sizeof *x, (void **)&x));
    for (uint64_t round = 0; round < 6; round++) {
        RANK_TRY(self, group_of_all(world, &g));
        reference_fill(host, COUNT, SYMM_FLOAT32, round, self->rank);
        RANK_TRY(self, symm_copy(x, host, COUNT * sizeof *x, s));
        RANK_TRY(self, symm_stream_synchronize(s));
        pause_ms((int)round % 3 == self->rank ? 40 : 0);
        RANK_TRY(self, symm_all_reduce(g, x, x, COUNT, SYMM_FLOAT32, SYMM_SUM, NULL, s));
        RANK_TRY(self, symm_group_leave(g));
        g = NULL;
        RANK_TRY(self, symm_copy(host, x, COUNT * sizeof *x, s));
        RANK_TRY(self, symm_synchronize(world, s));
        self->report->wrong +=
            reference_wrong(host, 0, COUNT, SYMM_FLOAT32, round, self->nranks, REFERENCE_EXACT);
    }
out:
    symm_group_leave(g);
    symm_device_free(ctx, x);
    free(host);
}

/* Rank 1 has left a group that rank 0 still has, when both create another one of the same ranks. */
WORLD_TEST(leave, a_pair_meets_again, 3)
{
    static const int pair[] = {0, 1};
    symm_group *old = NULL, *new = NULL;
    for (uint64_t round = 0; self->rank < 2 && round < 3; round++) {
        RANK_TRY(self, symm_group_create(world, 2, pair, &old));
        RANK_TRY(self, exercise_group(self, ctx, old, round));
        if (self->rank == 1) {
            RANK_TRY(self, symm_group_leave(old));
            old = NULL;
        }
        RANK_TRY(self, symm_group_create(world, 2, pair, &new));
        CHECK_RANK(self, !symm_multicast_off(new));
        RANK_TRY(self, exercise_group(self, ctx, new, 10 + round));
        RANK_TRY(self, symm_group_leave(old));
        RANK_TRY(self, symm_group_destroy(new));
        old = new = NULL;
    }
    RANK_TRY(self, exercise_group(self, ctx, world, 23));
out:
    symm_group_leave(old);
    symm_group_leave(new);
}

/* A rank that needs it learns that it has left, and can go, too. The world lives. */
WORLD_TEST(leave, a_vote_without_it_fails, 3)
{
    symm_group *g = NULL;
    void *x = (void *)1;
    RANK_TRY(self, group_of_all(world, &g));
    if (self->rank != 1) {
        const int64_t start = now_ms();
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 1 has left", symm_alloc(g, 1000, &x));
        CHECK_RANK(self, now_ms() - start < 2000 && x == (void *)1);
        RANK_EXPECT(self, SYMM_ERROR_PEER, symm_check(g));
    } else {
        pause_ms(100);
        RANK_TRY(self, symm_group_leave(g));
        g = NULL;
    }
    RANK_TRY(self, exercise_group(self, ctx, world, 20));
out:
    symm_group_leave(g);
}

WORLD_TEST(leave, a_wait_for_it_ends, 2, .env = {{"SYMM_TIMEOUT_MS", "4000"}, {"SYMM_CHECK", "0"}})
{
    symm_group *g = NULL;
    RANK_TRY(self, group_of_all(world, &g));
    RANK_TRY(self, symm_barrier(g, s));
    if (self->rank == 0) {
        pause_ms(200);
        RANK_TRY(self, symm_barrier(g, s));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 1 has left the group",
                         symm_synchronize(g, s));
        RANK_EXPECT(self, SYMM_ERROR_PEER, symm_group_leave(g)); /* which has released it */
    } else {
        RANK_TRY(self, symm_group_leave(g));
        pause_ms(4300); /* until rank 0's wait has ended */
    }
    g = NULL;
    RANK_TRY(self, exercise_group(self, ctx, world, 21));
out:
    symm_group_leave(g);
}

WORLD_TEST(leave, what_may_not_be_left, 2)
{
    symm_group *g = NULL;
    symm_graph graph = NULL;
    RANK_TRY(self, symm_group_leave(NULL));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "world group", symm_group_leave(world));
    RANK_TRY(self, group_of_all(world, &g));
    RANK_TRY(self, symm_graph_begin(s));
    RANK_TRY(self, symm_barrier(g, s));
    RANK_EXPECT(self, SYMM_ERROR_STATE, symm_group_leave(g));
    RANK_TRY(self, symm_graph_end(s, &graph));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL)); /* the other rank is as far */
    symm_abort(g, "test");
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm_group_leave(g));
    g = NULL;
    RANK_TRY(self, exercise_group(self, ctx, world, 22));
out:
    symm_graph_destroy(graph);
    symm_group_leave(g);
}
