/*
 * symm_all_gather on the emulated driver: every variant, on every world of 1 to 8, with any count,
 * at any place, of every type. Data are bytes of any pattern, among them words that look like the
 * flags of packets; none may change.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "reference.h"
#include "test.h"
#include "trial.h"

static const symm_algo algos[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_ONE_SHOT, SYMM_ALGO_MULTIMEM,
                                  SYMM_ALGO_AUTO};

/* The first four are of all sizes. */
static const struct trial_kind kinds[] = {
    {.dtype = SYMM_BFLOAT16},    {.dtype = SYMM_FLOAT32},     {.dtype = SYMM_UINT8},
    {.dtype = SYMM_FLOAT64},     {.dtype = SYMM_FLOAT16},     {.dtype = SYMM_INT32},
    {.dtype = SYMM_FLOAT8_E4M3}, {.dtype = SYMM_FLOAT8_E5M2}, {.dtype = SYMM_INT64},
};
enum { NALGOS = sizeof algos / sizeof algos[0], NKINDS = sizeof kinds / sizeof kinds[0] };

/* Any number of the first kinds. */
static void run(int nranks, enum ranks_mode mode, struct trial_plan plan)
{
    plan.operation = ALL_GATHER;
    plan.algos = algos;
    plan.nalgos = NALGOS;
    plan.kinds = kinds;
    trial_run(nranks, mode, &plan);
}

START_TEST(every_variant_is_right_on_every_world)
{
    run(_i, RANKS_AS_PROCESSES, (struct trial_plan){.most = 3000, .nkinds = NKINDS, .ncounts = 4});
}
END_TEST

static const int place_worlds[] = {1, 2, 3, 4, 8};

START_TEST(every_place_is_right)
{
    run(place_worlds[_i], RANKS_AS_PROCESSES,
        (struct trial_plan){.most = 1500, .nkinds = 3, .ncounts = 2, .all_places = true});
}
END_TEST

START_TEST(ranks_may_be_threads)
{
    run(_i, RANKS_AS_THREADS, (struct trial_plan){.most = 1500, .nkinds = 4, .ncounts = 3});
}
END_TEST

static const int block_sizes[] = {1, 3, 32, 33, 64, 512};

START_TEST(any_block_size_is_right)
{
    char text[16];
    snprintf(text, sizeof text, "%d", block_sizes[_i]);
    setenv("SYMM_EMULATED_BLOCK", text, 1);
    run(3, RANKS_AS_PROCESSES, (struct trial_plan){.most = 1500, .nkinds = 4, .ncounts = 4});
    run(4, RANKS_AS_PROCESSES, (struct trial_plan){.most = 1500, .nkinds = 4, .ncounts = 4});
}
END_TEST

START_TEST(counters_wrap)
{
    setenv("SYMM_EPOCH_START", "4294967280", 1);
    run(4, RANKS_AS_PROCESSES, (struct trial_plan){.most = 1000, .nkinds = 4, .ncounts = 10});
}
END_TEST

/* Staging and packet area are too small for a call, or for more than a pack or two a block. */
static const struct {
    const char *staging;
    int nranks;
    struct trial_plan plan;
} pieces[] = {
    {"32M", 2, {.most = 60000, .nkinds = 4, .ncounts = 3}},
    {"32M", 4, {.most = 40000, .nkinds = 2, .ncounts = 3}},
    {"64K", 2, {.most = 70000, .nkinds = 1, .ncounts = 1, .all_places = true}},
    {"64K", 5, {.most = 20000, .nkinds = 4, .ncounts = 2}},
    {"16K", 4, {.most = 8000, .nkinds = 1, .ncounts = 1, .all_places = true}},
    {"4K", 3, {.most = 3000, .nkinds = 3, .ncounts = 3}},
    {"1K", 2, {.most = 4000, .nkinds = 4, .ncounts = 3}},
    {"1K", 4, {.most = 1500, .nkinds = 1, .ncounts = 1, .all_places = true}},
    {"1K", 8, {.most = 1000, .nkinds = 3, .ncounts = 1}},
};
enum { NPIECES = sizeof pieces / sizeof pieces[0] };

