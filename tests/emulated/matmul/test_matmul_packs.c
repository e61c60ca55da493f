/*
 * All-reduces of few rows whose product sends and adds packs of sums: worlds of every size, ragged
 * tiles, every type of partial sums, runs behind each other, ranks that are late or compute by
 * another kernel, with memory of the host's order and weakly ordered. Each result is compared with
 * a reference in double precision. The trace shows that no other kernel has added.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "matmul_pair.h"
#include "matmul_plan.h"
#include "matmul_rounds.h"
#include "reference.h"
#include "test.h"
#include "trace.h"

enum { ROUNDS = 4, BURST = 3, TINY_ROUNDS = 3 };

/* ---------------------------------------------------------------------------------------- cases */

/* Of whole packs, so that the data suit the Hopper kernel. */
static struct matmul_case draw(unsigned i)
{
    static const int32_t widths[] = {8, 64, 72, 128, 136, 192, 16, 224, 56, 256, 264, 320};
    static const symm_dtype partials[] = {0, SYMM_FLOAT32, SYMM_BFLOAT16, SYMM_FLOAT16},
                            outs[] = {SYMM_BFLOAT16, SYMM_FLOAT16, SYMM_FLOAT32};

    return (struct matmul_case){.kind = SYMM_MATMUL_ALL_REDUCE,
                                .strategy = SYMM_STRATEGY_FUSED,
                                .in = i % 2 ? SYMM_FLOAT16 : SYMM_BFLOAT16,
                                .out = outs[i % 3],
                                .partial = partials[i % 4],
                                .m = 1 + (int32_t)(i * 37 % 90),
                                .k = 8 * (1 + (int32_t)(i * 13 % 40)),
                                .l = 1 + (int32_t)(i % 5 == 2),
                                .nb = 1 + (int32_t)(i % 7 == 3),
                                .n = {widths[i % 12], widths[(i + 5) % 12]},
                                .constant_b = i % 4 == 1,
                                .contiguous = true,
                                .layout = i};
}

/* A tile or two with few elements: many seeds of weakly ordered memory. */
static struct matmul_case draw_tiny(unsigned i)
{
    struct matmul_case c = draw(i);

    c.m = 1 + (int32_t)(i % 3);
    c.k = 8 + 64 * (int32_t)(i % 2); /* one part, or two */
    c.l = c.nb = 1;
    c.n[0] = i % 5 ? 8 : 72;
    return c;
}

/* Runs it; packs: checks that each run was one launch, of the kernel that splits k. */
static void run(int nranks, struct matmul_rounds test, bool packs)
{
    const int launches =
        test.replayed ? 1 + test.burst : test.rounds * (test.burst ? test.burst : 1);

    test.first = 1 + reference_seed() % 1000;
    setenv("SYMM_EMULATED_EARLY", (test.first + test.c.layout) % 2 ? "1" : "0",
           1); /* a burst's runs overlap */
    trace_begin();
    ranks_run_ok(nranks, RANKS_AS_PROCESSES, matmul_run_rounds, &test, 120);
    for (int rank = 0; packs && rank < nranks; rank++) {
        const int split = trace_count(rank, "block=256,1,1") + trace_count(rank, "block=384,1,1");
        ck_assert_int_eq(split, launches);
        ck_assert_int_eq(trace_count(rank, "cuLaunchKernelEx"), launches);
    }
    trace_end();
}

/* --------------------------------------------------------------------------------------- groups */

TEST_GROUP(packs, 400);

/* Blocks that wait for other ranks all run at the same time, so few SMs have few of them. */
TEST_LOOP(packs, every_world_is_right, 0, 42)
{
    setenv("SYMM_EMULATED_SMS", _i % 2 ? "16" : "32", 1);
    run(2 + _i % 7, (struct matmul_rounds){draw((unsigned)_i), ROUNDS, BURST, -1, _i % 4 == 3, 0},
        true);
}

/* Rows of D, A and B of any stride: of some ranks the kernel behind the product adds. */
TEST_LOOP(packs, a_rank_may_compute_by_another_kernel, 0, 16)
{
    struct matmul_case c = draw((unsigned)_i);

    c.constant_b = false;
    c.contiguous = false;
    c.k_differs = _i % 2;
    c.n[0] += _i % 3;
    setenv("SYMM_EMULATED_SMS", "32", 1);
    run(2 + _i % 4, (struct matmul_rounds){c, ROUNDS, BURST, -1, false, 0}, false);
}

