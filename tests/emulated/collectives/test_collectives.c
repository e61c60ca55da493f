/*
 * The collectives on the emulated driver: every algorithm, in groups of 1 to 8 ranks, with any
 * count, at any place, of every type. Each call gets fresh random data; outputs and their margins
 * are filled with a pattern first. All algorithms but the switch's must give the bits of the
 * ranks' order. The data of an all-gather and of a broadcast are bytes of any pattern, among them
 * words that look like the flags of packets; none may change. Roots are random.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "reference.h"
#include "test.h"
#include "trial.h"
#include "world.h"

/* The first three are enough where the arithmetic does not matter. */
static const struct trial_kind reduced[] = {
    {SYMM_BFLOAT16, SYMM_SUM}, {SYMM_FLOAT32, SYMM_SUM}, {SYMM_FLOAT64, SYMM_SUM},
    {SYMM_FLOAT16, SYMM_SUM},  {SYMM_INT32, SYMM_SUM},   {SYMM_INT64, SYMM_SUM},
    {SYMM_FLOAT32, SYMM_AVG},  {SYMM_FLOAT16, SYMM_AVG}, {SYMM_BFLOAT16, SYMM_AVG},
    {SYMM_FLOAT64, SYMM_AVG},  {SYMM_FLOAT32, SYMM_MIN}, {SYMM_FLOAT16, SYMM_MIN},
    {SYMM_BFLOAT16, SYMM_MIN}, {SYMM_FLOAT64, SYMM_MIN}, {SYMM_INT32, SYMM_MIN},
    {SYMM_INT64, SYMM_MIN},    {SYMM_FLOAT32, SYMM_MAX}, {SYMM_FLOAT16, SYMM_MAX},
    {SYMM_BFLOAT16, SYMM_MAX}, {SYMM_FLOAT64, SYMM_MAX}, {SYMM_INT32, SYMM_MAX},
    {SYMM_INT64, SYMM_MAX},
};
/* The first four have all sizes. */
static const struct trial_kind gathered[] = {
    {.dtype = SYMM_BFLOAT16},    {.dtype = SYMM_FLOAT32},     {.dtype = SYMM_UINT8},
    {.dtype = SYMM_FLOAT64},     {.dtype = SYMM_FLOAT16},     {.dtype = SYMM_INT32},
    {.dtype = SYMM_FLOAT8_E4M3}, {.dtype = SYMM_FLOAT8_E5M2}, {.dtype = SYMM_INT64},
};
enum {
    NREDUCED = sizeof reduced / sizeof reduced[0],
    NGATHERED = sizeof gathered / sizeof gathered[0]
};

/* Staging and packet areas too small for a call, or for more than a pack or two a block. */
struct pieces {
    const char *staging;
    int nranks;
    struct trial_plan plan;
};
enum { NPIECES = 9 };

