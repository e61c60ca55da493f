/*
 * Products whose results are collected, on the emulated driver: reduce-scatter, all-reduce and
 * all-scatter in worlds of 1 to 8, with random shapes, types, layouts and addresses, and other k on
 * each rank. The first result is compared with a reference in double precision, the others with its
 * bits.
 */
#include <stdio.h>
#include <stdlib.h>
#include "matmul_plan.h"
#include "test.h"

static void run(int nranks, enum ranks_mode mode, int first, int ncases)
{
    struct rank_report reports[RANKS_MAX];

    ranks_run(nranks, mode, matmul_run_plan,
              &(struct matmul_plan){.first = first, .ncases = ncases, .collected = true}, reports,
              120);
    ranks_assert_ok(reports, nranks);
    ck_assert_int_eq(reports[0].value[0], ncases);
}

TEST_GROUP(right, 250);

TEST_LOOP(right, every_world_is_right, 1, 9)
{
    run(_i, RANKS_AS_PROCESSES, 0, _i == 1 ? 60 : 33 - 3 * _i);
}

TEST_GROUP(threads, 250); /* ranks that ThreadSanitizer sees */

TEST_LOOP(threads, ranks_may_be_threads, 2, 5)
{
    run(_i, RANKS_AS_THREADS, 100, 9);
}

static const int block_sizes[] = {1, 3, 32, 33, 64};

TEST_LOOP(right, any_block_size_is_right, 0, 5)
{
    char text[16];
    snprintf(text, sizeof text, "%d", block_sizes[_i]);
    setenv("SYMM_EMULATED_BLOCK", text, 1);
    run(3, RANKS_AS_PROCESSES, 9 * _i, 9);
}

TEST_LOOP(right, one_or_two_SMs_are_enough, 1, 3)
{
    setenv("SYMM_EMULATED_SMS", _i == 1 ? "1" : "2", 1);
    run(4, RANKS_AS_PROCESSES, 9 * _i, 9);
}

TEST_LOOP(right, weakly_ordered_memory_makes_no_difference, 0, 4)
{
    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    matmul_weaken_memory(_i);
    run(3, RANKS_AS_PROCESSES, 200 + 9 * _i, 9);
}

TEST(right, counters_wrap)
{
    setenv("SYMM_EPOCH_START", "4294967294", 1);
    run(3, RANKS_AS_PROCESSES, 0, 6);
}

/* alpha 0 with and without every other term. Operands that must not be read are NaN. */
TEST_LOOP(right, a_factor_of_0_drops_its_term, 1, 4)
{
    static const float zero = 0, one = 1;
    static const float *const betas[] = {NULL, &zero, &one};
    struct matmul_case cases[18];

    for (int i = 0; i < 18; i++)
        cases[i] = (struct matmul_case){
            .kind = (symm_matmul_kind)(SYMM_MATMUL_REDUCE_SCATTER + i / 3 % 3),
            .activation = (symm_activation)(i % 3),
            .in = i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
            .out = i % 5 ? SYMM_FLOAT32 : SYMM_BFLOAT16,
            .addend = SYMM_FLOAT32,
            .m = 137,
            .k = 9,
            .l = 1 + i % 2,
            .nb = 1,
            .n = {130},
            .has_c = i % 3 == 2 || i / 9,
            .has_bias = i % 4 == 1,
            .alpha = &zero,
            .beta = betas[i % 3],
            .whole = i < 9,
            .layout = (uint64_t)i,
        };
    ranks_run_ok(_i, RANKS_AS_PROCESSES, matmul_run_plan,
                 &(struct matmul_plan){.ncases = 18, .cases = cases}, 120);
}

/* Of a rank's own k the estimates would differ: 8 suits another strategy than 512. */
static void create_with_own_k(struct rank *self, void *arg)
{
    struct matmul_case c = *(const struct matmul_case *)arg;
    symm_context *ctx = NULL;
    struct matmul_job job = {.m = NULL};

    c.k = self->rank == 1 ? 512 : 8;
    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, matmul_job_open(self, ctx, symm_context_world(ctx), &c, &job));
    RANK_TRY(self, matmul_job_create(self, &job));
    self->report->value[0] = symm_matmul_strategy(job.m);
out:
    matmul_job_close(&job);
    symm_context_destroy(ctx);
}

TEST_LOOP(right, ranks_with_other_k_choose_one_strategy, 2, 4)
{
    struct matmul_case c = {.kind = _i == 2 ? SYMM_MATMUL_REDUCE_SCATTER : SYMM_MATMUL_ALL_REDUCE,
                            .in = SYMM_BFLOAT16,
                            .out = SYMM_BFLOAT16,
                            .m = _i == 2 ? 300 : 700,
                            .l = 1,
                            .nb = 1,
                            .n = {_i == 2 ? 4096 : 1024},
                            .foreign = true,
                            .contiguous = true};
    struct rank_report reports[RANKS_MAX];

    setenv("SYMM_EMULATED_SMS", "8", 1);
    ranks_run(_i, RANKS_AS_PROCESSES, create_with_own_k, &c, reports, 60);
    ranks_assert_ok(reports, _i);
    for (int r = 1; r < _i; r++)
        ck_assert_int_eq(reports[r].value[0], reports[0].value[0]);
}
