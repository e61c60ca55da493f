/*
 * symm_all_reduce on the emulated driver: every variant, on every world of 1 to 8, with any count,
 * at any place. Each call gets fresh random data; outputs and what lies around them are filled with
 * a pattern first. All but the switch must give the bits of the ranks' order, so all of these
 * algorithms give the same bits.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <symm/collectives.h>
#include <symm/stream.h>
#include "ranks.h"
#include "reference.h"
#include "test.h"
#include "trial.h"

static const symm_algo algos[] = {
    SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_LOW_LATENCY_TWO_SHOT, SYMM_ALGO_ONE_SHOT, SYMM_ALGO_TWO_SHOT,
    SYMM_ALGO_MULTIMEM,    SYMM_ALGO_MULTIMEM_ONE_SHOT,    SYMM_ALGO_AUTO};

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
enum { NALGOS = 7, NKINDS = sizeof kinds / sizeof kinds[0] };

/* Any number of the first kinds. */
static void run(int nranks, enum ranks_mode mode, struct trial_plan plan)
{
    plan.operation = ALL_REDUCE;
    plan.algos = algos;
    plan.nalgos = NALGOS;
    plan.kinds = kinds;
    trial_run(nranks, mode, &plan);
}

START_TEST(every_variant_is_right_on_every_world)
{
    const int ncounts = _i == 2 || _i == 3 || _i == 4 || _i == 8 ? 2 : 1;
    run(_i, RANKS_AS_PROCESSES,
        (struct trial_plan){.most = 5000, .nkinds = NKINDS, .ncounts = ncounts});
}
END_TEST

static const int place_worlds[] = {1, 2, 3, 4, 8};

START_TEST(every_place_is_right)
{
    run(place_worlds[_i], RANKS_AS_PROCESSES,
        (struct trial_plan){.most = 3000, .nkinds = 1, .ncounts = 3, .all_places = true});
}
END_TEST

START_TEST(ranks_may_be_threads)
{
    run(_i, RANKS_AS_THREADS, (struct trial_plan){.most = 3000, .nkinds = 3, .ncounts = 3});
}
END_TEST

static const int block_sizes[] = {1, 3, 32, 33, 64, 512};

/* NaNs, infinities, zeros of both signs and subnormal numbers. */
START_TEST(special_values_are_right)
{
    run(_i, RANKS_AS_PROCESSES,
        (struct trial_plan){.most = 300, .nkinds = NKINDS, .ncounts = 1, .special = true});
}
END_TEST

START_TEST(any_block_size_is_right)
{
    char text[16];
    snprintf(text, sizeof text, "%d", block_sizes[_i]);
    setenv("SYMM_EMULATED_BLOCK", text, 1);
    run(3, RANKS_AS_PROCESSES, (struct trial_plan){.most = 3000, .nkinds = 3, .ncounts = 4});
    run(4, RANKS_AS_PROCESSES, (struct trial_plan){.most = 3000, .nkinds = 3, .ncounts = 4});
}
END_TEST

START_TEST(counters_wrap)
{
    setenv("SYMM_EPOCH_START", "4294967280", 1);
    run(4, RANKS_AS_PROCESSES, (struct trial_plan){.most = 1000, .nkinds = 3, .ncounts = 10});
}
END_TEST

/*
 * The packet area is an eighth of it, for 128 blocks: a few packets each, so many epochs a call; or
 * with much of it more than a block has threads.
 */
static const struct {
    const char *staging;
    int nranks;
    struct trial_plan plan;
} pieces[] = {
    {"32M", 2, {.most = 60000, .nkinds = 3, .ncounts = 3}},
    {"32M", 4, {.most = 60000, .nkinds = 1, .ncounts = 3}},
    {"64K", 2, {.most = 100000, .nkinds = 1, .ncounts = 1, .all_places = true}},
    {"64K", 5, {.most = 50000, .nkinds = 3, .ncounts = 2}},
    {"16K", 4, {.most = 20000, .nkinds = 1, .ncounts = 1, .all_places = true}},
    {"4K", 3, {.most = 5000, .nkinds = 2, .ncounts = 2}},
    {"1K", 2, {.most = 5000, .nkinds = 3, .ncounts = 3}},
    {"1K", 4, {.most = 2000, .nkinds = 1, .ncounts = 1, .all_places = true}},
    {"1K", 8, {.most = 2000, .nkinds = 2, .ncounts = 1}},
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
    run(4, RANKS_AS_PROCESSES, (struct trial_plan){.most = 5000, .nkinds = 3, .ncounts = 4});
}
END_TEST