START_TEST(data_larger_than_the_groups_memory_goes_in_pieces)
{
    setenv("SYMM_STAGING_BYTES", pieces[_i].staging, 1);
    run(pieces[_i].nranks, RANKS_AS_PROCESSES, pieces[_i].plan);
}
END_TEST

/* So many bytes a block that they go to one rank after the other where they can go in place. */
static void gather_many(struct rank *self, void *arg)
{
    enum { PACKS = 4096 + 777 };
    struct collective c = {.operation = ALL_GATHER,
                           .algo = SYMM_ALGO_ONE_SHOT,
                           .dtype = SYMM_UINT8,
                           .count = PACKS * 16,
                           .max_blocks = 1};
    struct trial_buffers b = {0};
    symm_context *ctx = NULL;

    (void)arg;
    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, trial_open(ctx, c.count * (size_t)self->nranks, &b));
    for (int p = 0; p < TRIAL_PLACES; p++) {
        c.round++;
        if (trial_call(self, symm_context_world(ctx), &b, (enum trial_place)p, &c) != SYMM_OK)
            break;
    }
out:
    if (ctx)
        trial_close(ctx, &b);
    symm_context_destroy(ctx);
}

START_TEST(many_packs_are_right)
{
    struct rank_report reports[RANKS_MAX];
    ranks_run(_i, RANKS_AS_PROCESSES, gather_many, NULL, reports, 100);
    ranks_assert_ok(reports, _i);
    ck_assert_int_eq(reports[0].value[0], TRIAL_PLACES);
}
END_TEST

/* ------------------------------------------------------------------------------------ bad calls */

static const struct collective works = {
    .operation = ALL_GATHER, .dtype = SYMM_FLOAT32, .count = 100, .round = 1};

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
#define BAD(part, in, out, count, dtype, ...)                                                      \
    RANK_EXPECT_TEXT(                                                                              \
        self, SYMM_ERROR_ARGUMENT, part,                                                           \
        symm_all_gather(w, in, out, count, dtype, &(symm_options){__VA_ARGS__}, b.stream));        \
    CHECK_RANK(self,                                                                               \
               strstr(self->report->text, "symm_all_gather") && strstr(self->report->text, rank))
    BAD("in is NULL and count is 5", NULL, y, 5, SYMM_FLOAT32, 0);
    BAD("out is NULL and count is 5", x, NULL, 5, SYMM_FLOAT32, 0);
    if (n > 1) { /* in place on another rank */
        BAD("overlap", x + (self->rank ? 0 : 20), x, 5, SYMM_FLOAT32, 0);
        BAD("overlap", x + self->rank * 20 + 4, x, 5, SYMM_FLOAT32, 0);
    }
    BAD("overlap", x + n * 20 - 4, x, 5, SYMM_FLOAT32, 0);
    BAD("overlap", x, x + 16, 5, SYMM_FLOAT32, 0);
    BAD("not aligned", x + 2, y, 5, SYMM_FLOAT32, 0);
    BAD("not aligned", x, y + 1, 5, SYMM_BFLOAT16, 0);
    BAD("overflows", x, y, SIZE_MAX / 2, SYMM_FLOAT32, 0);
    BAD("overflows", x, y, SIZE_MAX, SYMM_UINT8, 0);
    if (n > 1) /* one part would do */
        BAD("overflows", x, y, (size_t)INT64_MAX / 2, SYMM_BFLOAT16, 0);
    BAD("dtype 99", x, y, 5, (symm_dtype)99, 0);
    BAD("algo 99", x, y, 5, SYMM_FLOAT32, .algo = (symm_algo)99);
    BAD("flags 0x8", x, y, 5, SYMM_FLOAT32, .flags = 8);
    BAD("reserved[3]", x, y, 5, SYMM_FLOAT32, .reserved[3] = 1);
    BAD("in: 8192 bytes at", z, y, 2048, SYMM_FLOAT32, 0);
    if (n > 1) {
        BAD("out: ", x, symm_peer(w, z, !self->rank), 5, SYMM_FLOAT32, 0);
        BAD("out: ", y, z, 1024, SYMM_FLOAT32, 0); /* one part would be there */
    }
    RANK_TRY(self, symm_free(w, z));
    BAD("freed", z, y, 5, SYMM_FLOAT32, 0);
