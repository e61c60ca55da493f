/* Collectives that cannot be: bad arguments, no multicast, ranks that call different things. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "test.h"
#include "trial.h"
#include "world.h"

static const enum collective_operation operations[] = {ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER,
                                                       BROADCAST};
static const char *const names[] = {"symm_all_reduce", "symm_reduce_scatter", "symm_all_gather",
                                    "symm_broadcast"};
static const char *const rank_names[] = {"rank 0", "rank 1", "rank 2"};
enum { OF_CASE = 32 }; /* as in test_collectives.c */
#define ADD(group, test, operation, first, end)                                                    \
    TEST_ADD(group, test, (operation)*OF_CASE + (first), (operation)*OF_CASE + (end))
TEST_GROUP(all_reduce_bad, 80);
TEST_GROUP(reduce_scatter_bad, 80);
TEST_GROUP(all_gather_bad, 80);
TEST_GROUP(broadcast_bad, 80);

static struct collective works(enum collective_operation operation)
{
    return (struct collective){
        .operation = operation, .dtype = SYMM_FLOAT32, .op = SYMM_SUM, .count = 100, .round = 1};
}

static symm_status call(enum collective_operation operation, symm_group *w, const void *in,
                        void *out, size_t count, symm_dtype dtype, symm_redop op,
                        const symm_options *options, symm_stream stream)
{
    switch (operation) {
    case BROADCAST: /* by each rank as the root, so that it checks all that it can */
        return symm_broadcast(w, in, out, count, dtype, w ? symm_rank(w) : 0, options, stream);
    case ALL_GATHER:
        return symm_all_gather(w, in, out, count, dtype, options, stream);
    case REDUCE_SCATTER:
        return symm_reduce_scatter(w, in, out, count, dtype, op, options, stream);
    default:
        return symm_all_reduce(w, in, out, count, dtype, op, options, stream);
    }
}

#define CALL(in, out, count, dtype, op, ...)                                                       \
    call(o, w, in, out, count, dtype, op, &(symm_options){__VA_ARGS__}, b->stream)
/* Each text names the call and the rank. */
#define BAD(part, ...)                                                                             \
    do {                                                                                           \
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, part, CALL(__VA_ARGS__));                      \
        RANK_TEXT(self, names[o]);                                                                 \
        RANK_TEXT(self, rank_names[self->rank]);                                                   \
    } while (0)
#define NOT_HERE(part, ...) RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, part, CALL(__VA_ARGS__))