/* ------------------------------------------------------------------------------------------ NaN */

/* Of element i, rank r brings a NaN if bit r of i is set: every pattern of NaNs comes. */
static void reduce_nans(struct rank *self, void *arg)
{
    enum { COUNT = 64 };
    struct trial_buffers b = {0};
    symm_context *ctx = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, trial_open(ctx, COUNT * 8, &b));
    for (int a = 0; a < NALGOS; a++)
        for (int k = 0; k < NKINDS; k++) {
            const symm_dtype dtype = kinds[k].dtype;
            const symm_redop op = kinds[k].op;
            const size_t nbytes = COUNT * reference_size(dtype);
            if ((op != SYMM_MIN && op != SYMM_MAX) || dtype == SYMM_INT32 || dtype == SYMM_INT64 ||
                symm_all_reduce_unavailable(w, algos[a], dtype, op))
                continue;
            for (size_t i = 0; i < COUNT; i++)
                reference_set_double(b.got, i, dtype,
                                     i >> self->rank & 1 ? (double)NAN : (double)(1 + self->rank));
            RANK_TRY(self, symm_copy(b.symmetric[0], b.got, nbytes, b.stream));
            RANK_TRY(self, symm_all_reduce(w, b.symmetric[0], b.symmetric[1], COUNT, dtype, op,
                                           &(symm_options){.algo = algos[a]}, b.stream));
            RANK_TRY(self, symm_copy(b.got, b.symmetric[1], nbytes, b.stream));
            RANK_TRY(self, symm_synchronize(w, b.stream));
            for (size_t i = 0; i < COUNT; i++) {
                double want = (double)NAN;
                for (int r = 0; r < self->nranks; r++)
                    if (!(i >> r & 1))
                        want = op == SYMM_MIN ? fmin(want, 1 + r) : fmax(want, 1 + r);
                const double got = reference_get_double(b.got, i, dtype);
                CHECK_RANK_MSG(self, isnan(want) ? isnan(got) : got == want,
                               "algo %d, dtype %d, op %d, element %zu: %g, not %g", (int)algos[a],
                               (int)dtype, (int)op, i, got, want);
            }
        }
out:
    if (ctx)
        trial_close(ctx, &b);
    symm_context_destroy(ctx);
}

START_TEST(a_nan_gives_way_to_a_number)
{
    ranks_run_ok(_i, RANKS_AS_PROCESSES, reduce_nans, NULL, 60);
}
END_TEST

/* --------------------------------------------------------------------------------------- bad calls
 */

static const struct collective works = {
    .operation = ALL_REDUCE, .dtype = SYMM_FLOAT32, .op = SYMM_SUM, .count = 100, .round = 1};

