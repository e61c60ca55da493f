/* What becomes of products that are left to cuBLASLt when it fails, and of its workspaces. */
#include <string.h>
#include "cublas_trial.h"

static const char *const calls[] = {
    "cublasLtCreate",
    "cublasLtMatmulDescCreate",
    "cublasLtMatmulDescSetAttribute",
    "cublasLtMatrixLayoutCreate",
    "cublasLtMatrixLayoutSetAttribute",
    "cublasLtMatmulPreferenceCreate",
    "cublasLtMatmulPreferenceSetAttribute",
    "cublasLtMatmulAlgoGetHeuristic",
};
enum { NCALLS = sizeof calls / sizeof calls[0] };

TEST_GROUP(failures, 60, .uncounted = true);

TEST_LOOP(failures, a_call_that_fails_leaves_it_to_our_kernels, 0, NCALLS)
{
    struct trial t = {.c = simple(16, 24, 8)};

    open_fake();
    t.c.nb = 2;
    setenv("FAKE_CUBLASLT_FAILS", calls[_i], 1);
    try_it(1, t, 0);
    t.c = gathered(6, 8, 5, SYMM_STRATEGY_UNFUSED);
    try_it(2, t, 0);
    t.c.m = 7;
    try_it(3, t, 0);
}

static const char *const libraries[] = {"libnothing.so", "libtools_wrong.so"};

TEST_LOOP(failures, a_library_that_is_none_is_not_taken, 0, 2)
{
    const struct trial t = {.c = simple(16, 24, 8)};

    open_fake();
    use_library(libraries[_i]);
    try_it(1, t, 0);
}

/* While nobody is looking. */
static symm_status set_for_all(struct rank *self, symm_group *group, const char *name,
                               const char *value)
{
    char mine = 0, all[RANKS_MAX];

    RANK_TRY(self, symm_exchange(group, &mine, sizeof mine, all));
    if (self->rank == 0)
        setenv(name, value, 1);
    RANK_TRY(self, symm_exchange(group, &mine, sizeof mine, all));
out:
    return self->report->status;
}

static void fail_to_run(struct rank *self, void *arg)
{
    const struct matmul_case *c = arg;
    struct matmul_job job = {.nbytes = {0}};
    symm_context *ctx = NULL;
    char text[64];

    snprintf(text, sizeof text, "cublasLtMatmul: error 7 (on rank %d)", self->rank);
    RANK_TRY(self, rank_join(self, &ctx));
    if (matmul_job_open(self, ctx, symm_context_world(ctx), c, &job) != SYMM_OK)
        goto out;
    disguise(ctx, true);
    if (matmul_job_create(self, &job) != SYMM_OK ||
        set_for_all(self, job.group, "FAKE_CUBLASLT_FAILS", "cublasLtMatmul") != SYMM_OK)
        goto out;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, text, symm_matmul_run(job.m, NULL, NULL));
    if (set_for_all(self, job.group, "FAKE_CUBLASLT_FAILS", "nothing") != SYMM_OK)
        goto out;
    if (matmul_job_send(self, &job, 1, NULL) == SYMM_OK &&
        matmul_job_run(self, &job, NULL) == SYMM_OK &&
        matmul_job_fetch(self, &job, NULL, NULL) == SYMM_OK)
        matmul_job_look(self, &job);
    matmul_job_close(&job);
    if (matmul_job_open(self, ctx, symm_context_world(ctx), c, &job) != SYMM_OK ||
        set_for_all(self, job.group, "SYMM_MATMUL_CUBLAS", "2") != SYMM_OK)
        goto out;
    const symm_matmul_desc desc = matmul_job_desc(&job);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "SYMM_MATMUL_CUBLAS=2 is not within 0 to 1",
                     symm_matmul_create(job.group, &desc, &job.m));
    if (set_for_all(self, job.group, "SYMM_MATMUL_CUBLAS", "1") != SYMM_OK ||
        set_for_all(self, job.group, "SYMM_MATMUL_TRIALS", "2") != SYMM_OK)
        goto out;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "SYMM_MATMUL_TRIALS=2 is not within 0 to 1",
                     symm_matmul_create(job.group, &desc, &job.m));
    rank_note(self, SYMM_OK);
