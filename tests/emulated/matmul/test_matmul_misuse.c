/*
 * Wrong calls for products, on one rank or by ranks that differ. Texts name argument, value and
 * rank; nothing is left behind, and the product of the bench still works.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "matmul_bench.h"
#include "test.h"

enum { BAD_RANK = 1, TRIO = 3 };

/* ------------------------------------------------------------------------- wrong descriptions */

/* A create fails on all ranks; the text names the call and the bad rank. */
static symm_status fail_create(struct rank *self, struct matmul_bench *b,
                               const symm_matmul_desc *desc, symm_status want, const char *part)
{
    symm_matmul *m = NULL;
    char who[24];

    snprintf(who, sizeof who, "rank %d", BAD_RANK);
    RANK_EXPECT_TEXT(self, want, part, symm_matmul_create(b->world, desc, &m));
    RANK_TEXT(self, who);
    RANK_TEXT(self, "symm_matmul_create");
    CHECK_RANK(self, m == NULL);
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* WRONG(status, part, edit): one rank edits its description `d`. */
#define WRONG(status, part, ...)                                                                   \
    do {                                                                                           \
        symm_matmul_desc d = matmul_job_desc(&b->job);                                             \
        if (self->rank == BAD_RANK) {                                                              \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
        RANK_TRY(self, fail_create(self, b, &d, SYMM_ERROR_##status, part));                       \
    } while (0)

/* One error of each kind; test_matmul_problem has all texts. */
static symm_status describe_wrongly(struct rank *self, struct matmul_bench *b)
{
    WRONG(ARGUMENT, "kind is 9", d.kind = (symm_matmul_kind)9);
    WRONG(ARGUMENT, "strategy is 9", d.strategy = (symm_strategy)9);
    WRONG(ARGUMENT, "activation is 9", d.activation = (symm_activation)9);
    WRONG(ARGUMENT, "nb is 1073741824", d.nb = 1 << 30);
    WRONG(ARGUMENT, "reserved[2] is 1", d.reserved[2] = 1);
    WRONG(ARGUMENT, "a is 2 x [", d.a.shape[1]++);
    WRONG(ARGUMENT, "b[1] is 2 x [25, 6]", d.b[1].shape[1]++);
    WRONG(ARGUMENT, "d[0] has strides", d.d[0].strides[1] = 0);
    WRONG(ARGUMENT, "a.dtype is float32", d.a.dtype = SYMM_FLOAT32);
    WRONG(ARGUMENT, "d[1].dtype is 0", d.d[1].dtype = 0);
    WRONG(ARGUMENT, "bias[0].ndim is 5", d.bias[0].ndim = 5);
    WRONG(ARGUMENT, "c[1] is 2 x [20, 99]", d.c[1].shape[2] = 99);
    WRONG(ARGUMENT, "gathered_a.dtype is int32", d.gathered_a.dtype = SYMM_INT32);
    WRONG(ARGUMENT, "bias[3] is given", d.bias[3] = d.bias[0]);
    WRONG(ARGUMENT, "not aligned to its elements of 4", d.d[1].data = (char *)d.d[1].data + 2);
    WRONG(ARGUMENT, "ends past the address space", d.b[0].data = (void *)(UINTPTR_MAX - 15));
    WRONG(ARGUMENT, "d[0] 0x", d.b[1].data = d.d[0].data);
    /* Data that each run gives are absent. */
    WRONG(ARGUMENT, "gathered_a 0x", d.a.data = d.c[0].data = NULL,
          d.d[0].data = d.gathered_a.data);
    WRONG(UNSUPPORTED, "b[0].shape[2] is 1099511627776", d.b[0].shape[2] = INT64_C(1) << 40);
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* A workspace larger than any window: strides of 0 need no memory, but it has one for each row. */
static symm_status ask_for_too_much(struct rank *self, struct matmul_bench *b)
{
    enum { M = TRIO << 20, K = INT32_MAX - 1023 };
    const symm_matmul_desc desc = {
        .kind = SYMM_ALL_GATHER_MATMUL,
        .a = {.dtype = SYMM_BFLOAT16, .ndim = 2, .shape = {M / TRIO, K}},
        .b = {{.dtype = SYMM_BFLOAT16, .ndim = 2, .shape = {K, 1}}},
        .d = {{.dtype = SYMM_BFLOAT16, .ndim = 2, .shape = {M, 1}, .strides = {1, 1}}}};
    symm_matmul *m = NULL;
    char what[64];

    snprintf(what, sizeof what, "workspace of m %d, k %d, l 1 on rank %d", M, K, self->rank);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MEMORY, what, symm_matmul_create(b->world, &desc, &m));
    CHECK_RANK(self, m == NULL);
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

TEST_GROUP(misuse, 120);

MATMUL_TEST(misuse, a_wrong_description_is_an_error_on_every_rank, TRIO,
            .env = {{"SYMM_CHECK", _i ? "1" : "0"}}, .loop = {0, 2})
{
    const bool bad = self->rank == BAD_RANK;
    symm_usage before, after;
    symm_matmul *m = NULL;

    RANK_TRY(self, symm_memory_usage(b->ctx, &before));
    RANK_TRY(self, describe_wrongly(self, b));
    RANK_TRY(self, ask_for_too_much(self, b));
    const symm_matmul_desc desc = matmul_job_desc(&b->job);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "desc is NULL",
                     symm_matmul_create(b->world, bad ? NULL : &desc, &m));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "out is NULL",
                     symm_matmul_create(b->world, &desc, bad ? NULL : &m));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "group is NULL",
                     symm_matmul_create(NULL, &desc, &m));
    CHECK_RANK(self, m == NULL);
    RANK_TRY(self, symm_memory_usage(b->ctx, &after));
    CHECK_RANK(self, after.allocated == before.allocated);
out:;
}

/* ------------------------------------------------------------------------- ranks that differ */

/* A create is a mismatch twice, with this case on one rank and the others as they are. */
static symm_status mismatch(struct rank *self, struct matmul_bench *b, struct matmul_case c,
                            const char *mine, const char *theirs)
{
    struct matmul_job job = b->job;
    symm_matmul *m = NULL;

    job.c = c;
    job.c.data = MATMUL_IN_ARGS;
    matmul_lay_out(&job.c, self->rank, self->nranks, &job.o);
    const symm_matmul_desc desc = matmul_job_desc(&job);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, mine, symm_matmul_create(b->world, &desc, &m));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, theirs, symm_matmul_create(b->world, &desc, &m));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* DIFFER_FROM(base, mine, theirs, edit): one rank edits its case `c`; texts name both values. */
#define DIFFER_FROM(base, mine, theirs, ...)                                                       \
    do {                                                                                           \
        struct matmul_case c = (base);                                                             \
        if (self->rank == BAD_RANK) {                                                              \
            __VA_ARGS__;                                                                           \
        }                                                                                          \
        RANK_TRY(self, mismatch(self, b, c, mine, theirs));                                        \
    } while (0)
#define DIFFER(mine, theirs, ...) DIFFER_FROM(matmul_works, mine, theirs, __VA_ARGS__)

MATMUL_TEST(misuse, ranks_that_differ_are_a_mismatch_on_all, TRIO)
{
    DIFFER(", same bits)", "float16)", c.same_bits = true);
    DIFFER(", any order)", "float16)", c.any_order = true);
    DIFFER("m 21", "m 20", c.m = 21);
    DIFFER("k 25", "k 24", c.k = 25);
    DIFFER("l 1", "l 2", c.l = 1);
    DIFFER("float16", "bfloat16", c.in = SYMM_FLOAT16);
    DIFFER("pipelined", "auto", c.strategy = SYMM_STRATEGY_PIPELINED);
    DIFFER("auto, stream-K, m", "auto, m", c.schedule = SYMM_SCHEDULE_STREAM_K);
    DIFFER("auto, data parallel, m", "auto, m", c.schedule = SYMM_SCHEDULE_DATA_PARALLEL);
out:;
}

/* What ranks send each other after a product is compared too: columns and types. k may differ. */
MATMUL_TEST(misuse, ranks_that_collect_differently_are_a_mismatch, TRIO)
{
    struct matmul_case sum = matmul_works;

    sum.kind = SYMM_MATMUL_ALL_REDUCE;
    sum.gathered = false;
    DIFFER_FROM(sum, "reduce_scatter", "all_reduce", c.kind = SYMM_MATMUL_REDUCE_SCATTER);
    DIFFER_FROM(sum, "m 21", "m 20", c.m = 21);
    DIFFER_FROM(sum, "n 7 of", "n 6 of", c.n[1] = 7);
    DIFFER_FROM(sum, "n 5 of float32 in float32, l", "n 6 of float32 in float32, l", c.nb = 1);
    DIFFER_FROM(sum, "of bfloat16 in bfloat16", "of float32 in float32", c.out = SYMM_BFLOAT16);
    DIFFER_FROM(sum, "in float16", "in float32", c.partial = SYMM_FLOAT16);
    struct matmul_case four = sum;
    four.nb = 4;
    four.n[2] = four.n[3] = 2000000;
    four.out = SYMM_BFLOAT16;
    DIFFER_FROM(four, " 2000000 2000001, types", " 2000000 2000000, types", c.n[3]++);
    DIFFER_FROM(four, " 2000000, types", " 2000000 2000000, types", c.nb = 3);
    DIFFER_FROM(four, "types 2.", "types 3.", c.out = SYMM_FLOAT16);
    sum.k_differs = true;
    RANK_TRY(self, matmul_bench_change(self, b, &sum));
out:;
}

/* Only the rows on their way are compared. */
MATMUL_TEST(misuse, ranks_may_differ_in_all_that_stays_local, TRIO)
{
    struct matmul_case c = matmul_works;

    c.foreign = true; /* symmetric memory would have different sizes */
    c.nb = 1 + self->rank;
    c.n[2] = 9;
    c.gathered = c.has_c = self->rank == BAD_RANK;
    c.has_bias = self->rank != BAD_RANK;
    c.activation = (symm_activation)self->rank;
    c.out = self->rank ? SYMM_FLOAT32 : SYMM_BFLOAT16;
    c.beta = c.has_c ? c.beta : NULL;
    for (int s = SYMM_STRATEGY_AUTO; s <= SYMM_STRATEGY_UNFUSED; s++) {
        c.strategy = (symm_strategy)s;
        RANK_TRY(self, matmul_bench_change(self, b, &c));
    }
out:;
}

/* One rank creates products without rows of others, well and wrongly; the others wait for it. */
MATMUL_TEST(misuse, a_plain_product_concerns_no_other_rank, TRIO,
            .env = {{"SYMM_CHECK", _i ? "1" : "0"}}, .loop = {0, 2})
{
    struct matmul_case c = matmul_works;
    struct matmul_job alone = {0};
    symm_matmul *m = NULL;

    c.kind = SYMM_MATMUL;
    c.gathered = false;
    c.foreign = true;
    c.m += self->rank;
    RANK_TRY(self, matmul_job_open(self, b->ctx, b->world, &c, &alone));
    if (self->rank == BAD_RANK) {
        symm_matmul_desc wrong = matmul_job_desc(&alone);
        wrong.d[1].shape[1]++;
        RANK_TRY(self, fail_create(self, b, &wrong, SYMM_ERROR_ARGUMENT, "d[1] is"));
        wrong = matmul_job_desc(&alone);
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "out is NULL",
                         symm_matmul_create(b->world, &wrong, NULL));
        RANK_TRY(self, symm_matmul_create(b->world, &wrong, &m));
        symm_matmul_destroy(m);
        RANK_TRY(self, matmul_job_create(self, &alone));
        RANK_TRY(self, matmul_job_works(self, &alone, 7, b->stream));
    }
    RANK_TRY(self, symm_exchange(b->world, NULL, 0, NULL));
out:
    matmul_job_close(&alone);
}

