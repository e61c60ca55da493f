/*
 * symm_reduce_scatter on the emulated driver: every variant, on every world of 1 to 8, with any
 * count, at any place. All but the switch must give the bits of the ranks' order, which are those
 * of an all-reduce.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "reference.h"
#include "test.h"
#include "trial.h"

static const symm_algo algos[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_ONE_SHOT, SYMM_ALGO_MULTIMEM,
                                  SYMM_ALGO_AUTO};

/* The first three are enough where the arithmetic is not what matters. */
static const struct trial_kind kinds[] = {
    {SYMM_BFLOAT16, SYMM_SUM}, {SYMM_FLOAT32, SYMM_SUM}, {SYMM_FLOAT64, SYMM_SUM},
    {SYMM_FLOAT16, SYMM_SUM},  {SYMM_INT32, SYMM_SUM},   {SYMM_INT64, SYMM_SUM},
    {SYMM_FLOAT32, SYMM_AVG},  {SYMM_FLOAT16, SYMM_AVG}, {SYMM_BFLOAT16, SYMM_AVG},
    {SYMM_FLOAT64, SYMM_AVG},  {SYMM_FLOAT32, SYMM_MIN}, {SYMM_FLOAT16, SYMM_MIN},
    {SYMM_BFLOAT16, SYMM_MIN}, {SYMM_FLOAT64, SYMM_MIN}, {SYMM_INT32, SYMM_MIN},
    {SYMM_INT64, SYMM_MIN},    {SYMM_FLOAT32, SYMM_MAX}, {SYMM_FLOAT16, SYMM_MAX},
    {SYMM_BFLOAT16, SYMM_MAX}, {SYMM_FLOAT64, SYMM_MAX}, {SYMM_INT32, SYMM_MAX},
    {SYMM_INT64, SYMM_MAX},
};
enum { NALGOS = sizeof algos / sizeof algos[0], NKINDS = sizeof kinds / sizeof kinds[0] };

/* Any number of the first kinds. */
static void run(int nranks, enum ranks_mode mode, struct trial_plan plan)
{
    plan.operation = REDUCE_SCATTER;
    plan.algos = algos;
    plan.nalgos = NALGOS;
    plan.kinds = kinds;
    trial_run(nranks, mode, &plan);
}

START_TEST(every_variant_is_right_on_every_world)
{
    const int ncounts = _i == 2 || _i == 3 || _i == 4 || _i == 8 ? 2 : 1;
    run(_i, RANKS_AS_PROCESSES,
        (struct trial_plan){.most = 3000, .nkinds = NKINDS, .ncounts = ncounts});
}
END_TEST

static const int place_worlds[] = {1, 2, 3, 4, 8};

START_TEST(every_place_is_right)
{
    run(place_worlds[_i], RANKS_AS_PROCESSES,
        (struct trial_plan){.most = 1500, .nkinds = 1, .ncounts = 4, .all_places = true});
}
END_TEST

START_TEST(ranks_may_be_threads)
{
    run(_i, RANKS_AS_THREADS, (struct trial_plan){.most = 1500, .nkinds = 3, .ncounts = 3});
}
END_TEST

/* NaNs, infinities, zeros of both signs and subnormal numbers. */
START_TEST(special_values_are_right)
{
    run(_i, RANKS_AS_PROCESSES,
        (struct trial_plan){.most = 300, .nkinds = NKINDS, .ncounts = 1, .special = true});
}
END_TEST

static const int block_sizes[] = {1, 3, 32, 33, 64, 512};

START_TEST(any_block_size_is_right)
{
    char text[16];
    snprintf(text, sizeof text, "%d", block_sizes[_i]);
    setenv("SYMM_EMULATED_BLOCK", text, 1);
    run(3, RANKS_AS_PROCESSES, (struct trial_plan){.most = 1500, .nkinds = 3, .ncounts = 4});
    run(4, RANKS_AS_PROCESSES, (struct trial_plan){.most = 1500, .nkinds = 3, .ncounts = 4});
}
END_TEST

START_TEST(counters_wrap)
{
    setenv("SYMM_EPOCH_START", "4294967280", 1);
    run(4, RANKS_AS_PROCESSES, (struct trial_plan){.most = 1000, .nkinds = 3, .ncounts = 10});
}
END_TEST

