/*
 * Products that are left to cuBLASLt: which ones, that they are right, and what becomes of them
 * when it fails. fake_cublaslt.c answers, at once, so what a stream has to do is done before. Ranks
 * are threads with the emulated driver, which the library takes for the other one here.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fake_cublaslt.h"
#include "matmul.h"
#include "matmul/cublas.h"
#include "test.h"

enum { LIMIT_S = 60, A_BY_COLUMNS = 1, B_BY_COLUMNS = 2, D_BY_COLUMNS = 4, ORDERS = 8 };

/* ---------------------------------------------------------------------------------- the library */

static struct fake_cublaslt *fake;

static void use_library(const char *name)
{
    char path[512];

    snprintf(path, sizeof path, "%s/%s", test_lib(), name);
    setenv("SYMM_CUBLASLT_LIBRARY", path, 1);
}

/* ----------------------------------------------------------------------------------- the driver */

/* Of this thread's context. */
static _Thread_local const struct symm_driver *emulated;
static _Thread_local struct symm_driver disguised;
static _Thread_local int nallocs;

static void wait_for(void *stream)
{
    emulated->cuStreamSynchronize(stream);
}

static CUresult count_alloc(CUdeviceptr *out, size_t nbytes)
{
    nallocs++;
    return emulated->cuMemAlloc(out, nbytes);
}

static CUresult refuse_alloc(CUdeviceptr *out, size_t nbytes)
{
    (void)out;
    (void)nbytes;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static void disguise(symm_context *ctx, bool memory)
{
    emulated = ctx->drv;
    disguised = *ctx->drv;
    disguised.name = "cuda";
    disguised.cuMemAlloc = memory ? count_alloc : refuse_alloc;
    ctx->drv = &disguised;
}

static void end_context(symm_context *ctx)
{
    if (ctx && emulated)
        ctx->drv = emulated;
    symm_context_destroy(ctx);
}

static void open_fake(void)
{
    setenv("SYMM_DRIVER", "emulated", 1);
    use_library("libfake_cublaslt.so");
    void *library = dlopen(getenv("SYMM_CUBLASLT_LIBRARY"), RTLD_NOW);
    ck_assert_msg(library, "%s", dlerror());
    fake = dlsym(library, "fake_cublaslt");
    ck_assert_ptr_nonnull(fake);
    fake->before = wait_for;
}

/* ---------------------------------------------------------------------------------- one product */

struct trial {
    struct matmul_case c;
    int by_columns;        /* operands that lie column after column */
    int shifted;           /* operands that are no longer aligned */
    int bare;              /* so many of the last ranks have the driver as it is */
    bool no_memory;        /* for the workspace */
    symm_strategy becomes; /* 0: as asked */
};

/* The same elements in another order. */
static void turn(struct matmul_operand *x)
{
    const int last = x->t.ndim - 1;

    x->t.strides[last - 1] = 1;
    x->t.strides[last] = x->t.shape[last - 1];
}

static void arrange(const struct trial *t, struct matmul_job *job)
{
    if (t->by_columns & A_BY_COLUMNS)
        turn(&job->o.a);
    if (t->shifted & A_BY_COLUMNS)
        job->o.a.at += 2;
    for (int i = 0; i < t->c.nb; i++) {
        if (t->by_columns & B_BY_COLUMNS)
            turn(&job->o.b[i]);
        if (t->by_columns & D_BY_COLUMNS)
            turn(&job->o.d[i]);
        if (t->by_columns & D_BY_COLUMNS && t->c.has_c)
            turn(&job->o.c[i]);
        job->o.b[i].at += t->shifted & B_BY_COLUMNS ? 2 : 0;
        job->o.d[i].at += t->shifted & D_BY_COLUMNS ? 4 : 0;
    }
}

static void multiply(struct rank *self, void *arg)
{
    const struct trial *t = arg;
    struct matmul_job job = {.nbytes = {0}};
    symm_context *ctx = NULL;
    symm_stream stream = NULL;

    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, symm_stream_create(ctx, &stream));
    if (matmul_job_open(self, ctx, symm_context_world(ctx), &t->c, &job) != SYMM_OK)
        goto out;
    if (self->rank < self->nranks - t->bare)
        disguise(ctx, !t->no_memory);
    arrange(t, &job);
    if (matmul_job_create(self, &job) != SYMM_OK)
        goto out;
    if (t->becomes)
        CHECK_RANK(self, symm_matmul_strategy(job.m) == t->becomes);
    for (uint64_t round = 1; round < 3; round++)
        if (matmul_job_send(self, &job, round, stream) != SYMM_OK ||
            matmul_job_run(self, &job, stream) != SYMM_OK ||
            matmul_job_fetch(self, &job, NULL, stream) != SYMM_OK ||
            matmul_job_look(self, &job) != SYMM_OK)
            goto out;
out:
    matmul_job_close(&job);
    symm_stream_destroy(stream);
    end_context(ctx);
}

