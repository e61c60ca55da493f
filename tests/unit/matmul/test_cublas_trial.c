/* Products take the fastest of cuBLASLt's algorithms, by trials: by default with the same bits. */
#include "cublas_trial.h"

TEST_GROUP(trials, 120, .uncounted = true);

enum { SLOW_US = 1500 };

static struct trial any_order(int nranks, symm_strategy strategy)
{
    struct trial t = {.c = nranks > 1 ? gathered(7, 24, 8, strategy) : simple(7, 24, 8)};

    t.c.any_order = true;
    return t;
}

static void open_with_trials(void)
{
    open_fake();
    setenv("SYMM_MATMUL_TRIALS", "1", 1);
}

static void slow_but(unsigned fast)
{
    open_with_trials();
    for (unsigned i = 0; i < FAKE_CUBLASLT_ALGORITHMS; i++)
        fake->us[i] = i == fast ? 0 : SLOW_US;
}

/* Results are right, and of this algorithm. */
static void takes(int nranks, const struct trial *t, int algorithm)
{
    ranks_run_ok(nranks, RANKS_AS_THREADS, multiply, (void *)(uintptr_t)t, LIMIT_S);
    ck_assert_int_eq(fake->algorithm, algorithm);
    ck_assert_int_eq(fake->objects, 0);
}

/* Number 1 is not usable. */
TEST_LOOP(trials, the_fastest_is_taken, 2, FAKE_CUBLASLT_ALGORITHMS)
{
    struct trial t = any_order(1, SYMM_STRATEGY_AUTO);

    slow_but((unsigned)_i);
    t.kept = 1; /* the workspace */
    takes(1, &t, _i);
    t = any_order(2, SYMM_STRATEGY_UNFUSED);
    takes(2, &t, _i);
    t = any_order(3, SYMM_STRATEGY_PIPELINED); /* 3 rows, and 2 */
    takes(3, &t, _i);
    setenv("SYMM_MATMUL_TRIALS", "0", 1);
    takes(3, &t, 0);
}

/* Of the others, those that add in another order than the first one do not count. */
TEST_LOOP(trials, the_fastest_with_the_same_bits, 2, FAKE_CUBLASLT_ALGORITHMS)
{
    struct trial t = any_order(1, SYMM_STRATEGY_AUTO);
    const int next = _i == 2 ? 3 : 2;

    slow_but((unsigned)_i);
    fake->us[next] = SLOW_US / 2;
    t.c.any_order = false;
    takes(1, &t, _i);
    for (int order = 0; order < ORDERS; order += 5) {
        t.by_columns = order;
        t.c.k = order % 2 ? 24 : 33;
        fake->halves = 1u << _i;
        t.c.any_order = false;
        takes(1, &t, next);
        fake->halves = ~0u ^ 1u << next; /* the first one's order, and all others' */
        takes(1, &t, _i);
        t.c.any_order = true;
        fake->halves = 1u << _i;
        takes(1, &t, _i);
    }
}

/* c, more columns of d than are compared, batches, both types, and pipelined rows. */
TEST_LOOP(trials, the_same_bits_of_all_problems, 0, 16)
{
    static const float factors[] = {1.5f, -0.5f};
    struct trial t = {.c = simple(40, 16, 65)};

    slow_but(4);
    fake->fails = 1u << 2 | 1u << 3; /* to save time */
    fake->halves = 1u << 4;
    fake->us[0] = 4 * SLOW_US; /* a product takes some ms under a sanitizer */
    fake->us[5] = SLOW_US;
    t.c.in = _i & 1 ? SYMM_FLOAT16 : SYMM_BFLOAT16;
    t.c.out = t.c.addend = _i & 2 ? SYMM_FLOAT32 : t.c.in;
    t.c.l = _i & 4 ? 2 : 1;
    t.c.has_c = _i & 8;
    t.c.alpha = &factors[0];
    t.c.beta = t.c.has_c ? &factors[1] : NULL;
    takes(1, &t, 5);
    if (_i % 4)
        return;
    t.c.kind = SYMM_ALL_GATHER_MATMUL;
    t.c.strategy = SYMM_STRATEGY_PIPELINED;
    takes(3, &t, 5);
}

static void create_twice(struct rank *self, void *arg)
{
    struct matmul_job job = {.nbytes = {0}};
    symm_matmul *again = NULL;
    symm_context *ctx = NULL;
    int once;

    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, matmul_job_open(self, ctx, symm_context_world(ctx), arg, &job));
    disguise(ctx, true);
    symm_matmul_desc desc = matmul_job_desc(&job);
    RANK_TRY(self, symm_matmul_create(job.group, &desc, &job.m));
    once = fake->products;
    CHECK_RANK(self, once > 0);
    RANK_TRY(self, symm_matmul_create(job.group, &desc, &again));
    CHECK_RANK(self, fake->products == once);
    symm_matmul_destroy(again);
    desc.flags = SYMM_MATMUL_ANY_ORDER; /* other algorithms count */
    RANK_TRY(self, symm_matmul_create(job.group, &desc, &again));
    CHECK_RANK(self, fake->products > once);