MATMUL_TEST(misuse, different_products_are_a_mismatch, TRIO, .env = {{"SYMM_CHECK", "1"}})
{
    struct matmul_job other = {0};

    RANK_TRY(self, matmul_job_open(self, b->ctx, b->world, &matmul_works, &other));
    RANK_TRY(self, matmul_job_create(self, &other));
    struct matmul_job *job = self->rank == BAD_RANK ? &other : &b->job;
    const symm_matmul_args args = matmul_job_args(job);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "the product of call",
                     symm_matmul_run(job->m, &args, b->stream));
out:
    matmul_job_close(&other);
}

/* One rank has a factor of its own; the others' is 1. Both texts name both factors. */
static symm_status run_with_factors(struct rank *self, struct matmul_bench *b, float alpha,
                                    float beta)
{
    const bool bad = self->rank == BAD_RANK;
    const float one = 1;
    symm_matmul_args args = matmul_job_args(&b->job);

    args.alpha = bad ? &alpha : &one;
    args.beta = bad ? &beta : &one;
    return symm_matmul_run(b->job.m, &args, b->stream);
}

/* Sums over ranks have one alpha and one beta. The next number after 1 is another one. */
MATMUL_TEST(misuse, factors_of_sums_that_differ_are_a_mismatch, TRIO, .env = {{"SYMM_CHECK", "1"}})
{
    struct matmul_case c = matmul_works;

    c.gathered = false;
    for (int kind = SYMM_MATMUL_REDUCE_SCATTER; kind <= SYMM_MATMUL_ALL_REDUCE; kind++) {
        c.kind = (symm_matmul_kind)kind;
        RANK_TRY(self, matmul_bench_change(self, b, &c));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "alpha 0x1.000002p+0, beta 0x1p+0",
                         run_with_factors(self, b, 1 + 0x1p-23f, 1));
        RANK_TEXT(self, "alpha 0x1p+0, beta 0x1p+0");
        RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "alpha 0x1p+0, beta -0x1p+0",
                         run_with_factors(self, b, 1, -1));
        RANK_TEXT(self, "alpha 0x1p+0, beta 0x1p+0");
    }