/* products: of each of two rounds, by the stand-in, over all ranks. */
static void try_it(int nranks, struct trial t, int products)
{
    fake->products = 0;
    ranks_run_ok(nranks, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
    ck_assert_msg(fake->products == 2 * products, "%d products, not %d: %s", fake->products,
                  2 * products, matmul_text(&t.c));
    ck_assert_int_eq(fake->objects, 0);
}

static struct matmul_case simple(int32_t m, int32_t k, int32_t n)
{
    return (struct matmul_case){.kind = SYMM_MATMUL,
                                .in = SYMM_BFLOAT16,
                                .out = SYMM_FLOAT32,
                                .addend = SYMM_FLOAT32,
                                .m = m,
                                .k = k,
                                .l = 1,
                                .nb = 1,
                                .n = {n, n, n, n},
                                .contiguous = true};
}

static struct matmul_case gathered(int32_t m, int32_t k, int32_t n, symm_strategy strategy)
{
    struct matmul_case c = simple(m, k, n);

    c.kind = SYMM_ALL_GATHER_MATMUL;
    c.strategy = strategy;
    return c;
}

/* ------------------------------------------------------------------------------------- products */

START_TEST(rows_and_columns_of_every_operand)
{
    static const symm_dtype types[][2] = {{SYMM_BFLOAT16, SYMM_BFLOAT16},
                                          {SYMM_FLOAT16, SYMM_FLOAT32}};
    struct trial t = {.by_columns = _i};

    open_fake();
    for (int i = 0; i < 4; i++) {
        t.c = simple(24, 40 - 8 * i, 16);
        t.c.in = types[i % 2][0];
        t.c.out = t.c.addend = types[i % 2][1];
        t.c.l = i < 2 ? 1 : 3;
        t.c.has_c = i > 0;
        t.c.in_place = i == 3;
        t.c.alpha = 1.5f;
        t.c.beta = t.c.has_c ? -0.5f : 0.25f; /* without c it is of nothing */
        t.c.layout = (uint64_t)(10 * _i + i);
        try_it(1, t, 1);
    }
}
END_TEST

START_TEST(shapes_that_are_no_multiples)
{
    struct trial t;

    open_fake();
    t = (struct trial){.c = simple(5, 9, 7)};
    try_it(1, t, 1);
    t.c = simple(1, 33, 8);
    try_it(1, t, 1);
    t.c = simple(9, 1, 1);
    try_it(1, t, 1);
    t.c = simple(7, 8, 5);
    t.c.nb = 3;
    t.c.n[1] = 1;
    t.c.has_c = true;
    t.c.beta = 0; /* c is not read */
    t.c.alpha = 2;
    try_it(1, t, 3);
    t.c = simple(1, 8, 1); /* there is no algorithm for one element */
    try_it(1, t, 0);
}
END_TEST

START_TEST(few_rows_only)
{
    struct trial t = {.c = simple(512, 3, 2)};

    open_fake();
    try_it(1, t, 1);
    t.c.m = 513;
    try_it(1, t, 0);
    t.c.m = 256;
    t.c.k = t.c.n[0] = 8;
    t.c.l = 2;
    try_it(1, t, 1);
    t.c.l = 3;
    try_it(1, t, 0);
}
END_TEST

/* What it does not have is multiplied all the same. */
START_TEST(the_rest_is_for_our_kernels)
{
    struct trial t = {.c = simple(16, 24, 8)};

    open_fake();
    t.c.activation = SYMM_GELU;
    try_it(1, t, 0);
    t.c = simple(16, 24, 8);
    t.c.has_bias = true;
    try_it(1, t, 0);
    t.c = simple(16, 24, 8);
    t.c.has_c = true;
    t.c.addend = SYMM_BFLOAT16; /* d is fp32 */
    t.c.alpha = t.c.beta = 1;
    try_it(1, t, 0);
    t.c = simple(16, 24, 8);
    t.c.out = SYMM_FLOAT16; /* a is bf16 */
    try_it(1, t, 0);
    for (int operand = 1; operand < ORDERS; operand *= 2) {
        t = (struct trial){.c = simple(16, 24, 8), .shifted = operand};
        try_it(1, t, 0);
    }
    t = (struct trial){.c = simple(16, 24, 8), .bare = 1}; /* the emulated driver */
    try_it(1, t, 0);
    t = (struct trial){.c = simple(16, 24, 8), .no_memory = true};
    try_it(1, t, 0);
    setenv("SYMM_MATMUL_CUBLAS", "0", 1);
    t = (struct trial){.c = simple(16, 24, 8)};
    try_it(1, t, 0);
}
END_TEST

/* Any layouts, places, types and factors. */
START_TEST(drawn_products_are_right)
{
    const int nranks = _i;
    int made = 0;

    open_fake();
    for (uint64_t i = 0; i < 80; i++) {
        struct trial t = {.c = matmul_draw(20 + i, nranks)};
        t.c.kind = nranks == 1 ? SYMM_MATMUL : SYMM_ALL_GATHER_MATMUL;
        t.c.strategy = nranks == 1 ? SYMM_STRATEGY_AUTO : SYMM_STRATEGY_UNFUSED;
        t.c.gathered = t.c.gathered && nranks > 1;
        t.c.activation = SYMM_NONE;
        t.c.has_bias = false;
        t.c.foreign = i % 2;
        if (nranks > 1) {
            t.c.m += t.c.m % nranks;
            t.c.l = 1;
        }
        if (i % 8 == 0) { /* it has these */
            t.c.contiguous = true;
            t.c.has_c = t.c.in_place = false;
            t.c.out = t.c.in;
        }
        fake->products = 0;
        ranks_run_ok(nranks, RANKS_AS_THREADS, multiply, &t, LIMIT_S);
        made += fake->products > 0;
    }
    ck_assert_int_eq(fake->objects, 0);
    ck_assert_int_ge(made, 1);
}
END_TEST

START_TEST(rows_of_all_ranks)
{
    static const struct {
        int32_t m, k, l;
        int nranks, products;
        symm_strategy strategy;
    } cases[] = {
        {6, 8, 1, 2, 2, SYMM_STRATEGY_UNFUSED},   {6, 3, 1, 3, 3, SYMM_STRATEGY_UNFUSED},
        {7, 8, 1, 2, 0, SYMM_STRATEGY_UNFUSED},   {1, 8, 1, 3, 3, SYMM_STRATEGY_UNFUSED},
        {2, 9, 1, 3, 3, SYMM_STRATEGY_AUTO},      {6, 8, 2, 2, 0, SYMM_STRATEGY_UNFUSED},
        {6, 8, 1, 2, 0, SYMM_STRATEGY_FUSED},     {6, 8, 1, 2, 0, SYMM_STRATEGY_PIPELINED},
        {512, 2, 1, 2, 2, SYMM_STRATEGY_UNFUSED}, {514, 2, 1, 2, 0, SYMM_STRATEGY_UNFUSED},
        {5, 8, 1, 1, 1, SYMM_STRATEGY_FUSED},
    };
    struct trial t = {.bare = 0};

    open_fake();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int order = 0; order < ORDERS; order += B_BY_COLUMNS) {
            t.by_columns = order;
            t.c = gathered(cases[i].m, cases[i].k, 5, cases[i].strategy);
            t.c.l = cases[i].l;
            t.c.layout = i;
            t.c.gathered = i % 2;
            try_it(cases[i].nranks, t, cases[i].products);
        }
}
END_TEST

