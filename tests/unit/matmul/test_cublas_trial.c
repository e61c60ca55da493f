/* Products in any order take the fastest of cuBLASLt's algorithms, by trials. */
#include "cublas_trial.h"

TEST_GROUP(trials, 120, .uncounted = true);

enum { SLOW_US = 4000 };

static struct trial any_order(int nranks, symm_strategy strategy)
{
    struct trial t = {.c = nranks > 1 ? gathered(7, 24, 8, strategy) : simple(7, 24, 8)};

    t.c.any_order = true;
    return t;
}

static void slow_but(unsigned fast)
{
    open_fake();
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
    t.c.any_order = false;
    takes(3, &t, 0);
}

/* The others are slower. */
TEST(trials, the_first_stays_without_a_reason)
{
    struct trial t = any_order(1, SYMM_STRATEGY_AUTO);

    open_fake();
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

/* If cuBLASLt is slow, AUTO picks symm's kernels on all ranks. */
TEST(trials, auto_counts_with_the_measured_time)
{
    struct trial t = any_order(2, SYMM_STRATEGY_AUTO);

    open_fake();
    setenv("SYMM_EMULATED_SMS", "1", 1);
    t.c = gathered(8, 4096, 10, SYMM_STRATEGY_AUTO); /* by estimate: unfused */
    t.c.any_order = true;
    for (int i = 0; i < FAKE_CUBLASLT_ALGORITHMS; i++)
        fake->us[i] = 5 * SLOW_US;
    t.wants = SYMM_STRATEGY_FUSED;
    ranks_run_ok(2, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
}