/* An alpha of 0 drops sums that are not numbers. */
TEST_LOOP(packs, factors_apply_to_the_sums, 0, 6)
{
    static const float alphas[] = {-0.5f, 0, 3};
    struct matmul_case c = draw((unsigned)_i);

    c.alpha = &alphas[_i % 3];
    c.contiguous = _i % 2;
    c.constant_b = false;
    setenv("SYMM_EMULATED_SMS", "32", 1);
    run(2 + _i % 3, (struct matmul_rounds){c, 2, 1, -1, false, 0}, c.contiguous);
}

TEST_LOOP(packs, a_late_rank_gets_and_gives_the_same, 0, 12)
{
    setenv("SYMM_EMULATED_SMS", "32", 1);
    run(2 + _i % 3,
        (struct matmul_rounds){draw((unsigned)_i * 5), ROUNDS, BURST, _i % 2, _i % 3 == 0, 0},
        true);
}

TEST_LOOP(packs, weakly_ordered_memory_makes_no_difference, 0, 48)
{
    if (TEST_TSAN)
        TEST_SKIP("under ThreadSanitizer memory is as strong as this machine's");
    matmul_weaken_memory(_i);
    unsetenv("SYMM_EMULATED_BLOCK"); /* the Hopper kernel needs its block */
    setenv("SYMM_EMULATED_SMS", "4", 1);
    run(2 + _i % 3,
        (struct matmul_rounds){draw_tiny((unsigned)_i), TINY_ROUNDS, BURST, _i / 2 % 3 - 1, false,
                               0},
        true);
}

TEST_LOOP(packs, counters_wrap, 0, 2)
{
    setenv("SYMM_EPOCH_START", "4294967294", 1);
    setenv("SYMM_EMULATED_SMS", "32", 1);
    run(2 + _i, (struct matmul_rounds){draw((unsigned)_i), ROUNDS, 1, -1, false, 0}, true);
}

/* More tiles than SMs, or a c on some rank: another way, which is right, too. */
TEST_LOOP(packs, products_that_cannot_have_packs_run, 0, 2)
{
    struct matmul_case c = draw(9);

    c.has_c = _i == 0;
    c.addend = SYMM_FLOAT32;
    setenv("SYMM_EMULATED_SMS", _i ? "2" : "32", 1);
    run(3, (struct matmul_rounds){c, 2, 2, -1, false, 0}, false);
}

/*
 * A run of each group fills the device. If a group's next run began before this run is resident on
 * both ranks, each rank could hold two runs of one group: rank 0 of the first, rank 1 of the
 * second. No run would end.
 */
TEST_LOOP(packs, two_groups_have_room, 0, 3)
{
    const struct matmul_case c = {.kind = SYMM_MATMUL_ALL_REDUCE,
                                  .strategy = SYMM_STRATEGY_FUSED,
                                  .in = SYMM_BFLOAT16,
                                  .out = SYMM_BFLOAT16,
                                  .m = 1 + _i * 7,
                                  .k = 64,
                                  .l = 1,
                                  .nb = 1,
                                  .n = {256},
                                  .constant_b = _i == 1,
                                  .contiguous = true};
    const struct matmul_case cases[1][2] = {{c, c}};
    struct matmul_pairs pairs = {
        .cases = cases, .ncases = 1, .rounds = 3, .apart_ms = _i % 2 ? 0 : 20, .more = 5};

    setenv("SYMM_CHECK", "0", 1); /* it demands one order of calls */
    setenv("SYMM_EMULATED_SMS", "4", 1);
    setenv("SYMM_EMULATED_EARLY", "1", 1);
    ranks_run_ok(2, RANKS_AS_PROCESSES, matmul_run_pairs, &pairs, 60);
}

/* On 4 SMs a run has half of the places: too many to begin early behind anything but a run. */
static const struct matmul_case half_of_the_places = {.kind = SYMM_MATMUL_ALL_REDUCE,
                                                      .strategy = SYMM_STRATEGY_FUSED,
                                                      .in = SYMM_FLOAT16,
                                                      .out = SYMM_FLOAT16,
                                                      .m = 5,
                                                      .k = 64,
                                                      .l = 1,
                                                      .nb = 1,
                                                      .n = {256},
                                                      .contiguous = true};