out:;
}

/* 0 and -0 are equal. */
MATMUL_TEST(misuse, factors_of_sums_may_be_either_zero, TRIO, .env = {{"SYMM_CHECK", "1"}})
{
    static const float zeros[] = {0.0f, -0.0f};
    struct matmul_case c = matmul_works;

    c.kind = SYMM_MATMUL_ALL_REDUCE;
    c.gathered = false;
    c.beta = &zeros[self->rank == BAD_RANK];
    RANK_TRY(self, matmul_bench_change(self, b, &c));
out:;
}

/* ------------------------------------------------------------------------------ wrong arguments */

/* The run is refused on this rank, and the text names it. Nothing is enqueued. */
static symm_status refused(struct rank *self, struct matmul_bench *b, const symm_matmul_args *args,
                           const char *part)
{
    char who[24];

    snprintf(who, sizeof who, "rank %d", self->rank);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, part, symm_matmul_run(b->job.m, args, b->stream));
    RANK_TEXT(self, who);
    RANK_TEXT(self, "symm_matmul_run");
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

#define REFUSED(part, field, value)                                                                \
    do {                                                                                           \
        symm_matmul_args wrong = good;                                                             \
        wrong.field = (value);                                                                     \
        RANK_TRY(self, refused(self, b, &wrong, part));                                            \
    } while (0)