static void overlap(struct rank *self, symm_group *w, const struct trial_buffers *b,
                    enum collective_operation o)
{
    const size_t n = (size_t)self->nranks;
    char *x = b->symmetric[0];
    /* The smaller buffer of 20 bytes at y, the larger one at x; of an all-reduce both are small. */
#define AT(y) o == ALL_GATHER ? (y) : x, o == ALL_GATHER ? x : (y), 5, SYMM_FLOAT32, SYMM_SUM, 0
    if (!collective_has_shares(o)) {
        BAD("overlap", x, x + 4, 5, SYMM_FLOAT32, SYMM_SUM, 0);
        BAD("overlap", x + 16, x, 5, SYMM_FLOAT32, SYMM_SUM, 0);
        return;
    }
    if (n > 1) { /* in place on another rank, or in an all-reduce */
        BAD("overlap", AT(x + (self->rank ? 0 : 20)));
        BAD("overlap", AT(x + self->rank * 20 + 4));
    }
    BAD("overlap", AT(x + n * 20 - 4));
    if (o == ALL_GATHER)
        BAD("overlap", x, x + 16, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    else
        BAD("overlap", x + 16, x, 5, SYMM_FLOAT32, SYMM_SUM, 0);
#undef AT
out:
    return;
}

static void bad_values(struct rank *self, symm_group *w, const struct trial_buffers *b,
                       enum collective_operation o)
{
    char *x = b->symmetric[0], *y = b->foreign[0];
    BAD("in is NULL and count is 5", NULL, y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("out is NULL and count is 5", x, NULL, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("not aligned", x + 2, y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("not aligned", x, y + 1, 5, SYMM_BFLOAT16, SYMM_SUM, 0);
    BAD("overflows", x, y, SIZE_MAX / 2, SYMM_FLOAT32, SYMM_SUM, 0);
    BAD("overflows", x, y, SIZE_MAX, SYMM_BFLOAT16, SYMM_SUM, 0);
    if (!collective_reduces(o))
        BAD("overflows", x, y, SIZE_MAX, SYMM_UINT8, SYMM_SUM, 0);
    if (self->nranks > 1 && collective_has_shares(o)) /* one share would fit */
        BAD("overflows", x, y, (size_t)INT64_MAX / 2, SYMM_BFLOAT16, SYMM_SUM, 0);
    BAD("dtype 99", x, y, 5, (symm_dtype)99, SYMM_SUM, 0);
    if (collective_reduces(o))
        BAD("op 99", x, y, 5, SYMM_FLOAT32, (symm_redop)99, 0);
    BAD("algo 99", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .algo = (symm_algo)99);
    BAD("flags 0x8", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .flags = 8);
    BAD("reserved[3]", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .reserved[3] = 1);
out:
    return;
}

static void bad_memory(struct rank *self, symm_group *w, const struct trial_buffers *b,
                       enum collective_operation o)
{
    char *x = b->symmetric[0], *y = b->foreign[0];
    void *z = NULL;
    RANK_TRY(self, symm_alloc(w, 4096, &z));
    BAD(o == REDUCE_SCATTER ? "in: " : "in: 8192 bytes at", z, y, 2048, SYMM_FLOAT32, SYMM_SUM, 0);
    /* They also overlap, because they run past their end. */
    BAD("in: ", z, (char *)z + 1024, 2048, SYMM_FLOAT32, SYMM_SUM, 0);
    if (self->nranks > 1) {
        BAD("out: ", x, symm_peer(w, z, !self->rank), 5, SYMM_FLOAT32, SYMM_SUM, 0);
        if (o == ALL_GATHER) /* one share would fit */
            BAD("out: ", y, z, 1024, SYMM_FLOAT32, SYMM_SUM, 0);
        if (o == REDUCE_SCATTER)
            BAD("in: ", z, y, 1024, SYMM_FLOAT32, SYMM_SUM, 0);
    }
    if (symm_multicast(w, z))
        BAD("is a multicast address", symm_multicast(w, z), y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
    RANK_TRY(self, symm_free(w, z));
    BAD("freed", z, y, 5, SYMM_FLOAT32, SYMM_SUM, 0);
out:
    return;
}

static void unsupported(struct rank *self, symm_group *w, const struct trial_buffers *b,
                        enum collective_operation o)
{
    static const symm_algo of_all_reduce[] = {SYMM_ALGO_TWO_SHOT, SYMM_ALGO_LOW_LATENCY_TWO_SHOT,
                                              SYMM_ALGO_MULTIMEM_ONE_SHOT};
    struct collective multimem = works(o);
    char *x = b->symmetric[0], *y = b->foreign[0];
    multimem.algo = SYMM_ALGO_MULTIMEM;
    for (int a = 0; o != ALL_REDUCE && a < 3; a++)
        NOT_HERE("no such algorithm", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .algo = of_all_reduce[a]);
    if (!collective_reduces(o))
        return;
    NOT_HERE("uint8", x, y, 5, SYMM_UINT8, SYMM_SUM, 0);
    NOT_HERE("avg of int32", x, y, 5, SYMM_INT32, SYMM_AVG, 0);
    if (!collective_unavailable(&multimem, w))
        NOT_HERE("SYMM_DETERMINISTIC", x, y, 5, SYMM_FLOAT32, SYMM_SUM, .algo = SYMM_ALGO_MULTIMEM,
                 .flags = SYMM_DETERMINISTIC);
out:
    return;
}

/* Of a broadcast: roots that are none, and the buffers of ranks that only receive. */
static void bad_roots(struct rank *self, symm_group *w, const struct trial_buffers *b)
{
    static const int roots[] = {-1, 0, INT32_MIN, INT32_MAX};
    const enum collective_operation o = BROADCAST;
    const int n = self->nranks, other = (self->rank + 1) % n;
    char *x = b->symmetric[0], *y = b->foreign[0], part[80];

    for (int i = 0; i < 4; i++)
        for (size_t count = 0; count < 6; count += 5) {
            const int root = roots[i] ? roots[i] : n;
            snprintf(part, sizeof part, "root is %d; the group has 0 to %d", root, n - 1);
            RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, part,
                             symm_broadcast(w, x, y, count, SYMM_FLOAT32, root, NULL, b->stream));
            RANK_TEXT(self, names[o]);
            RANK_TEXT(self, rank_names[self->rank]);
        }
    if (n > 1) {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "out is NULL",
                         symm_broadcast(w, NULL, NULL, 5, SYMM_FLOAT32, other, NULL, b->stream));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "out 0x",
                         symm_broadcast(w, NULL, y + 1, 5, SYMM_FLOAT32, other, NULL, b->stream));
    }
out:
    return;
}

WORLD_RANK(call_badly)
{
    const enum collective_operation o = *(const enum collective_operation *)arg;
    const struct collective c = works(o);
    struct trial_buffers b = {0};

    RANK_TRY(self, trial_open(ctx, 4096, &b));
    bad_values(self, world, &b, o);
    overlap(self, world, &b, o);
    bad_memory(self, world, &b, o);
    unsupported(self, world, &b, o);
    if (o == BROADCAST)
        bad_roots(self, world, &b);
    RANK_EXPECT_TEXT(
        self, SYMM_ERROR_ARGUMENT, "group is NULL",
        call(o, NULL, b.symmetric[0], b.foreign[0], 5, SYMM_FLOAT32, SYMM_SUM, NULL, b.stream));
    /* Nothing has happened: the group works. */
    const struct collective nothing = {.operation = o, .dtype = SYMM_FLOAT32};
    RANK_TRY(self, collective_call(&nothing, world, NULL, NULL, b.stream));
    RANK_TRY(self, trial_call(self, world, &b, SYMMETRIC, &c));
out:
    trial_close(&b);
}

TEST_BODY(bad_arguments_are_named)
{
    enum collective_operation o = operations[_i / OF_CASE];
    ranks_run_ok(_i % OF_CASE, RANKS_AS_PROCESSES, call_badly, &o, 60);
}
ADD(all_reduce_bad, bad_arguments_are_named, 0, 1, 4);
ADD(reduce_scatter_bad, bad_arguments_are_named, 1, 1, 4);
ADD(all_gather_bad, bad_arguments_are_named, 2, 1, 4);
ADD(broadcast_bad, bad_arguments_are_named, 3, 1, 4);

WORLD_RANK(multicast_is_off)
{
    struct collective c = works(*(const enum collective_operation *)arg), other = c;
    struct trial_buffers b = {0};

    RANK_TRY(self, trial_open(ctx, 4096, &b));
    c.algo = SYMM_ALGO_MULTIMEM;
    const char *why = collective_unavailable(&c, world);
    CHECK_RANK(self, why && symm_multicast_off(world) && !strcmp(why, symm_multicast_off(world)));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, why,
                     collective_call(&c, world, b.symmetric[0], b.symmetric[1], b.stream));
    RANK_TRY(self, trial_call(self, world, &b, SYMMETRIC, &other));
out:
    trial_close(&b);
}

TEST_BODY(without_multicast_the_reason_is_given_and_the_rest_works)
{
    enum collective_operation o = operations[_i / OF_CASE];
    setenv("SYMM_MULTICAST", "0", 1);
    ranks_run_ok(4, RANKS_AS_PROCESSES, multicast_is_off, &o, 60);
}
ADD(all_reduce_bad, without_multicast_the_reason_is_given_and_the_rest_works, 0, 0, 1);
ADD(reduce_scatter_bad, without_multicast_the_reason_is_given_and_the_rest_works, 1, 0, 1);
ADD(all_gather_bad, without_multicast_the_reason_is_given_and_the_rest_works, 2, 0, 1);
ADD(broadcast_bad, without_multicast_the_reason_is_given_and_the_rest_works, 3, 0, 1);

/* One rank makes another call: the host notices with SYMM_CHECK, else the kernels do. */
struct differing {
    const char *check, *part;
    symm_algo algo;
    enum collective_operation operation;
    size_t count;
    symm_redop op;
    symm_dtype dtype; /* 0: float32 */
    int root;
};
enum { NDIFFERING = 9 };
static const struct differing differing[][NDIFFERING] = {
    [ALL_REDUCE] = {{"1", "count 200", SYMM_ALGO_AUTO, ALL_REDUCE, 200, SYMM_SUM, 0, 0},
                    {"1", "count 200", SYMM_ALGO_TWO_SHOT, ALL_REDUCE, 200, SYMM_SUM, 0, 0},
                    {"0", "count 200", SYMM_ALGO_ONE_SHOT, ALL_REDUCE, 200, SYMM_SUM, 0, 0},
                    {"0", "count 200", SYMM_ALGO_TWO_SHOT, ALL_REDUCE, 200, SYMM_SUM, 0, 0},
                    {"0", "count 200", SYMM_ALGO_MULTIMEM, ALL_REDUCE, 200, SYMM_SUM, 0, 0}},
    [REDUCE_SCATTER] =
        {{"1", "count 200", SYMM_ALGO_LOW_LATENCY, REDUCE_SCATTER, 200, SYMM_SUM, 0, 0},
         {"1", "float32, max", SYMM_ALGO_AUTO, REDUCE_SCATTER, 100, SYMM_MAX, 0, 0},
         {"1", "symm_all_gather", SYMM_ALGO_AUTO, ALL_GATHER, 100, SYMM_SUM, 0, 0},
         {"0", "count 200", SYMM_ALGO_ONE_SHOT, REDUCE_SCATTER, 200, SYMM_SUM, 0, 0},
         {"0", "float32, max", SYMM_ALGO_ONE_SHOT, REDUCE_SCATTER, 100, SYMM_MAX, 0, 0},
         {"0", "symm_all_gather", SYMM_ALGO_ONE_SHOT, ALL_GATHER, 100, SYMM_SUM, 0, 0},
         {"0", "symm_all_reduce", SYMM_ALGO_ONE_SHOT, ALL_REDUCE, 300, SYMM_SUM, 0, 0},
         {"0", "count 200", SYMM_ALGO_MULTIMEM, REDUCE_SCATTER, 200, SYMM_SUM, 0, 0},
         {"0", "symm_all_gather", SYMM_ALGO_MULTIMEM, ALL_GATHER, 100, SYMM_SUM, 0, 0}},
    [ALL_GATHER] = {{"1", "count 200", SYMM_ALGO_LOW_LATENCY, ALL_GATHER, 200, SYMM_SUM, 0, 0},
                    {"1", "int32", SYMM_ALGO_AUTO, ALL_GATHER, 100, SYMM_SUM, SYMM_INT32, 0},
                    {"1", "symm_reduce_scatter", SYMM_ALGO_AUTO, REDUCE_SCATTER, 100, SYMM_SUM, 0,
                     0},
                    {"0", "count 200", SYMM_ALGO_ONE_SHOT, ALL_GATHER, 200, SYMM_SUM, 0, 0},
                    {"0", "symm_reduce_scatter", SYMM_ALGO_ONE_SHOT, REDUCE_SCATTER, 100, SYMM_SUM,
                     0, 0},
                    {"0", "symm_all_reduce", SYMM_ALGO_ONE_SHOT, ALL_REDUCE, 100, SYMM_SUM, 0, 0},
                    {"0", "count 200", SYMM_ALGO_MULTIMEM, ALL_GATHER, 200, SYMM_SUM, 0, 0},
                    {"0", "symm_all_reduce", SYMM_ALGO_MULTIMEM, ALL_REDUCE, 300, SYMM_SUM, 0, 0}},
    [BROADCAST] = {{"1", "root 1", SYMM_ALGO_AUTO, BROADCAST, 100, SYMM_SUM, 0, 1},
                   {"1", "root 2", SYMM_ALGO_LOW_LATENCY, BROADCAST, 100, SYMM_SUM, 0, 2},
                   {"1", "count 200", SYMM_ALGO_AUTO, BROADCAST, 200, SYMM_SUM, 0, 0},
                   {"1", "symm_all_gather", SYMM_ALGO_AUTO, ALL_GATHER, 100, SYMM_SUM, 0, 0},
                   {"0", "root 1", SYMM_ALGO_ONE_SHOT, BROADCAST, 100, SYMM_SUM, 0, 1},
                   {"0", "count 200", SYMM_ALGO_ONE_SHOT, BROADCAST, 200, SYMM_SUM, 0, 0},
                   {"0", "symm_all_gather", SYMM_ALGO_ONE_SHOT, ALL_GATHER, 100, SYMM_SUM, 0, 0},
                   {"0", "root 2", SYMM_ALGO_MULTIMEM, BROADCAST, 100, SYMM_SUM, 0, 2},
                   {"0", "symm_all_gather", SYMM_ALGO_MULTIMEM, ALL_GATHER, 100, SYMM_SUM, 0, 0}},
};

TEST_BODY(different_calls_are_a_mismatch)
{
    const enum collective_operation o = operations[_i / OF_CASE];
    const struct differing *d = &differing[o][_i % OF_CASE];
    struct collective c = works(o), other = works(d->operation);
    c.algo = other.algo = d->algo;
    other.count = d->count;
    other.op = d->op;
    other.root = d->root;
    other.dtype = d->dtype ? d->dtype : SYMM_FLOAT32;
    setenv("SYMM_CHECK", d->check, 1);
    trial_mismatch(&c, &other, d->part);
}
ADD(all_reduce_bad, different_calls_are_a_mismatch, 0, 0, 5);
ADD(reduce_scatter_bad, different_calls_are_a_mismatch, 1, 0, 9);
ADD(all_gather_bad, different_calls_are_a_mismatch, 2, 0, 8);
ADD(broadcast_bad, different_calls_are_a_mismatch, 3, 0, 9);

/* Of all but all-reduces, which test_abort.c has. */
TEST_BODY(an_abort_ends_a_call_that_waits)
{
    static const symm_algo algos[] = {SYMM_ALGO_LOW_LATENCY, SYMM_ALGO_ONE_SHOT, SYMM_ALGO_MULTIMEM,
                                      SYMM_ALGO_AUTO};
    struct collective c = works(operations[_i / OF_CASE]);
    c.algo = algos[_i % OF_CASE / 2];
    c.count = _i % 2 ? 40000 : 5;
    setenv("SYMM_STAGING_BYTES", "64K", 1);
    trial_abort(&c);
}
ADD(reduce_scatter_bad, an_abort_ends_a_call_that_waits, 1, 0, 8);
ADD(all_gather_bad, an_abort_ends_a_call_that_waits, 2, 0, 8);
ADD(broadcast_bad, an_abort_ends_a_call_that_waits, 3, 0, 8);