static void call_badly(struct rank *self, void *arg)
{
    struct trial_buffers b = {0};
    symm_context *ctx = NULL;
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
    RANK_EXPECT_TEXT(                                                                              \
        self, SYMM_ERROR_ARGUMENT, part,                                                           \
        symm_all_reduce(w, in, out, count, dtype, op, &(symm_options){__VA_ARGS__}, b.stream));    \
    CHECK_RANK(self,                                                                               \
               strstr(self->report->text, "symm_all_reduce") && strstr(self->report->text, rank))
    BAD("in is NULL and count is 5", NULL, y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("out is NULL and count is 5", x, NULL, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("overlap", x, x + 4, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("overlap", x + 16, x, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("not aligned", x + 2, y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("not aligned", x, y + 1, 5, SYMM_BFLOAT16, SYMM_SUM, 0);
    BAD("overflows", x, y, SIZE_MAX / 2, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("overflows", x, y, SIZE_MAX, SYMM_BFLOAT16, SYMM_SUM, 0);
    BAD("dtype 99", x, y, 5, (symm_dtype)99, SYMM_SUM, 0);
    BAD("op 99", x, y, 5, SYMM_FLOAT32, (symm_redop)99, 0);
    BAD("algo 99", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .algo = (symm_algo)99);
    BAD("flags 0x8", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .flags = 8);
    BAD("reserved[3]", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .reserved[3] = 1);
    BAD("in: 8192 bytes at", z, z, 2048, SYMM_FLOAT32, SYMM_SUM, 0);
    if (symm_nranks(w) > 1)
        BAD("out: ", x, symm_peer(w, z, !self->rank), 5, SYMM_FLOAT32, SYMM_SUM, 0);
    if (symm_multicast(w, z))
        BAD("is a multicast address", symm_multicast(w, z), y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    RANK_TRY(self, symm_free(w, z));
    BAD("freed", z, z, 5, SYMM_FLOAT32, SYMM_SUM, 0);
#undef BAD
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "uint8",
                     symm_all_reduce(w, x, y, 5, SYMM_UINT8, SYMM_SUM, NULL, b.stream));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "avg of int32",
                     symm_all_reduce(w, x, y, 5, SYMM_INT32, SYMM_AVG, NULL, b.stream));
    if (!symm_all_reduce_unavailable(w, SYMM_ALGO_MULTIMEM, SYMM_FLOAT32, SYMM_SUM))
        RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "SYMM_DETERMINISTIC",
                         symm_all_reduce(w, x, y, 5, SYMM_FLOAT32, SYMM_SUM,
                                         &(symm_options){.algo = SYMM_ALGO_MULTIMEM,
                                                         .flags = SYMM_DETERMINISTIC},
                                         b.stream));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "group is NULL",
                     symm_all_reduce(NULL, x, y, 5, SYMM_FLOAT32, SYMM_SUM, NULL, b.stream));
    /* Nothing has happened: the group works. */
    RANK_TRY(self, symm_all_reduce(w, NULL, NULL, 0, SYMM_FLOAT32, SYMM_SUM, NULL, b.stream));
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
    const char *why = symm_all_reduce_unavailable(w, SYMM_ALGO_MULTIMEM, SYMM_FLOAT32, SYMM_SUM);
    CHECK_RANK(self, why && symm_multicast_off(w) && !strcmp(why, symm_multicast_off(w)));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, why,
                     symm_all_reduce(w, b.symmetric[0], b.symmetric[1], 5, SYMM_FLOAT32, SYMM_SUM,
                                     &(symm_options){.algo = SYMM_ALGO_MULTIMEM}, b.stream));
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

/*
 * One rank calls something else, and the group ends on all ranks: the host notices with SYMM_CHECK,
 * the kernels notice where they meet in barriers. Packets say nothing of the call.
 */
static const struct {
    const char *check;
    symm_algo algo;
} differing[] = {{"1", SYMM_ALGO_AUTO},
                 {"1", SYMM_ALGO_TWO_SHOT},
                 {"0", SYMM_ALGO_ONE_SHOT},
                 {"0", SYMM_ALGO_TWO_SHOT},
                 {"0", SYMM_ALGO_MULTIMEM}};

START_TEST(different_calls_are_a_mismatch)
{
    struct collective c = works, other = works;
    c.algo = other.algo = differing[_i].algo;
    other.count = 200;
    setenv("SYMM_CHECK", differing[_i].check, 1);
    trial_mismatch(&c, &other, "count 200");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("all_reduce");
    TCase *right = test_case(suite, "right", 250);
    tcase_add_loop_test(right, every_variant_is_right_on_every_world, 1, 9);
    tcase_add_loop_test(right, every_place_is_right, 0, 5);
    tcase_add_loop_test(right, special_values_are_right, 2, 5);
    tcase_add_loop_test(right, any_block_size_is_right, 0, 6);
    tcase_add_test(right, counters_wrap);
    tcase_add_loop_test(right, data_larger_than_the_groups_memory_goes_in_pieces, 0, NPIECES);
    tcase_add_loop_test(right, any_order_of_the_switch_is_within_bounds, 0, 3);
    tcase_add_loop_test(right, a_nan_gives_way_to_a_number, 2, 5);
    TCase *threads = test_case(suite, "threads", 250); /* what ThreadSanitizer can judge */
    tcase_add_loop_test(threads, ranks_may_be_threads, 1, 5);
    TCase *bad = test_case(suite, "bad", 80);
    tcase_add_loop_test(bad, bad_arguments_are_named, 1, 3);
    tcase_add_test(bad, without_multicast_the_reason_is_given_and_the_rest_works);
    tcase_add_loop_test(bad, different_calls_are_a_mismatch, 0, 5);
    return test_main(suite);
}