static symm_status leave_data_out(struct rank *self, struct matmul_bench *b)
{
    const symm_matmul_args good = matmul_job_args(&b->job);

    REFUSED("a is NULL", a, NULL);
    REFUSED("b[0] is NULL", b[0], NULL);
    REFUSED("b[1] is NULL", b[1], NULL);
    REFUSED("c[1] is NULL", c[1], NULL);
    REFUSED("d[0] is NULL", d[0], NULL);
    REFUSED("bias[1] is NULL", bias[1], NULL);
    REFUSED("gathered_a is NULL", gathered_a, NULL);
    RANK_TRY(self, refused(self, b, NULL, "is NULL"));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

static symm_status misplace_data(struct rank *self, struct matmul_bench *b)
{
    const symm_matmul_args good = matmul_job_args(&b->job);
    char *const last = b->job.device[MATMUL_SYMMETRIC] + b->job.nbytes[MATMUL_SYMMETRIC];
    void *freed = NULL;

    REFUSED("not aligned to its elements of 2", a, (const char *)good.a + 1);
    REFUSED("not aligned to its elements of 4", d[1], (char *)good.d[1] + 2);
    REFUSED("not aligned to its elements of 4", c[0], (const char *)good.c[0] + 1);
    REFUSED("not aligned to its elements of 4", bias[0], (const char *)good.bias[0] + 3);
    REFUSED("ends past the address space", b[0], (const void *)(UINTPTR_MAX - 15));
    REFUSED("a: ", a, (void *)((uintptr_t)last / 16 * 16 - 32));
    REFUSED("d[0]: ", d[0], (void *)((uintptr_t)last / 16 * 16 - 32));
    REFUSED("d[0]: ", d[0], symm_peer(b->world, b->job.device[MATMUL_SYMMETRIC], !self->rank));
    RANK_TRY(self, symm_alloc(b->world, 65536, &freed));
    RANK_TRY(self, symm_free(b->world, freed));
    REFUSED("freed", b[1], freed);
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

static symm_status overlap_data(struct rank *self, struct matmul_bench *b)
{
    const symm_matmul_args good = matmul_job_args(&b->job);

    REFUSED("overlap", d[0], (void *)(uintptr_t)good.a);
    REFUSED("overlap", d[1], (void *)(uintptr_t)good.b[0]);
    REFUSED("overlap", bias[1], good.d[0]);
    REFUSED("overlap", d[0], good.d[1]);
    REFUSED("overlap", d[0], (char *)(uintptr_t)good.c[0] + 4);
    REFUSED("overlap", d[0], (void *)(uintptr_t)good.c[1]);
    REFUSED("overlap", gathered_a, (void *)(uintptr_t)good.a);
    REFUSED("overlap", gathered_a, (char *)good.d[0] + 16);
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

MATMUL_TEST(misuse, wrong_arguments_are_named, _i, .loop = {2, 4})
{
    struct matmul_case c = matmul_works;

    c.data = MATMUL_IN_ARGS;
    c.foreign = true; /* so that misplace_data() has the end of symmetric memory for itself */
    RANK_TRY(self, matmul_bench_change(self, b, &c));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "m is NULL",
                     symm_matmul_run(NULL, NULL, b->stream));
    CHECK_RANK(self, symm_matmul_strategy(NULL) == SYMM_STRATEGY_AUTO);
    symm_matmul_destroy(NULL);
    RANK_TRY(self, leave_data_out(self, b));
    RANK_TRY(self, misplace_data(self, b));
    RANK_TRY(self, overlap_data(self, b));
    RANK_TRY(self, matmul_bench_works(self, b));
    /* With beta 0 the address of c is not checked. */
    symm_matmul_args args = matmul_job_args(&b->job);
    args.beta = NULL;
    args.c[0] = NULL;
    args.c[1] = (const char *)args.d[0] + 1;
    RANK_TRY(self, symm_matmul_run(b->job.m, &args, b->stream));
    RANK_TRY(self, symm_synchronize(b->world, b->stream));
out:;
}

MATMUL_TEST(misuse, data_without_a_description_are_refused, 2)
{
    static const float three = 3, nan = NAN;
    struct matmul_case c = matmul_works;

    c.has_c = c.has_bias = c.gathered = false;
    c.beta = NULL;
    c.data = MATMUL_IN_ARGS;
    RANK_TRY(self, matmul_bench_change(self, b, &c));
    const symm_matmul_args good = matmul_job_args(&b->job);
    REFUSED("c[0] is 0x", c[0], good.d[0]);
    REFUSED("bias[1] is 0x", bias[1], b->job.device[MATMUL_PLAIN]);
    REFUSED("gathered_a is 0x", gathered_a, b->job.device[MATMUL_PLAIN]);
    REFUSED("b[2] is 0x", b[2], good.b[0]);
    REFUSED("c[3] is 0x", c[3], good.b[0]);
    REFUSED("bias[2] is 0x", bias[2], good.b[0]);
    REFUSED("d[3] is 0x", d[3], good.d[0]);
    REFUSED("beta is 3", beta, &three);
    REFUSED("beta is nan", beta, &nan);
out:;
}

/* ------------------------------------------------------------------------- creating, destroying */

MATMUL_TEST(misuse, a_capture_forbids_to_create, 2)
{
    const symm_matmul_desc desc = matmul_job_desc(&b->job);
    symm_matmul *m = NULL;
    symm_graph graph = NULL;

    RANK_TRY(self, symm_graph_begin(b->stream));
    RANK_TRY(self, matmul_job_run(self, &b->job, b->stream));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_STATE, "symm_matmul_create",
                     symm_matmul_create(b->world, &desc, &m));
    CHECK_RANK(self, m == NULL);
    RANK_TRY(self, symm_graph_end(b->stream, &graph));
    symm_graph_destroy(graph);
out:;
}

MATMUL_TEST(misuse, a_group_destroys_its_remaining_products, TRIO)
{
    const symm_matmul_desc desc = matmul_job_desc(&b->job);
    symm_group *g = NULL;
    symm_matmul *m = NULL;
    symm_usage before, after;
    int ranks[TRIO] = {0, 1, 2};

    RANK_TRY(self, symm_memory_usage(b->ctx, &before));
    for (int i = 0; i < 20; i++) {
        RANK_TRY(self, symm_matmul_create(b->world, &desc, &m));
        symm_matmul_destroy(m);
    }
    RANK_TRY(self, symm_group_create(b->world, TRIO, ranks, &g));
    RANK_TRY(self, symm_matmul_create(g, &desc, &m));
    RANK_TRY(self, symm_group_destroy(g));
    RANK_TRY(self, symm_exchange(b->world, NULL, 0, NULL));
    RANK_TRY(self, symm_memory_usage(b->ctx, &after));
    CHECK_RANK_MSG(self, after.allocated == before.allocated && after.pending == 0,
                   "%llu bytes, before %llu", (unsigned long long)after.allocated,
                   (unsigned long long)before.allocated);
    RANK_TRY(self, symm_matmul_create(b->world, &desc, &m)); /* destroyed by the context */
out:;
}
