/* How long it takes to create a group again; run alone, since it measures. */
#include <stdio.h>
#include <stdlib.h>
#include "exercise.h"
#include "test.h"
#include "world.h"

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Many short batches: another program on this machine slows some, not all. */
enum { TIMED = 31, BATCHES = 30 };

WORLD_RANK(time_creation)
{
    symm_group *g[TIMED] = {NULL};
    int64_t us[TIMED], best = INT64_MAX;
    symm_usage before, after;
    for (int again = 0; again < BATCHES; again++) {
        RANK_TRY(self, symm_memory_usage(ctx, &before));
        for (int i = 0; i < TIMED; i++) {
            RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
            const int64_t start = now_us();
            RANK_TRY(self, group_of_all(world, &g[i]));
            us[i] = now_us() - start;
            RANK_TRY(self, symm_group_destroy(g[i]));
            g[i] = NULL;
        }
        qsort(us, TIMED, sizeof us[0], by_value);
        if (us[TIMED / 2] < best)
            best = us[TIMED / 2];
        RANK_TRY(self, symm_exchange(world, NULL, 0, NULL)); /* the last one is agreed to be free */
        RANK_TRY(self, symm_memory_usage(ctx, &after));
        CHECK_RANK_MSG(self, after.allocated == before.allocated && after.pending == before.pending,
                       "allocated %llu then %llu, pending %llu then %llu",
                       (unsigned long long)before.allocated, (unsigned long long)after.allocated,
                       (unsigned long long)before.pending, (unsigned long long)after.pending);
    }
    self->report->value[0] = best;
out:;
}

TEST_GROUP(time, 120);

TEST(time, creating_a_group_again_takes_less_than_a_millisecond)
{
    struct rank_report reports[4];
    setenv("SYMM_SEGMENT_BYTES", "16M", 1);
    ranks_run(4, RANKS_AS_PROCESSES, time_creation, NULL, reports, 60);
    ranks_assert_ok(reports, 4);
    printf("# creating a group of 4 emulated ranks again: median %lld us\n",
           (long long)reports[0].value[0]);
    ck_assert(TEST_INSTRUMENTED || reports[0].value[0] < 1000);
}
