/*
 * ThreadSanitizer sees what ranks do to each other's memory when they are threads: a flag without
 * release order must be reported, and the same kernel with it must not. Skipped without it.
 */
#include <symm/stream.h>
#include "kernels.h"
#include "ranks.h"
#include "test.h"

#if defined __SANITIZE_THREAD__
enum { TSAN = 1 };
#elif defined __has_feature
enum { TSAN = __has_feature(thread_sanitizer) };
#else
enum { TSAN = 0 };
#endif

enum { THREADS = 32, ROUNDS = 5, TSAN_EXIT = 66 /* ThreadSanitizer's own exit code */ };

static void hand_over(struct rank *self, void *arg)
{
    symm_context *ctx = NULL;
    symm_kernel *kernel = NULL;
    test_hand_over_args a = {.planted = *(const uint32_t *)arg};
    int32_t wrong = 0;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, symm_kernel_load(ctx, &test_kernels, "test_hand_over", &kernel));
    RANK_TRY(self, symm_alloc(w, 4 * THREADS * sizeof *a.cells, (void **)&a.cells));
    RANK_TRY(self, symm_alloc(w, sizeof *a.flag, (void **)&a.flag));
    RANK_TRY(self, symm_alloc(w, sizeof *a.wrong, (void **)&a.wrong));
    RANK_TRY(self, symm_fill(a.flag, 0, sizeof *a.flag, NULL));
    RANK_TRY(self, symm_fill(a.wrong, 0, sizeof *a.wrong, NULL));
    RANK_TRY(self, symm_group_view(w, &a.view));
    for (a.round = 1; a.round <= ROUNDS; a.round++) {
        const symm_grid grid = {.blocks = 1, .threads = THREADS};
        RANK_TRY(self, symm_barrier(w, NULL));
        RANK_TRY(self, symm_launch(w, kernel, &grid, &a, sizeof a, NULL));
    }
    RANK_TRY(self, symm_copy(&wrong, a.wrong, sizeof wrong, NULL));
    RANK_TRY(self, symm_synchronize(w, NULL));
    self->report->wrong = wrong;
out:
    symm_kernel_unload(kernel);
    symm_context_destroy(ctx);
}

static void hand_over_with(uint32_t planted)
{
    ranks_run_ok(2, RANKS_AS_THREADS, hand_over, &planted, 60);
}

START_TEST(a_flag_with_release_order_is_no_race)
{
    hand_over_with(0);
}
END_TEST

START_TEST(a_flag_without_release_order_is_reported)
{
    if (!TSAN)
        TEST_SKIP("not built with ThreadSanitizer");
    hand_over_with(1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("planted race");
    TCase *right = test_case(suite, "release", 60), *planted = test_case(suite, "planted", 60);

    tcase_add_test(right, a_flag_with_release_order_is_no_race);
    /* The case ends well, and its process with the sanitizer's exit code. */
    tcase_add_exit_test(planted, a_flag_without_release_order_is_reported, TSAN ? TSAN_EXIT : 0);
    return test_main(suite);
}