/* Who multiplies is a rank's own affair; the strategy is not. */
START_TEST(one_rank_has_it_not)
{
    struct trial t = {.bare = 1};

    open_fake();
    t.c = gathered(6, 8, 5, SYMM_STRATEGY_UNFUSED);
    try_it(3, t, 2);
    t.c.strategy = SYMM_STRATEGY_AUTO;
    try_it(3, t, 2);
}
END_TEST

/*
 * Where all ranks have it, an all-gather before it is shorter than our kernel, whose few tiles take
 * as long as k is; of more rows it gets none.
 */
START_TEST(the_strategy_is_what_all_ranks_agree_on)
{
    struct trial t = {.becomes = SYMM_STRATEGY_UNFUSED};

    open_fake();
    setenv("SYMM_EMULATED_SMS", "1", 1);
    t.c = gathered(512, 4096, 10, SYMM_STRATEGY_AUTO);
    try_it(2, t, 2);
    t.bare = 1;
    t.becomes = SYMM_STRATEGY_FUSED;
    try_it(2, t, 0);
    t.bare = 0;
    t.c = gathered(1024, 4096, 10, SYMM_STRATEGY_AUTO);
    try_it(2, t, 0);
}
END_TEST

/* ------------------------------------------------------------------------------------- failures */

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