out:
    matmul_job_close(&job);
    end_context(ctx);
}

TEST_LOOP(failures, a_run_that_fails_says_so, 1, 4)
{
    const int nranks = _i;
    struct matmul_case c =
        nranks == 1 ? simple(16, 24, 8) : gathered(16, 24, 8, SYMM_STRATEGY_UNFUSED);

    open_fake();
    ranks_run_ok(nranks, RANKS_AS_THREADS, fail_to_run, &c, LIMIT_S);
    ck_assert_int_eq(fake->products, nranks);
    ck_assert_int_eq(fake->objects, 0);
}

/* A workspace is that of one product at a time, and of the next when that is gone. */
static void make_and_unmake(struct rank *self, void *arg)
{
    const struct matmul_case c = simple(16, 24, 8);
    struct matmul_job job = {.nbytes = {0}};
    symm_matmul *two[2] = {NULL, NULL};
    symm_context *ctx = NULL;

    (void)arg;
    RANK_TRY(self, rank_join(self, &ctx));
    if (matmul_job_open(self, ctx, symm_context_world(ctx), &c, &job) != SYMM_OK)
        goto out;
    disguise(ctx, true);
    const symm_matmul_desc desc = matmul_job_desc(&job);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++)
            RANK_TRY(self, symm_matmul_create(job.group, &desc, &two[i]));
        CHECK_RANK(self, nallocs == 2);
        for (int i = 0; i < 2 && round < 2; i++) /* the last ones are left to the context */
            symm_matmul_destroy(two[i]);
    }
out:
    matmul_job_close(&job);
    end_context(ctx);
}

TEST(failures, workspaces_are_used_again)
{
    open_fake();
    ranks_run_ok(1, RANKS_AS_THREADS, make_and_unmake, NULL, LIMIT_S);
    ck_assert_int_eq(fake->objects, 0);
}

/* ------------------------------------------------------------- a setting that changes meanwhile */

extern char **environ;

/* SYMM_MATMUL_CUBLAS is wrong for a thread that is to spoil it, from its first product on. */
static _Thread_local bool spoils, spoiled;

static void spoil(void)
{
    spoiled = spoils;
}

/* Stands before the C library's. */
char *getenv(const char *name)
{
    static char wrong[] = "2";
    const size_t nbytes = strlen(name);

    if (spoiled && strcmp(name, "SYMM_MATMUL_CUBLAS") == 0)
        return wrong;
    for (char **e = environ; *e; e++)
        if (strncmp(*e, name, nbytes) == 0 && (*e)[nbytes] == '=')
            return *e + nbytes + 1;
    return NULL;
}

/* All ranks have agreed on the plan when rank 1 looks for cuBLASLt a second time. */
static void fail_behind_the_votes(struct rank *self, void *arg)
{
    const struct matmul_case *c = arg;
    struct matmul_job job = {.nbytes = {0}};
    symm_context *ctx = NULL;

    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, matmul_job_open(self, ctx, symm_context_world(ctx), c, &job));
    disguise(ctx, true);
    spoils = self->rank == 1;
    RANK_TRY(self, matmul_job_create(self, &job));
    CHECK_RANK(self, spoiled == spoils && (job.m->cublas == NULL) == spoils);
    spoiled = false;
    RANK_TRY(self, matmul_job_works(self, &job, 1, NULL));
out:
    matmul_job_close(&job);
    end_context(ctx);
}

TEST(failures, a_rank_without_cublaslt_behind_the_votes_keeps_none_waiting)
{
    struct matmul_case c = simple(5, 40, 7);

    c.kind = SYMM_MATMUL_ALL_REDUCE;
    c.strategy = SYMM_STRATEGY_UNFUSED;
    open_fake();
    fake->described = spoil;
    setenv("SYMM_TIMEOUT_MS", "2000", 1);
    setenv("SYMM_MATMUL_CUBLAS", "1", 1);
    ranks_run_ok(3, RANKS_AS_THREADS, fail_behind_the_votes, &c, LIMIT_S);
    ck_assert_int_eq(fake->products, 2);
    ck_assert_int_eq(fake->objects, 0);
}