static const struct subject {
    enum collective_operation operation;
    int nalgos;
    symm_algo algos[8];
    const struct trial_kind *kinds;
    int nkinds, few; /* all of them; the first ones */
    size_t large, small;
    int ncounts; /* of each algorithm and kind; twice as many of those that have loops unrolled */
    int place_kinds, place_counts;
    struct pieces pieces[NPIECES];
} subjects[] = {
    {
        .operation = ALL_REDUCE,
        .nalgos = 8,
        .algos = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_LOW_LATENCY_TWO_SHOT, SYMM_ALGO_LAMPORT,
                  SYMM_ALGO_ONE_SHOT, SYMM_ALGO_TWO_SHOT, SYMM_ALGO_MULTIMEM,
                  SYMM_ALGO_MULTIMEM_ONE_SHOT, SYMM_ALGO_AUTO},
        .kinds = reduced,
        .nkinds = NREDUCED,
        .few = 3,
        .large = 5000,
        .small = 3000,
        .ncounts = 1,
        .place_kinds = 1,
        .place_counts = 3,
        .pieces = {{"32M", 2, {.most = 60000, .nkinds = 3, .ncounts = 3}},
                   {"32M", 4, {.most = 60000, .nkinds = 1, .ncounts = 3}},
                   {"64K", 2, {.most = 100000, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"64K", 5, {.most = 50000, .nkinds = 3, .ncounts = 2}},
                   {"16K", 4, {.most = 20000, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"4K", 3, {.most = 5000, .nkinds = 2, .ncounts = 2}},
                   {"1K", 2, {.most = 5000, .nkinds = 3, .ncounts = 3}},
                   {"1K", 4, {.most = 2000, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"1K", 8, {.most = 2000, .nkinds = 2, .ncounts = 1}}},
    },
    {
        .operation = REDUCE_SCATTER,
        .nalgos = 5,
        .algos = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_LAMPORT, SYMM_ALGO_ONE_SHOT, SYMM_ALGO_MULTIMEM,
                  SYMM_ALGO_AUTO},
        .kinds = reduced,
        .nkinds = NREDUCED,
        .few = 3,
        .large = 3000,
        .small = 1500,
        .ncounts = 1,
        .place_kinds = 1,
        .place_counts = 4,
        .pieces = {{"32M", 2, {.most = 30000, .nkinds = 3, .ncounts = 3}},
                   {"32M", 4, {.most = 20000, .nkinds = 1, .ncounts = 3}},
                   {"64K", 2, {.most = 50000, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"64K", 5, {.most = 10000, .nkinds = 3, .ncounts = 2}},
                   {"16K", 4, {.most = 5000, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"4K", 3, {.most = 2000, .nkinds = 2, .ncounts = 2}},
                   {"1K", 2, {.most = 2500, .nkinds = 3, .ncounts = 3}},
                   {"1K", 4, {.most = 700, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"1K", 8, {.most = 500, .nkinds = 2, .ncounts = 1}}},
    },
    {
        .operation = ALL_GATHER,
        .nalgos = 4,
        .algos = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_ONE_SHOT, SYMM_ALGO_MULTIMEM, SYMM_ALGO_AUTO},
        .kinds = gathered,
        .nkinds = NGATHERED,
        .few = 4,
        .large = 3000,
        .small = 1500,
        .ncounts = 2,
        .place_kinds = 3,
        .place_counts = 2,
        .pieces = {{"32M", 2, {.most = 60000, .nkinds = 4, .ncounts = 3}},
                   {"32M", 4, {.most = 40000, .nkinds = 2, .ncounts = 3}},
                   {"64K", 2, {.most = 70000, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"64K", 5, {.most = 20000, .nkinds = 4, .ncounts = 2}},
                   {"16K", 4, {.most = 8000, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"4K", 3, {.most = 3000, .nkinds = 3, .ncounts = 3}},
                   {"1K", 2, {.most = 4000, .nkinds = 4, .ncounts = 3}},
                   {"1K", 4, {.most = 1500, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"1K", 8, {.most = 1000, .nkinds = 3, .ncounts = 1}}},
    },
    {
        .operation = BROADCAST,
        .nalgos = 4,
        .algos = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_ONE_SHOT, SYMM_ALGO_MULTIMEM, SYMM_ALGO_AUTO},
        .kinds = gathered,
        .nkinds = NGATHERED,
        .few = 4,
        .large = 5000,
        .small = 3000,
        .ncounts = 2,
        .place_kinds = 3,
        .place_counts = 2,
        .pieces = {{"32M", 2, {.most = 60000, .nkinds = 4, .ncounts = 3}},
                   {"32M", 4, {.most = 60000, .nkinds = 2, .ncounts = 3}},
                   {"64K", 2, {.most = 100000, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"64K", 5, {.most = 50000, .nkinds = 4, .ncounts = 2}},
                   {"16K", 4, {.most = 20000, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"4K", 3, {.most = 5000, .nkinds = 3, .ncounts = 3}},
                   {"1K", 2, {.most = 5000, .nkinds = 4, .ncounts = 3}},
                   {"1K", 4, {.most = 2000, .nkinds = 1, .ncounts = 1, .all_places = true}},
                   {"1K", 8, {.most = 2000, .nkinds = 3, .ncounts = 1}}},
    },
};

/* The number of a loop test is that of the subject and one of the case. */
enum { OF_CASE = 16 };
TEST_GROUP(all_reduce_right, 250);
TEST_GROUP(reduce_scatter_right, 250);
TEST_GROUP(all_gather_right, 250);
TEST_GROUP(broadcast_right, 250);
/* What ThreadSanitizer can judge. */
TEST_GROUP(all_reduce_threads, 250);
TEST_GROUP(reduce_scatter_threads, 250);
TEST_GROUP(all_gather_threads, 250);
TEST_GROUP(broadcast_threads, 250);
#define ADD(group, test, subject, first, end)                                                      \
    TEST_ADD(group, test, (subject)*OF_CASE + (first), (subject)*OF_CASE + (end))
#define ADD_REDUCTIONS(test, first, end)                                                           \
    ADD(all_reduce_right, test, 0, first, end);                                                    \
    ADD(reduce_scatter_right, test, 1, first, end)
#define ADD_ALL(test, first, end)                                                                  \
    ADD_REDUCTIONS(test, first, end);                                                              \
    ADD(all_gather_right, test, 2, first, end);                                                    \
    ADD(broadcast_right, test, 3, first, end)
#define SUBJECT (&subjects[_i / OF_CASE])
#define NUMBER (_i % OF_CASE)

/* Any number of the first kinds. */
static void run(const struct subject *s, int nranks, enum ranks_mode mode, struct trial_plan plan)
{
    plan.operation = s->operation;
    plan.algos = s->algos;
    plan.nalgos = s->nalgos;
    plan.kinds = s->kinds;
    trial_run(nranks, mode, &plan);
}

TEST_BODY(every_algorithm_is_right_in_every_world)
{
    const struct subject *s = SUBJECT;
    const int nranks = NUMBER,
              unrolled = nranks == 2 || nranks == 3 || nranks == 4 || nranks == 8 ? 2 : 1;
    run(s, nranks, RANKS_AS_PROCESSES,
        (struct trial_plan){
            .most = s->large, .nkinds = s->nkinds, .ncounts = s->ncounts * unrolled});
}
ADD_ALL(every_algorithm_is_right_in_every_world, 1, 9);

TEST_BODY(every_place_is_right)
{
    static const int worlds[] = {1, 2, 3, 4, 8};
    const struct subject *s = SUBJECT;
    run(s, worlds[NUMBER], RANKS_AS_PROCESSES,
        (struct trial_plan){.most = s->small,
                            .nkinds = s->place_kinds,
                            .ncounts = s->place_counts,
                            .all_places = true});
}
ADD_ALL(every_place_is_right, 0, 5);

TEST_BODY(ranks_may_be_threads)
{
    const struct subject *s = SUBJECT;
    run(s, NUMBER, RANKS_AS_THREADS,
        (struct trial_plan){.most = s->small, .nkinds = s->few, .ncounts = 3});
}
ADD(all_reduce_threads, ranks_may_be_threads, 0, 1, 5);
ADD(reduce_scatter_threads, ranks_may_be_threads, 1, 1, 5);
ADD(all_gather_threads, ranks_may_be_threads, 2, 1, 5);
ADD(broadcast_threads, ranks_may_be_threads, 3, 1, 5);

/* NaNs, infinities, zeros of both signs and subnormal numbers. */
TEST_BODY(special_values_are_right)
{
    const struct subject *s = SUBJECT;
    run(s, NUMBER, RANKS_AS_PROCESSES,
        (struct trial_plan){.most = 300, .nkinds = s->nkinds, .ncounts = 1, .special = true});
}
ADD_REDUCTIONS(special_values_are_right, 2, 5);

TEST_BODY(any_block_size_is_right)
{
    static const char *const sizes[] = {"1", "3", "32", "33", "64", "512"};
    const struct subject *s = SUBJECT;
    const struct trial_plan plan = {.most = s->small, .nkinds = s->few, .ncounts = 4};
    setenv("SYMM_EMULATED_BLOCK", sizes[NUMBER], 1);
    run(s, 3, RANKS_AS_PROCESSES, plan);
    run(s, 4, RANKS_AS_PROCESSES, plan);
}
ADD_ALL(any_block_size_is_right, 0, 6);

TEST_BODY(counters_wrap)
{
    const struct subject *s = SUBJECT;
    setenv("SYMM_EPOCH_START", "4294967280", 1);
    run(s, 4, RANKS_AS_PROCESSES,
        (struct trial_plan){.most = 1000, .nkinds = s->few, .ncounts = 10});
}
ADD_ALL(counters_wrap, 0, 1);

TEST_BODY(data_larger_than_the_groups_memory_are_right)
{
    const struct pieces *p = &SUBJECT->pieces[NUMBER];
    setenv("SYMM_STAGING_BYTES", p->staging, 1);
    run(SUBJECT, p->nranks, RANKS_AS_PROCESSES, p->plan);
}
ADD_ALL(data_larger_than_the_groups_memory_are_right, 0, NPIECES);

TEST_BODY(any_order_of_the_switch_is_within_bounds)
{
    static const char *const orders[] = {"rank", "reverse", "random"};
    const struct subject *s = SUBJECT;
    setenv("SYMM_EMULATED_ORDER", orders[NUMBER], 1);
    run(s, 4, RANKS_AS_PROCESSES,
        (struct trial_plan){.most = s->large, .nkinds = s->few, .ncounts = 4});
}
ADD_REDUCTIONS(any_order_of_the_switch_is_within_bounds, 0, 3);

/* ---- All-reduce ---- */

/* Rank r brings a NaN as element i if bit r of i is set: every pattern of NaNs. */
WORLD_RANK(reduce_nans)
{
    enum { COUNT = 64 };
    const struct subject *subject = arg;
    struct trial_buffers b = {0};

    RANK_TRY(self, trial_open(ctx, COUNT * 8, &b));
    for (int a = 0; a < subject->nalgos; a++)
        for (int k = 0; k < subject->nkinds; k++) {
            const struct collective c = {.operation = ALL_REDUCE,
                                         .algo = subject->algos[a],
                                         .dtype = subject->kinds[k].dtype,
                                         .op = subject->kinds[k].op,
                                         .count = COUNT};
            const size_t nbytes = COUNT * symm_dtype_size(c.dtype);
            if ((c.op != SYMM_MIN && c.op != SYMM_MAX) || c.dtype == SYMM_INT32 ||
                c.dtype == SYMM_INT64 || collective_unavailable(&c, world))
                continue;
            for (size_t i = 0; i < COUNT; i++)
                reference_set(b.got, i, c.dtype,
                              i >> self->rank & 1 ? (double)NAN : (double)(1 + self->rank));
            RANK_TRY(self, symm_copy(b.symmetric[0], b.got, nbytes, b.stream));
            RANK_TRY(self, collective_call(&c, world, b.symmetric[0], b.symmetric[1], b.stream));
            RANK_TRY(self, symm_copy(b.got, b.symmetric[1], nbytes, b.stream));
            RANK_TRY(self, symm_synchronize(world, b.stream));
            for (size_t i = 0; i < COUNT; i++) {
                double want = (double)NAN;
                for (int r = 0; r < self->nranks; r++)
                    if (!(i >> r & 1))
                        want = c.op == SYMM_MIN ? fmin(want, 1 + r) : fmax(want, 1 + r);
                const double got = reference_get(b.got, i, c.dtype);
                CHECK_RANK_MSG(self, isnan(want) ? isnan(got) : got == want,
                               "%s, element %zu: %g, not %g", collective_text(&c), i, got, want);
            }
        }
out:
    trial_close(&b);
}

TEST_BODY(a_nan_gives_way_to_a_number)
{
    struct subject s = *SUBJECT;
    ranks_run_ok(NUMBER, RANKS_AS_PROCESSES, reduce_nans, &s, 60);
}
ADD(all_reduce_right, a_nan_gives_way_to_a_number, 0, 2, 5);

/* ---- Reduce-scatter ---- */

/* The same bits; all NaNs are alike. */
static bool same(const char *a, const char *b, size_t i, symm_dtype dtype)
{
    const size_t size = symm_dtype_size(dtype);
    const bool integer = dtype == SYMM_INT32 || dtype == SYMM_INT64;
    if (!integer && isnan(reference_get(a, i, dtype)))
        return isnan(reference_get(b, i, dtype));
    return memcmp(a + i * size, b + i * size, size) == 0;
}

/* Compares with an all-reduce, of data with every rule of the arithmetic in it. */
WORLD_RANK(compare)
{
    enum { COUNT = 61 }; /* for each rank: not a multiple of anything */
    const struct subject *subject = arg;
    const size_t n = (size_t)self->nranks, first = (size_t)self->rank * COUNT;
    struct trial_buffers b = {0};
    uint64_t round = 0;

    RANK_TRY(self, trial_open(ctx, n * COUNT * 8, &b));
    for (int k = 0; k < subject->nkinds; k++) {
        struct collective all = {.operation = ALL_REDUCE,
                                 .algo = SYMM_ALGO_TWO_SHOT,
                                 .dtype = subject->kinds[k].dtype,
                                 .op = subject->kinds[k].op,
                                 .count = n * COUNT,
                                 .round = ++round | REFERENCE_SPECIAL};
        const size_t size = symm_dtype_size(all.dtype);
        collective_fill(&all, self->rank, self->nranks, b.sent[0]);
        RANK_TRY(self, symm_copy(b.symmetric[0], b.sent[0], n * COUNT * size, b.stream));
        RANK_TRY(self, collective_call(&all, world, b.symmetric[0], b.foreign[0], b.stream));
        RANK_TRY(self, symm_copy(b.sent[1], b.foreign[0], n * COUNT * size, b.stream));
        for (int a = 0; a < subject->nalgos; a++) {
            struct collective part = all;
            part.operation = REDUCE_SCATTER;
            part.algo = subject->algos[a];
            part.count = COUNT;
            part.flags = SYMM_DETERMINISTIC;
            if (collective_by_switch(part.algo) || collective_unavailable(&part, world))
                continue;
            RANK_TRY(self, symm_fill(b.foreign[1], 0x7b, COUNT * size, b.stream));
            RANK_TRY(self, collective_call(&part, world, b.symmetric[0], b.foreign[1], b.stream));
            RANK_TRY(self, symm_copy(b.got, b.foreign[1], COUNT * size, b.stream));
            RANK_TRY(self, symm_synchronize(world, b.stream));
            self->report->wrong += collective_wrong(&part, self->rank, self->nranks, b.got);
            for (size_t i = 0; i < COUNT; i++)
                CHECK_RANK_MSG(self, same(b.got, b.sent[1] + first * size, i, part.dtype),
                               "element %zu differs: %s", i, collective_text(&part));
        }
    }
out:
    trial_close(&b);
}

TEST_BODY(the_bits_are_those_of_an_all_reduce)
{
    struct subject s = *SUBJECT;
    ranks_run_ok(NUMBER, RANKS_AS_PROCESSES, compare, &s, 60);
}
ADD(reduce_scatter_right, the_bits_are_those_of_an_all_reduce, 1, 2, 9);

/* ---- All-gather, broadcast ---- */

static const int world_sizes[] = {2, 3, 4, 8};

/* Each block has so many packs that it sends them to one rank after the other, in place. */
WORLD_TEST(all_gather_right, many_packs_are_right, world_sizes[_i % 4], .arg = &(int){_i / 4},
           .timeout_s = 100, .loop = {0, 8})
{
    enum { PACKS = 4096 + 777 };
    struct collective c = {.operation = *(const int *)arg ? BROADCAST : ALL_GATHER,
                           .algo = SYMM_ALGO_ONE_SHOT,
                           .dtype = SYMM_UINT8,
                           .count = PACKS * 16,
                           .max_blocks = 1};
    struct trial_buffers b = {0};

    RANK_TRY(self, trial_open(ctx, c.count * (size_t)self->nranks, &b));
    for (int p = 0; p < TRIAL_PLACES; p++) {
        c.round++;
        c.root = p;
        RANK_TRY(self, trial_call(self, world, &b, (enum trial_place)p, &c));
    }
out:
    trial_close(&b);
}
