/*
 * ThreadSanitizer sees what ranks do to each other's memory when they are threads. Two planted bugs
 * must be reported, and the same kernels without them must not: a flag without release order, and
 * memory that is written again without a barrier after the reading. Skipped without it.
 */
#include <symm/stream.h>
#include "kernels.h"
#include "test.h"
#include "world.h"

enum { RANKS = 3, THREADS = 32, ROUNDS = 5, TSAN_EXIT = 66 /* ThreadSanitizer's own exit code */ };

WORLD_RANK(hand_over)
{
    symm_kernel *kernel = NULL;
    test_hand_over_args a = {.planted = (uint32_t) * (const int32_t *)arg};
    int32_t wrong = 0;

    RANK_TRY(self, symm_kernel_load(ctx, &test_kernels, "test_hand_over", &kernel));
    RANK_TRY(self, symm_alloc(world, 4 * THREADS * sizeof *a.cells, (void **)&a.cells));
    RANK_TRY(self, symm_alloc(world, sizeof *a.flag, (void **)&a.flag));
    RANK_TRY(self, symm_alloc(world, sizeof *a.wrong, (void **)&a.wrong));
    RANK_TRY(self, symm_fill(a.flag, 0, sizeof *a.flag, NULL));
    RANK_TRY(self, symm_fill(a.wrong, 0, sizeof *a.wrong, NULL));
    RANK_TRY(self, symm_group_view(world, &a.view));
    for (a.round = 1; a.round <= ROUNDS; a.round++) {
        const symm_grid grid = {.blocks = 1, .threads = THREADS};
        RANK_TRY(self, symm_barrier(world, NULL));
        RANK_TRY(self, symm_launch(world, kernel, &grid, &a, sizeof a, NULL));
    }
    RANK_TRY(self, symm_copy(&wrong, a.wrong, sizeof wrong, NULL));
    RANK_TRY(self, symm_synchronize(world, NULL));
    self->report->wrong = wrong;
out:
    symm_kernel_unload(kernel);
}

WORLD_RANK(go_round)
{
    symm_kernel *kernel = NULL;
    const symm_grid grid = {.blocks = 1, .threads = THREADS};
    test_ring_args a = {.rounds = ROUNDS, .planted = *(const int32_t *)arg};
    int32_t wrong = 0;

    RANK_TRY(self, symm_kernel_load(ctx, &test_kernels, "test_ring", &kernel));
    RANK_TRY(self, symm_signal_pad_alloc(world, 1, &a.pad));
    RANK_TRY(self, symm_alloc(world, 4 * THREADS * sizeof *a.cells, (void **)&a.cells));
    RANK_TRY(self, symm_alloc(world, sizeof *a.wrong, (void **)&a.wrong));
    RANK_TRY(self, symm_fill(a.wrong, 0, sizeof *a.wrong, NULL));
    RANK_TRY(self, symm_group_view(world, &a.view));
    RANK_TRY(self, symm_barrier(world, NULL));
    RANK_TRY(self, symm_launch(world, kernel, &grid, &a, sizeof a, NULL));
    RANK_TRY(self, symm_copy(&wrong, a.wrong, sizeof wrong, NULL));
    RANK_TRY(self, symm_synchronize(world, NULL));
    if (!a.planted) /* else a late rank may find the next round's */
        self->report->wrong = wrong;
out:
    symm_kernel_unload(kernel);
}

/* The bug is in, or it is not. */
static void run(int n, rank_fn fn, int32_t planted)
{
    ranks_run_ok(n, RANKS_AS_THREADS, fn, &planted, 60);
}

TEST_GROUP(right, 60);

TEST(right, writing_again_after_a_barrier_is_no_race)
{
    run(RANKS, go_round, 0);
}

TEST(right, a_flag_with_release_order_is_no_race)
{
    run(2, hand_over, 0);
}

TEST_GROUP(planted, 60);

TEST_EXITS(planted, writing_again_without_a_barrier_is_reported, TEST_TSAN ? TSAN_EXIT : 0)
{
    if (!TEST_TSAN)
        TEST_SKIP("not built with ThreadSanitizer");
    run(RANKS, go_round, 1);
}

TEST_EXITS(planted, a_flag_without_release_order_is_reported, TEST_TSAN ? TSAN_EXIT : 0)
{
    if (!TEST_TSAN)
        TEST_SKIP("not built with ThreadSanitizer");
    run(2, hand_over, 1);
}