START_TEST(a_call_that_fails_leaves_it_to_our_kernels)
{
    struct trial t = {.c = simple(16, 24, 8)};

    open_fake();
    t.c.nb = 2;
    setenv("FAKE_CUBLASLT_FAILS", calls[_i], 1);
    try_it(1, t, 0);
    t.c = gathered(6, 8, 5, SYMM_STRATEGY_UNFUSED);
    try_it(2, t, 0);
}
END_TEST

static const char *const libraries[] = {"libnothing.so", "libtools_wrong.so"};

START_TEST(a_library_that_is_none_is_not_taken)
{
    const struct trial t = {.c = simple(16, 24, 8)};

    open_fake();
    use_library(libraries[_i]);
    try_it(1, t, 0);
}
END_TEST

static void fail_to_run(struct rank *self, void *arg)
{
    const struct matmul_case c = simple(16, 24, 8);
    struct matmul_job job = {.nbytes = {0}};
    symm_context *ctx = NULL;

    (void)arg;
    RANK_TRY(self, rank_join(self, &ctx));
    if (matmul_job_open(self, ctx, symm_context_world(ctx), &c, &job) != SYMM_OK)
        goto out;
    disguise(ctx, true);
    if (matmul_job_create(self, &job) != SYMM_OK)
        goto out;
    setenv("FAKE_CUBLASLT_FAILS", "cublasLtMatmul", 1);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, "rank 0: cublasLtMatmul: error 7",
                     symm_matmul_run(job.m, NULL, NULL));
    unsetenv("FAKE_CUBLASLT_FAILS");
    if (matmul_job_send(self, &job, 1, NULL) == SYMM_OK &&
        matmul_job_run(self, &job, NULL) == SYMM_OK &&
        matmul_job_fetch(self, &job, NULL, NULL) == SYMM_OK)
        matmul_job_look(self, &job);
    matmul_job_close(&job);
    setenv("SYMM_MATMUL_CUBLAS", "2", 1);
    if (matmul_job_open(self, ctx, symm_context_world(ctx), &c, &job) != SYMM_OK)
        goto out;
    const symm_matmul_desc desc = matmul_job_desc(&job);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "SYMM_MATMUL_CUBLAS=2 is not within 0 to 1",
                     symm_matmul_create(job.group, &desc, &job.m));
    rank_note(self, SYMM_OK);
out:
    matmul_job_close(&job);
    end_context(ctx);
}

START_TEST(a_run_that_fails_says_so)
{
    open_fake();
    ranks_run_ok(1, RANKS_AS_THREADS, fail_to_run, NULL, LIMIT_S);
    ck_assert_int_eq(fake->products, 1);
    ck_assert_int_eq(fake->objects, 0);
}
END_TEST

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

START_TEST(workspaces_are_used_again)
{
    open_fake();
    ranks_run_ok(1, RANKS_AS_THREADS, make_and_unmake, NULL, LIMIT_S);
    ck_assert_int_eq(fake->objects, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cublas");
    /* Libraries stay open. */
    TCase *tc = test_case_uncounted(suite, "products", 240);

    tcase_add_loop_test(tc, rows_and_columns_of_every_operand, 0, ORDERS);
    tcase_add_test(tc, shapes_that_are_no_multiples);
    tcase_add_test(tc, few_rows_only);
    tcase_add_test(tc, the_rest_is_for_our_kernels);
    tcase_add_loop_test(tc, drawn_products_are_right, 1, 3);
    tcase_add_test(tc, rows_of_all_ranks);
    tcase_add_test(tc, one_rank_has_it_not);
    tcase_add_test(tc, the_strategy_is_what_all_ranks_agree_on);
    tc = test_case_uncounted(suite, "failures", 60);
    tcase_add_loop_test(tc, a_call_that_fails_leaves_it_to_our_kernels, 0, NCALLS);
    tcase_add_loop_test(tc, a_library_that_is_none_is_not_taken, 0, 2);
    tcase_add_test(tc, a_run_that_fails_says_so);
    tcase_add_test(tc, workspaces_are_used_again);
    return test_main(suite);
}