/* Staging and packet area are too small for a call, or for more than an element or two a block. */
static const struct {
    const char *staging;
    int nranks;
    struct trial_plan plan;
} pieces[] = {
    {"32M", 2, {.most = 30000, .nkinds = 3, .ncounts = 3}},
    {"32M", 4, {.most = 20000, .nkinds = 1, .ncounts = 3}},
    {"64K", 2, {.most = 50000, .nkinds = 1, .ncounts = 1, .all_places = true}},
    {"64K", 5, {.most = 10000, .nkinds = 3, .ncounts = 2}},
    {"16K", 4, {.most = 5000, .nkinds = 1, .ncounts = 1, .all_places = true}},
    {"4K", 3, {.most = 2000, .nkinds = 2, .ncounts = 2}},
    {"1K", 2, {.most = 2500, .nkinds = 3, .ncounts = 3}},
    {"1K", 4, {.most = 700, .nkinds = 1, .ncounts = 1, .all_places = true}},
    {"1K", 8, {.most = 500, .nkinds = 2, .ncounts = 1}},
};
enum { NPIECES = sizeof pieces / sizeof pieces[0] };

START_TEST(data_larger_than_the_groups_memory_goes_in_pieces)
{
    setenv("SYMM_STAGING_BYTES", pieces[_i].staging, 1);
    run(pieces[_i].nranks, RANKS_AS_PROCESSES, pieces[_i].plan);
}
END_TEST

static const char *const orders[] = {"rank", "reverse", "random"};

START_TEST(any_order_of_the_switch_is_within_bounds)
{
    setenv("SYMM_EMULATED_ORDER", orders[_i], 1);
    run(4, RANKS_AS_PROCESSES, (struct trial_plan){.most = 2000, .nkinds = 3, .ncounts = 4});
}
END_TEST

/* ------------------------------------------------------------------------- beside an all-reduce */

enum { COUNT = 61 }; /* for each rank: not a multiple of anything */

/* The same bits, but that a NaN may be any. */
static bool same(const char *a, const char *b, size_t i, symm_dtype dtype)
{
    const size_t size = reference_size(dtype);
    const bool integer = dtype == SYMM_INT32 || dtype == SYMM_INT64;
    if (!integer && isnan(reference_get_double(a, i, dtype)))
        return isnan(reference_get_double(b, i, dtype));
    return memcmp(a + i * size, b + i * size, size) == 0;
}

/* Of data with every rule of the arithmetic in it. */
static void compare(struct rank *self, void *arg)
{
    const size_t n = (size_t)self->nranks, first = (size_t)self->rank * COUNT;
    struct trial_buffers b = {0};
    symm_context *ctx = NULL;
    uint64_t round = 0;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, trial_open(ctx, n * COUNT * 8, &b));
    for (int k = 0; k < NKINDS; k++) {
        struct collective all = {.operation = ALL_REDUCE,
                                 .algo = SYMM_ALGO_TWO_SHOT,
                                 .dtype = kinds[k].dtype,
                                 .op = kinds[k].op,
                                 .count = n * COUNT,
                                 .round = ++round | REFERENCE_SPECIAL};
        const size_t size = reference_size(all.dtype);
        collective_fill(&all, self->rank, self->nranks, b.sent[0]);
        RANK_TRY(self, symm_copy(b.symmetric[0], b.sent[0], n * COUNT * size, b.stream));
        RANK_TRY(self, collective_call(&all, w, b.symmetric[0], b.foreign[0], b.stream));
        RANK_TRY(self, symm_copy(b.sent[1], b.foreign[0], n * COUNT * size, b.stream));
        for (int a = 0; a < NALGOS; a++) {
            struct collective part = all;
            part.operation = REDUCE_SCATTER;
            part.algo = algos[a];
            part.count = COUNT;
            part.flags = SYMM_DETERMINISTIC;
            if (collective_by_switch(part.algo))
                continue;
            RANK_TRY(self, symm_fill(b.foreign[1], 0x7b, COUNT * size, b.stream));
            RANK_TRY(self, collective_call(&part, w, b.symmetric[0], b.foreign[1], b.stream));
            RANK_TRY(self, symm_copy(b.got, b.foreign[1], COUNT * size, b.stream));
            RANK_TRY(self, symm_synchronize(w, b.stream));
            self->report->wrong += collective_wrong(&part, self->rank, self->nranks, b.got);
            for (size_t i = 0; i < COUNT; i++)
                CHECK_RANK_MSG(self, same(b.got, b.sent[1] + first * size, i, part.dtype),
                               "element %zu differs: %s", i, collective_text(&part));
        }
    }
out:
    if (ctx)
        trial_close(ctx, &b);
    symm_context_destroy(ctx);
}

START_TEST(the_bits_are_those_of_an_all_reduce)
{
    ranks_run_ok(_i, RANKS_AS_PROCESSES, compare, NULL, 60);
}
END_TEST

/* ------------------------------------------------------------------------------------ bad calls */

static const struct collective works = {
    .operation = REDUCE_SCATTER, .dtype = SYMM_FLOAT32, .op = SYMM_SUM, .count = 100, .round = 1};

