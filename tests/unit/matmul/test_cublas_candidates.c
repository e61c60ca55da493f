/* The algorithms of cuBLASLt that compete for a product: parts of k, tiles, configurations. */
#include "abi/cublaslt_configuration.h"
#include "cublas_trial.h"

TEST_GROUP(candidates, 120, .uncounted = true);

enum { SLOW_US = 1500, CONFIGURED = FAKE_CUBLASLT_CONFIGURED };

TEST(candidates, tiles_have_different_numbers)
{
    bool seen[1024] = {false};

    for (int rows = 0; rows <= 512; rows++)
        for (int columns = -8; columns <= 512; columns++) {
            const int number = symm__cublaslt_tile(rows, columns);
            ck_assert(number >= 0 && number < 1024 && !(number > 0 && seen[number]));
            seen[number] = number > 0;
        }
    ck_assert_int_eq(symm__cublaslt_tile(64, 264), 0);
    ck_assert_int_eq(symm__cublaslt_tile(64, 12), 0);
    ck_assert_int_eq(symm__cublaslt_tile(64, 0), 0);
}

/* ------------------------------------------------------------------------------------- products */

static void open_with_trials(bool trials)
{
    open_fake();
    setenv("SYMM_MATMUL_TRIALS", trials ? "1" : "0", 1);
    for (int i = 0; i <= CONFIGURED; i++)
        fake->us[i] = SLOW_US;
}

static void takes(struct trial t, int algorithm)
{
    ranks_run_ok(1, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    ck_assert_int_eq(fake->algorithm, algorithm);
    ck_assert_int_eq(fake->objects, 0);
}

static struct trial one_part(void)
{
    return (struct trial){.c = simple(7, 24, 8)};
}

static struct trial four_parts(void)
{
    return (struct trial){.c = simple(2, 1088, 2)};
}

/* Of small and of large tiles, which want other options. */
TEST_LOOP(candidates, the_fastest_may_be_configured, 0, 2)
{
    const int custom = _i ? 5 : 1;

    open_with_trials(true);
    fake->custom = custom;
    fake->us[CONFIGURED] = 0;
    takes(one_part(), CONFIGURED);
    ck_assert_int_eq(fake->configuration.k_parts, 1);
    ck_assert_int_ge(fake->configuration.custom, custom);
    fake->us[CONFIGURED] = SLOW_US;
    fake->us[3] = 0;
    takes(one_part(), 3);
}

/* They cannot run, or the library cannot configure. */
TEST_LOOP(candidates, without_configurations_proposals_compete, 0, 3)
{
    static const char *const calls[] = {"cublasLtMatmulAlgoCheck",
                                        "cublasLtMatmulAlgoConfigSetAttribute", ""};

    open_with_trials(true);
    fake->custom = 1;
    fake->us[4] = 0;
    setenv("FAKE_CUBLASLT_FAILS", calls[_i], 1);
    fake->fails = *calls[_i] ? 0 : 1u << CONFIGURED;
    fake->us[CONFIGURED] = 0;
    takes(one_part(), 4);
}

TEST(candidates, proposals_with_other_parts_do_not_compete)
{
    struct trial t = one_part();

    open_with_trials(true);
    fake->k_parts[0] = fake->k_parts[3] = 2;
    fake->us[0] = 0;
    fake->us[3] = SLOW_US / 4;
    fake->us[4] = SLOW_US / 2;
    takes(t, 4);
    t.c.any_order = true;
    takes(t, 0);
}

/* With and without trials. */
TEST_LOOP(candidates, four_parts_are_taken_from_proposals, 0, 2)
{
    open_with_trials(_i);
    fake->k_parts[4] = 4;
    fake->us[0] = 0;
    takes(four_parts(), 4);
    ck_assert_int_eq(fake->configuration.k_parts, 4);
}

TEST_LOOP(candidates, four_parts_are_configured, 0, 2)
{
    open_with_trials(_i);
    fake->custom = 1;
    fake->us[0] = 0;
    takes(four_parts(), CONFIGURED);
    ck_assert_int_eq(fake->configuration.k_parts, 4);
    ck_assert_int_eq(fake->configuration.reduction, 2);
}

/* If nothing has as many parts as it should, the first proposal's bits count. */
TEST_LOOP(candidates, the_first_proposal_decides_otherwise, 0, 2)
{
    open_with_trials(_i);
    fake->k_parts[0] = fake->k_parts[5] = 2;
    fake->us[2] = 0;
    fake->us[5] = SLOW_US / 2;
    takes(four_parts(), _i ? 5 : 0);
}