#undef BAD
    static const symm_algo not_here[] = {SYMM_ALGO_TWO_SHOT, SYMM_ALGO_LOW_LATENCY_TWO_SHOT,
                                         SYMM_ALGO_MULTIMEM_ONE_SHOT};
    for (size_t a = 0; a < sizeof not_here / sizeof not_here[0]; a++)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "no such algorithm",
                         symm_all_gather(w, x, y, 5, SYMM_FLOAT32,
                                         &(symm_options){.algo = not_here[a]}, b.stream));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "group is NULL",
                     symm_all_gather(NULL, x, y, 5, SYMM_FLOAT32, NULL, b.stream));
    /* Nothing has happened: the group works. */
    RANK_TRY(self, symm_all_gather(w, NULL, NULL, 0, SYMM_FLOAT32, NULL, b.stream));
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
    {"1", "count 200", SYMM_ALGO_LOW_LATENCY, {ALL_GATHER, .dtype = SYMM_FLOAT32, .count = 200}},
    {"1", "int32", SYMM_ALGO_AUTO, {ALL_GATHER, .dtype = SYMM_INT32, .count = 100}},
    {"1",
     "symm_reduce_scatter",
     SYMM_ALGO_AUTO,
     {REDUCE_SCATTER, .dtype = SYMM_FLOAT32, .op = SYMM_SUM, .count = 100}},
    {"0", "count 200", SYMM_ALGO_ONE_SHOT, {ALL_GATHER, .dtype = SYMM_FLOAT32, .count = 200}},
    {"0",
     "symm_reduce_scatter",
     SYMM_ALGO_ONE_SHOT,
     {REDUCE_SCATTER, .dtype = SYMM_FLOAT32, .op = SYMM_SUM, .count = 100}},
    {"0",
     "symm_all_reduce",
     SYMM_ALGO_ONE_SHOT,
     {ALL_REDUCE, .dtype = SYMM_FLOAT32, .op = SYMM_SUM, .count = 100}},
    {"0", "count 200", SYMM_ALGO_MULTIMEM, {ALL_GATHER, .dtype = SYMM_FLOAT32, .count = 200}},
    {"0",
     "symm_all_reduce",
     SYMM_ALGO_MULTIMEM,
     {ALL_REDUCE, .dtype = SYMM_FLOAT32, .op = SYMM_SUM, .count = 300}},
};
enum { NDIFFERING = sizeof differing / sizeof differing[0] };

START_TEST(different_calls_are_a_mismatch)
{
    struct collective c = works, other = differing[_i].other;
    c.algo = other.algo = differing[_i].algo;
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
    Suite *suite = suite_create("all_gather");
    TCase *right = test_case(suite, "right", 250);
    tcase_add_loop_test(right, every_variant_is_right_on_every_world, 1, 9);
    tcase_add_loop_test(right, every_place_is_right, 0, 5);
    tcase_add_loop_test(right, any_block_size_is_right, 0, 6);
    tcase_add_test(right, counters_wrap);
    tcase_add_loop_test(right, data_larger_than_the_groups_memory_goes_in_pieces, 0, NPIECES);
    for (int nranks = 2; nranks <= 8; nranks += nranks < 4 ? 1 : 4)
        tcase_add_loop_test(right, many_packs_are_right, nranks, nranks + 1);
    TCase *threads = test_case(suite, "threads", 250); /* what ThreadSanitizer can judge */
    tcase_add_loop_test(threads, ranks_may_be_threads, 1, 5);
    TCase *bad = test_case(suite, "bad", 80);
    tcase_add_loop_test(bad, bad_arguments_are_named, 1, 4);
    tcase_add_test(bad, without_multicast_the_reason_is_given_and_the_rest_works);
    tcase_add_loop_test(bad, different_calls_are_a_mismatch, 0, NDIFFERING);
    tcase_add_loop_test(bad, an_abort_ends_a_call_that_waits, 0, 2 * NALGOS);
    return test_main(suite);
}
