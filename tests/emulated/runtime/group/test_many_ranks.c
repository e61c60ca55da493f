/* 72 ranks, each a process, meet, make a group and sum, within a minute. */
#include <stdio.h>
#include <stdlib.h>
#include "exercise.h"
#include "test.h"
#include "world.h"

enum { LIMIT_S = 60, COUNT = 4097 };

WORLD_RANK(meet_and_sum)
{
    symm_group *g = NULL;
    int backwards[SYMM_MAX_RANKS];

    for (int r = 0; r < self->nranks; r++)
        backwards[r] = self->nranks - 1 - r;
    RANK_TRY(self, symm_group_create(world, self->nranks, backwards, &g));
    CHECK_RANK(self, symm_nranks(g) == self->nranks && symm_rank(g) == backwards[self->rank]);
    RANK_TRY(self, symm_barrier(g, NULL));
    RANK_TRY(self, symm_synchronize(g, NULL));
    RANK_TRY(self,
             exercise_all_reduce(self, ctx, g, SYMM_ALGO_ONE_SHOT, SYMM_FLOAT32, COUNT / 8, 1));
    RANK_TRY(self, exercise_all_reduce(self, ctx, g, SYMM_ALGO_TWO_SHOT, SYMM_BFLOAT16, COUNT, 2));
    self->report->value[0] = 1;
out:
    symm_group_destroy(g);
}

TEST_GROUP(seventy_two, LIMIT_S + 30);

TEST(seventy_two, seventy_two_ranks_meet_and_sum_within_a_minute)
{
    static struct rank_report reports[SYMM_MAX_RANKS];
    setenv("SYMM_EMULATED_DEVICES", "72", 1);
    const int64_t started = now_ms();
    ranks_run(SYMM_MAX_RANKS, RANKS_AS_PROCESSES, meet_and_sum, NULL, reports, LIMIT_S);
    const int64_t took = now_ms() - started;

    printf("# %d ranks: %.1f s\n", SYMM_MAX_RANKS, (double)took / 1000);
    ranks_assert_ok(reports, SYMM_MAX_RANKS);
    for (int r = 0; r < SYMM_MAX_RANKS; r++)
        ck_assert_int_eq(reports[r].value[0], 1);
    ck_assert_int_lt(took, LIMIT_S * INT64_C(1000));
}