TEST(packs, runs_begin_early_behind_each_other)
{
    struct matmul_rounds test = {half_of_the_places, ROUNDS, BURST, -1, false, 0};

    setenv("SYMM_EMULATED_SMS", "4", 1);
    trace_begin();
    ranks_run_ok(2, RANKS_AS_PROCESSES, matmul_run_rounds, &test, 60);
    for (int rank = 0; rank < 2; rank++) {
        const int early = trace_count(rank, "grid=4,1,1 block=256,1,1 early=1"),
                  all = trace_count(rank, "grid=4,1,1 block=256,1,1");
        ck_assert_int_eq(all, ROUNDS * BURST);
        ck_assert_int_ge(early, ROUNDS * (BURST - 1));
        ck_assert_int_lt(early, all);
    }
    trace_end();
}

/* ----------------------------------------------------------- behind other kernels on the stream */

/* The runs of a round, each between other calls on its stream, of a group of its own. */
static symm_status run_between(struct rank *self, struct matmul_job *job, symm_group *others,
                               float *x, symm_stream stream)
{
    for (int i = 0; i < BURST; i++) {
        RANK_TRY(self, symm_all_reduce(others, x, x, 4, SYMM_FLOAT32, SYMM_SUM, NULL, stream));
        RANK_TRY(self, matmul_job_run(self, job, stream));
    }
    RANK_TRY(self, matmul_job_fetch(self, job, NULL, stream));
    return matmul_job_look(self, job);
out:
    return SYMM_ERROR_STATE;
}

static void run_two_groups(struct rank *self, void *arg)
{
    const struct matmul_case *c = arg;
    const int all[] = {0, 1};
    struct matmul_job job = {.m = NULL};
    symm_context *ctx = NULL;
    symm_group *world, *others = NULL;
    symm_stream stream = NULL;
    void *x = NULL;

    RANK_TRY(self, rank_join(self, &ctx));
    world = symm_context_world(ctx);
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    RANK_TRY(self, symm_group_create(world, 2, all, &others));
    RANK_TRY(self, symm_alloc(others, 16, &x));
    RANK_TRY(self, symm_fill(x, 0, 16, stream));
    RANK_TRY(self, matmul_job_open(self, ctx, world, c, &job));
    RANK_TRY(self, matmul_job_create(self, &job));
    for (uint64_t round = 0; round < ROUNDS; round++) {
        RANK_TRY(self, matmul_job_send(self, &job, round, stream));
        RANK_TRY(self, run_between(self, &job, others, x, stream));
    }
out:
    matmul_job_close(&job);
    symm_group_destroy(others);
    symm_stream_destroy(stream);
    symm_context_destroy(ctx);
}

/* All runs were launches like this. */
static void assert_launches(const char *launch)
{
    for (int rank = 0; rank < 2; rank++)
        ck_assert_int_eq(trace_count(rank, launch), ROUNDS * BURST);
    trace_end();
}

/* A run behind another one, with a call of another group between them, does not begin early. */
TEST(packs, a_call_of_another_group_may_need_room)
{
    struct matmul_case c = half_of_the_places;

    setenv("SYMM_EMULATED_SMS", "4", 1);
    trace_begin();
    ranks_run_ok(2, RANKS_AS_PROCESSES, run_two_groups, &c, 60);
    assert_launches("grid=4,1,1 block=256,1,1 early=0");
}

/* Nor does a product behind the all-gather of its own run. */
TEST(packs, the_all_gather_of_a_run_may_need_room)
{
    struct matmul_rounds test = {half_of_the_places, ROUNDS, BURST, -1, false, 0};

    test.c.kind = SYMM_ALL_GATHER_MATMUL;
    test.c.strategy = SYMM_STRATEGY_UNFUSED;
    test.c.m = 9;
    test.c.n[0] = 200;
    test.c.k = 1160;
    trace_begin();
    ranks_run_ok(2, RANKS_AS_PROCESSES, matmul_run_rounds, &test, 60);
    assert_launches("grid=12,1,1 block=256,1,1 early=0");
}