out:
    symm_matmul_destroy(again);
    matmul_job_close(&job);
    end_context(ctx);
}

/* Traced kernels are no candidate, so a product without a trace has trials of its own. */
static void create_traced_first(struct rank *self, void *arg)
{
    struct matmul_job job = {.nbytes = {0}};
    symm_matmul *again = NULL;
    symm_context *ctx = NULL;
    int once;

    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, matmul_job_open(self, ctx, symm_context_world(ctx), arg, &job));
    symm_matmul_desc desc = matmul_job_desc(&job);
    desc.flags = SYMM_MATMUL_TRACE;
    RANK_TRY(self, symm_matmul_create(job.group, &desc, &again)); /* loads the traced kernels */
    symm_matmul_destroy(again);
    again = NULL;
    disguise(ctx, true);
    RANK_TRY(self, symm_matmul_create(job.group, &desc, &job.m));
    once = fake->products;
    CHECK_RANK(self, once > 0);
    desc.flags = 0;
    RANK_TRY(self, symm_matmul_create(job.group, &desc, &again));
    CHECK_RANK(self, fake->products > once);
out:
    symm_matmul_destroy(again);
    matmul_job_close(&job);
    end_context(ctx);
}

/* The trials follow the plan, which leaves cuBLASLt out. */
TEST(trials, fused_products_have_none)
{
    struct trial t = {.c = gathered(16, 24, 8, SYMM_STRATEGY_FUSED)};

    slow_but(3);
    t.c.kind = SYMM_MATMUL_REDUCE_SCATTER;
    for (int i = 0; i < 2; i++) {
        t.c.any_order = i;
        ranks_run_ok(2, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
        ck_assert_int_eq(fake->products, 0);
    }
    t.c.strategy = SYMM_STRATEGY_UNFUSED;
    ranks_run_ok(2, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    ck_assert_int_gt(fake->products, 0);
    ck_assert_int_eq(fake->objects, 0);
}

TEST(trials, a_shape_is_tried_once)
{
    struct matmul_case c = simple(7, 24, 8);

    slow_but(3);
    ranks_run_ok(1, RANKS_AS_THREADS, create_twice, &c, LIMIT_S);
    ck_assert_int_eq(fake->objects, 0);
}

/* The others are slower. */
TEST(trials, the_first_stays_without_a_reason)
{
    struct trial t = any_order(1, SYMM_STRATEGY_AUTO);

    open_with_trials();
    for (int i = 0; i < FAKE_CUBLASLT_ALGORITHMS; i++)
        fake->us[i] = i == 0 ? SLOW_US : SLOW_US + 400;
    takes(1, &t, 0);
}

TEST(trials, algorithms_that_do_not_run)
{
    struct trial t = any_order(1, SYMM_STRATEGY_AUTO);

    slow_but(3);
    fake->fails = 1u << 3;
    fake->us[5] = SLOW_US / 2;
    takes(1, &t, 5);
    fake->fails |= 1u << 0; /* the first one */
    takes(1, &t, 5);
    t.c.any_order = false;
    takes(1, &t, 5);
    fake->halves = 1u << 5; /* the first one that runs is number 2 */
    fake->us[4] = 2 * SLOW_US;
    takes(1, &t, 2);
}

TEST(trials, without_memory_the_first_is_taken)
{
    struct trial t = any_order(1, SYMM_STRATEGY_AUTO);

    slow_but(3);
    t.refused = 1;
    t.kept = 1;
    takes(1, &t, 0);
}

/* What the trial had taken is given back. */
TEST(trials, without_events_the_first_is_taken)
{
    struct trial t = any_order(1, SYMM_STRATEGY_AUTO);

    slow_but(3);
    t.no_events = true;
    t.kept = 1;
    takes(1, &t, 0);
}

/* The device may still use the memory of a trial that is given up, so it is kept. */
TEST(trials, a_device_that_never_ends)
{
    struct trial t = any_order(1, SYMM_STRATEGY_AUTO);

    slow_but(3);
    t.stuck = true;
    t.kept = 2;
    takes(1, &t, 0);
}

/* If cuBLASLt is slow, AUTO picks symm's kernels on all ranks, if the bits may depend on that. */
TEST(trials, auto_counts_with_the_measured_time)
{
    struct trial t = any_order(2, SYMM_STRATEGY_AUTO);

    open_with_trials();
    setenv("SYMM_EMULATED_SMS", "1", 1);
    t.c = gathered(8, 4096, 10, SYMM_STRATEGY_AUTO); /* by estimate: unfused */
    t.c.any_order = true;
    for (int i = 0; i < FAKE_CUBLASLT_ALGORITHMS; i++)
        fake->us[i] = 5 * SLOW_US;
    t.wants = SYMM_STRATEGY_FUSED;
    ranks_run_ok(2, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    t.c.any_order = false;
    t.wants = SYMM_STRATEGY_UNFUSED;
    ranks_run_ok(2, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
}

/* ------------------------------------------------------------- symm's kernels as a candidate */

/*
 * Only algorithm 0 runs, which takes longer than the emulated kernels of Hopper GPUs: three times
 * as long as a run of theirs and its check.
 */
static void open_with_rival(void)
{
    struct trial by_symm = {.c = simple(16, 24, 8), .runs = BY_SYMM};

    open_with_trials();
    setenv("SYMM_MATMUL_WGMMA", "1", 1);
    setenv("SYMM_MATMUL_CUBLAS", "0", 1);
    by_symm.c.out = SYMM_BFLOAT16;
    ranks_run_ok(1, RANKS_AS_THREADS, multiply, &by_symm, LIMIT_S);
    setenv("SYMM_MATMUL_CUBLAS", "1", 1);
    fake->fails = ~1u;
    fake->us[0] = (unsigned)(3 * works_us);
    fake->in_order = 1;
}

TEST(trials, traced_products_have_others)
{
    struct matmul_case c = simple(16, 24, 8);

    open_with_rival();
    c.out = SYMM_BFLOAT16;
    ranks_run_ok(1, RANKS_AS_THREADS, create_traced_first, &c, LIMIT_S);
    ck_assert_int_eq(fake->objects, 0);
}

/* With the same bits, or in any order. */
TEST(trials, faster_kernels_of_symm_take_the_place)
{
    static const float factor = 1.5f;
    struct trial t = {.c = simple(16, 24, 8), .by_columns = B_BY_COLUMNS};

    open_with_rival();
    t.c.out = t.c.addend = SYMM_BFLOAT16;
    t.c.alpha = &factor;
    t.runs = BY_SYMM;
    t.k = K_IN_ORDER;
    ranks_run_ok(1, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    fake->in_order = 0;
    t.k = K_ANY;
    t.runs = BY_CUBLASLT;
    ranks_run_ok(1, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    t.c.any_order = true;
    t.runs = BY_SYMM;
    ranks_run_ok(1, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    ck_assert_int_eq(fake->objects, 0);
}

TEST(trials, slower_kernels_of_symm_do_not)
{
    struct trial t = {.c = simple(16, 24, 8), .runs = BY_CUBLASLT};

    open_with_rival();
    t.c.out = SYMM_BFLOAT16;
    fake->us[0] = 0;
    ranks_run_ok(1, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
}

/* The Hopper kernel does not take A by columns. */
TEST(trials, kernels_that_cannot_run_are_no_candidate)
{
    struct trial t = {.c = simple(16, 24, 8), .by_columns = A_BY_COLUMNS, .runs = BY_CUBLASLT};

    open_with_rival();
    t.c.out = SYMM_BFLOAT16;
    ranks_run_ok(1, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
}

/* Each rank's rows have a product of their own, in whose place symm's kernels never come. */
TEST(trials, pipelined_products_stay_with_cublaslt)
{
    struct trial t = {.c = gathered(8, 24, 8, SYMM_STRATEGY_PIPELINED), .k = K_SHARED};

    open_with_rival();
    t.c.out = SYMM_BFLOAT16;
    fake->us[0] *= 4; /* two ranks share the processors */
    t.wants = SYMM_STRATEGY_PIPELINED;
    t.runs = BY_CUBLASLT;
    ranks_run_ok(2, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    ck_assert_int_eq(fake->objects, 0);
}

/* Without memory for cuBLASLt. Rows that are not one matrix: of batches, of ranks with gaps. */
TEST_LOOP(trials, symms_kernels_take_gathered_rows_in_any_place, 0, 2)
{
    struct trial t = {.c = gathered(_i ? 5 : 6, 2048, 8, SYMM_STRATEGY_UNFUSED), .no_memory = true};

    open_with_rival();
    t.c.out = SYMM_BFLOAT16;
    t.c.l = _i ? 1 : 2;
    t.runs = BY_SYMM;
    ranks_run_ok(_i ? 4 : 2, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    ck_assert_int_eq(fake->objects, 0);
}

/* The kernel that adds packs keeps its parts of k, also without cuBLASLt. */
TEST(trials, packs_keep_their_kernel)
{
    struct trial t = {
        .c = gathered(4, 1024, 64, SYMM_STRATEGY_FUSED), .packs = true, .no_memory = true};

    open_with_rival();
    setenv("SYMM_EMULATED_SMS", "32", 1);
    t.c.kind = SYMM_MATMUL_ALL_REDUCE;
    t.c.out = SYMM_BFLOAT16;
    ranks_run_ok(2, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    ck_assert_int_eq(fake->objects, 0);
}

/* Ranks time both multipliers, of all rows and of their own, before they choose. */
TEST_LOOP(trials, auto_counts_with_times_that_cannot_change_bits, 0, 2)
{
    struct trial t = {.c = gathered(8, 24, 8, SYMM_STRATEGY_AUTO)};

    open_with_rival();
    t.c.out = SYMM_BFLOAT16;
    fake->in_order = _i ? 1 : 0;
    fake->us[0] = _i ? fake->us[0] : 0;
    ranks_run_ok(2, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    ck_assert_int_eq(fake->objects, 0);
}