static void call_badly(struct rank *self, void *arg)
{
    struct trial_buffers b = {0};
    symm_context *ctx = NULL;
    const size_t n = (size_t)self->nranks;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, trial_open(ctx, 4096, &b));
    char *x = b.symmetric[0], *y = b.foreign[0];
    void *z = NULL;
    RANK_TRY(self, symm_alloc(w, 4096, &z));
    char rank[16];
    snprintf(rank, sizeof rank, "rank %d", self->rank);
#define BAD(part, in, out, count, dtype, op, ...)                                                  \
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, part,                                              \
                     symm_reduce_scatter(w, in, out, count, dtype, op,                             \
                                         &(symm_options){__VA_ARGS__}, b.stream));                 \
    CHECK_RANK(self, strstr(self->report->text, "symm_reduce_scatter") &&                          \
                         strstr(self->report->text, rank))
    BAD("in is NULL and count is 5", NULL, y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("out is NULL and count is 5", x, NULL, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    if (n > 1) { /* what was in place with an all-reduce is not here, or on one rank only */
        BAD("overlap", x, x + (self->rank ? 0 : 20), 5, SYMM_FLOAT32, SYMM_SUM, 0);
        BAD("overlap", x, x + self->rank * 20 + 4, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    }
    BAD("overlap", x, x + n * 20 - 4, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("overlap", x + 16, x, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("not aligned", x + 2, y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("not aligned", x, y + 1, 5, SYMM_BFLOAT16, SYMM_SUM, 0);
    BAD("overflows", x, y, SIZE_MAX / 2, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("overflows", x, y, SIZE_MAX, SYMM_BFLOAT16, SYMM_SUM, 0);
    if (n > 1) /* one part would do */
        BAD("overflows", x, y, (size_t)INT64_MAX / 2, SYMM_BFLOAT16, SYMM_SUM, 0);
    BAD("dtype 99", x, y, 5, (symm_dtype)99, SYMM_SUM, 0);
    BAD("op 99", x, y, 5, SYMM_FLOAT32, (symm_redop)99, 0);
    BAD("algo 99", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .algo = (symm_algo)99);
    BAD("flags 0x8", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .flags = 8);
    BAD("reserved[3]", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .reserved[3] = 1);
    BAD("in: ", z, y, 2048, SYMM_FLOAT32, SYMM_SUM, 0);
    if (n > 1) {
        BAD("out: ", x, symm_peer(w, z, !self->rank), 5, SYMM_FLOAT32, SYMM_SUM, 0);
        BAD("in: ", z, y, 1024, SYMM_FLOAT32, SYMM_SUM, 0); /* one part would be there */
    }
    RANK_TRY(self, symm_free(w, z));
    BAD("freed", z, y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
#undef BAD
#define NOT_HERE(part, dtype, op, ...)                                                             \
    RANK_EXPECT_TEXT(                                                                              \
        self, SYMM_ERROR_UNSUPPORTED, part,                                                        \
        symm_reduce_scatter(w, x, y, 5, dtype, op, &(symm_options){__VA_ARGS__}, b.stream))
    NOT_HERE("uint8", SYMM_UINT8, SYMM_SUM, 0);
    NOT_HERE("avg of int32", SYMM_INT32, SYMM_AVG, 0);
    NOT_HERE("no such algorithm", SYMM_FLOAT32, SYMM_SUM, .algo = SYMM_ALGO_TWO_SHOT);
    NOT_HERE("no such algorithm", SYMM_FLOAT32, SYMM_SUM, .algo = SYMM_ALGO_LOW_LATENCY_TWO_SHOT);
    NOT_HERE("no such algorithm", SYMM_FLOAT32, SYMM_SUM, .algo = SYMM_ALGO_MULTIMEM_ONE_SHOT);
    if (!symm_reduce_scatter_unavailable(w, SYMM_ALGO_MULTIMEM, SYMM_FLOAT32, SYMM_SUM))
        NOT_HERE("SYMM_DETERMINISTIC", SYMM_FLOAT32, SYMM_SUM, .algo = SYMM_ALGO_MULTIMEM,
                 .flags = SYMM_DETERMINISTIC);
#undef NOT_HERE
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "group is NULL",
                     symm_reduce_scatter(NULL, x, y, 5, SYMM_FLOAT32, SYMM_SUM, NULL, b.stream));
    /* Nothing has happened: the group works. */
    RANK_TRY(self, symm_reduce_scatter(w, NULL, NULL, 0, SYMM_FLOAT32, SYMM_SUM, NULL, b.stream));
    RANK_TRY(self, trial_call(self, w, &b, SYMMETRIC, &works));
out:
    if (ctx)
        trial_close(ctx, &b);
    symm_context_destroy(ctx);
}

START_TEST(bad_arguments_are_named)
{
    ranks_run_ok(_i, RANKS_AS_PROCESSES, call_badly, NULL, 60);
}
END_TEST

static void multicast_is_off(struct rank *self, void *arg)
{
    struct trial_buffers b = {0};
    symm_context *ctx = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, trial_open(ctx, 4096, &b));
    struct collective c = works;
    c.algo = SYMM_ALGO_MULTIMEM;
    const char *why = collective_unavailable(&c, w);
    CHECK_RANK(self, why && symm_multicast_off(w) && !strcmp(why, symm_multicast_off(w)));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, why,
                     collective_call(&c, w, b.symmetric[0], b.symmetric[1], b.stream));
    RANK_TRY(self, trial_call(self, w, &b, SYMMETRIC, &works));
out:
    if (ctx)
        trial_close(ctx, &b);
    symm_context_destroy(ctx);
}

START_TEST(without_multicast_the_reason_is_given_and_the_rest_works)
{
    setenv("SYMM_MULTICAST", "0", 1);
    ranks_run_ok(4, RANKS_AS_PROCESSES, multicast_is_off, NULL, 60);
}
END_TEST

/* The host notices with SYMM_CHECK, the kernels notice where they meet in barriers. */
static const struct {
    const char *check, *part;
    symm_algo algo;
    struct collective other;
} differing[] = {
    {"1", "count 200", SYMM_ALGO_LOW_LATENCY, {REDUCE_SCATTER, .op = SYMM_SUM, .count = 200}},
    {"1", "float32, max", SYMM_ALGO_AUTO, {REDUCE_SCATTER, .op = SYMM_MAX, .count = 100}},
    {"1", "symm_all_gather", SYMM_ALGO_AUTO, {ALL_GATHER, .count = 100}},
    {"0", "count 200", SYMM_ALGO_ONE_SHOT, {REDUCE_SCATTER, .op = SYMM_SUM, .count = 200}},
    {"0", "float32, max", SYMM_ALGO_ONE_SHOT, {REDUCE_SCATTER, .op = SYMM_MAX, .count = 100}},
    {"0", "symm_all_gather", SYMM_ALGO_ONE_SHOT, {ALL_GATHER, .count = 100}},
    {"0", "symm_all_reduce", SYMM_ALGO_ONE_SHOT, {ALL_REDUCE, .op = SYMM_SUM, .count = 300}},
    {"0", "count 200", SYMM_ALGO_MULTIMEM, {REDUCE_SCATTER, .op = SYMM_SUM, .count = 200}},
    {"0", "symm_all_gather", SYMM_ALGO_MULTIMEM, {ALL_GATHER, .count = 100}},
};
enum { NDIFFERING = sizeof differing / sizeof differing[0] };

START_TEST(different_calls_are_a_mismatch)
{
    struct collective c = works, other = differing[_i].other;
    c.algo = other.algo = differing[_i].algo;
    other.dtype = c.dtype;
    setenv("SYMM_CHECK", differing[_i].check, 1);
    trial_mismatch(&c, &other, differing[_i].part);
}
END_TEST

START_TEST(an_abort_ends_a_call_that_waits)
{
    struct collective c = works;
    c.algo = algos[_i / 2];
    c.count = _i % 2 ? 40000 : 5;
    setenv("SYMM_STAGING_BYTES", "64K", 1);
    trial_abort(&c);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reduce_scatter");
    TCase *right = test_case(suite, "right", 250);
    tcase_add_loop_test(right, every_variant_is_right_on_every_world, 1, 9);
    tcase_add_loop_test(right, every_place_is_right, 0, 5);
    tcase_add_loop_test(right, special_values_are_right, 2, 5);
    tcase_add_loop_test(right, any_block_size_is_right, 0, 6);
    tcase_add_test(right, counters_wrap);
    tcase_add_loop_test(right, data_larger_than_the_groups_memory_goes_in_pieces, 0, NPIECES);
    tcase_add_loop_test(right, any_order_of_the_switch_is_within_bounds, 0, 3);
    tcase_add_loop_test(right, the_bits_are_those_of_an_all_reduce, 2, 9);
    TCase *threads = test_case(suite, "threads", 250); /* what ThreadSanitizer can judge */
    tcase_add_loop_test(threads, ranks_may_be_threads, 1, 5);
    TCase *bad = test_case(suite, "bad", 80);
    tcase_add_loop_test(bad, bad_arguments_are_named, 1, 4);
    tcase_add_test(bad, without_multicast_the_reason_is_given_and_the_rest_works);
    tcase_add_loop_test(bad, different_calls_are_a_mismatch, 0, NDIFFERING);
    tcase_add_loop_test(bad, an_abort_ends_a_call_that_waits, 0, 2 * NALGOS);
    return test_main(suite);
}
