/* Calls by packets without SYMM_CHECK: one rank makes another call, or none. */
#include <symm/names.h>
#include "collective.h"
#include "exercise.h"
#include "test.h"
#include "trial.h"
#include "world.h"

enum { TRIO = 3, QUARTET = 4, MOST_NBYTES = TRIO * 1200 * 8, SOON_MS = 5000, LATE_MS = 300 };

/* A pair of calls, and their names in the text. */
struct pair {
    struct collective call, other;
    const char *call_text, *other_text;
};

#define CALL(OPERATION, ALGO, DTYPE, OP, ...)                                                      \
    {                                                                                              \
        .operation = OPERATION, .algo = SYMM_ALGO_##ALGO, .dtype = SYMM_##DTYPE, .op = SYMM_##OP,  \
        .count = __VA_ARGS__                                                                       \
    }

static const struct pair pairs[] = {
    {CALL(ALL_REDUCE, LOW_LATENCY, FLOAT32, SUM, 5), CALL(ALL_REDUCE, LOW_LATENCY, FLOAT32, MAX, 5),
     "all_reduce(low_latency, float32, sum)", "all_reduce(low_latency, float32, max)"},
    {CALL(ALL_REDUCE, LOW_LATENCY, FLOAT32, SUM, 300),
     CALL(ALL_REDUCE, LOW_LATENCY, INT32, SUM, 300), "float32", "int32"},
    {CALL(ALL_REDUCE, LOW_LATENCY, FLOAT16, AVG, 64),
     CALL(ALL_REDUCE, LOW_LATENCY, BFLOAT16, AVG, 64), "float16", "bfloat16"},
    {CALL(ALL_REDUCE, LOW_LATENCY, FLOAT32, SUM, 100),
     CALL(ALL_REDUCE, LOW_LATENCY, FLOAT32, SUM, 101), "modulo 509", "modulo 509"},
    {CALL(ALL_REDUCE, LOW_LATENCY, FLOAT32, SUM, 100),
     CALL(ALL_REDUCE, LOW_LATENCY_TWO_SHOT, FLOAT32, SUM, 100), "(low_latency,",
     "(low_latency_two_shot,"},
    {CALL(ALL_REDUCE, LOW_LATENCY_TWO_SHOT, INT64, MIN, 400),
     CALL(ALL_REDUCE, LOW_LATENCY_TWO_SHOT, INT64, MAX, 400), "min)", "max)"},
    {CALL(ALL_REDUCE, LOW_LATENCY_TWO_SHOT, FLOAT32, SUM, 3),
     CALL(ALL_REDUCE, LOW_LATENCY_TWO_SHOT, FLOAT32, SUM, 1200), "modulo 509", "modulo 509"},
    {CALL(REDUCE_SCATTER, LOW_LATENCY, FLOAT64, SUM, 50),
     CALL(REDUCE_SCATTER, LOW_LATENCY, INT64, SUM, 50), "float64", "int64"},
    {CALL(REDUCE_SCATTER, LOW_LATENCY, INT32, SUM, 50),
     CALL(ALL_GATHER, LOW_LATENCY, INT32, SUM, 50), "reduce_scatter(", "all_gather("},
    {CALL(ALL_GATHER, LOW_LATENCY, FLOAT32, SUM, 40),
     CALL(ALL_GATHER, LOW_LATENCY, FLOAT32, SUM, 41), "modulo 509", "modulo 509"},
    {CALL(ALL_GATHER, LOW_LATENCY, UINT8, SUM, 999), CALL(ALL_GATHER, LOW_LATENCY, UINT8, SUM, 998),
     "modulo 509", "modulo 509"},
    {CALL(BROADCAST, LOW_LATENCY, INT32, SUM, 50), CALL(ALL_GATHER, LOW_LATENCY, INT32, SUM, 50),
     "broadcast(low_latency, int32)", "all_gather("},
    {CALL(BROADCAST, LOW_LATENCY, INT32, SUM, 50), CALL(BROADCAST, LOW_LATENCY, FLOAT32, SUM, 50),
     "int32", "float32"},
    {CALL(BROADCAST, LOW_LATENCY, UINT8, SUM, 1000), CALL(BROADCAST, LOW_LATENCY, UINT8, SUM, 999),
     "grid and root", "modulo 509"},
    {CALL(BROADCAST, LOW_LATENCY, UINT8, SUM, 1000),
     CALL(BROADCAST, LOW_LATENCY, UINT8, SUM, 1000, .root = 1), "root 0", "root 1"},
    {CALL(BROADCAST, LOW_LATENCY, UINT8, SUM, 7),
     CALL(BROADCAST, LOW_LATENCY, UINT8, SUM, 7, .root = 2), "root 0", "root 2"},
    {CALL(ALL_REDUCE, LAMPORT, FLOAT32, SUM, 400), CALL(ALL_REDUCE, LAMPORT, FLOAT32, MAX, 400),
     "sum, lamport", "max, lamport"},
    {CALL(ALL_REDUCE, LAMPORT, FLOAT16, SUM, 99), CALL(ALL_REDUCE, LAMPORT, BFLOAT16, SUM, 99),
     "float16", "bfloat16"},
    {CALL(REDUCE_SCATTER, LAMPORT, FLOAT64, SUM, 900),
     CALL(REDUCE_SCATTER, LAMPORT, FLOAT64, SUM, 3), "count 900", "count 3,"},
    {CALL(ALL_REDUCE, AUTO, BFLOAT16, SUM, 512), CALL(ALL_REDUCE, AUTO, BFLOAT16, MAX, 512), "sum)",
     "max)"},
};
enum { NPAIRS = sizeof pairs / sizeof pairs[0] };

TEST_GROUP(packets, 60);

/*
 * One rank makes the other call, in odd cases after the others have waited long. No rank gets OK,
 * and all ranks are told at once, long before the timeout.
 */
WORLD_TEST(packets, packets_of_another_call_are_not_taken, TRIO, .arg = &(int){_i}, .timeout_s = 60,
           .env = {{"SYMM_CHECK", "0"}, {"SYMM_TIMEOUT_MS", "30000"}}, .loop = {0, NPAIRS})
{
    const int i = *(const int *)arg;
    const bool odd = self->rank == i % TRIO, late = i % 2;
    const struct pair *p = &pairs[i];
    struct trial_buffers b = {0};

    RANK_TRY(self, trial_open(ctx, MOST_NBYTES, &b));
    if (late && odd)
        pause_ms(LATE_MS);
    const int64_t began = now_ms();
    RANK_TRY(self, collective_call(odd ? &p->other : &p->call, world, b.foreign[0], b.foreign[1],
                                   b.stream));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, p->call_text, symm_synchronize(world, b.stream));
    RANK_TEXT(self, p->other_text);
    CHECK_RANK(self, now_ms() - began < SOON_MS);
out:
    trial_close(&b);
}

/*
 * Rank 0 waits for the others, first of all for the last. Ranks 2 and 3 come late, rank 1 never.
 * When the timeout is over, rank 0 must not blame rank 3, which has come.
 */
WORLD_TEST(packets, a_wait_for_several_names_the_rank_that_is_still_missing, QUARTET,
           .env = {{"SYMM_CHECK", "0"}, {"SYMM_TIMEOUT_MS", "2000"}}, .timeout_s = 60)
{
    static const struct collective c = CALL(ALL_REDUCE, LOW_LATENCY, FLOAT32, SUM, 5);
    struct trial_buffers b = {0};

    RANK_TRY(self, trial_open(ctx, MOST_NBYTES, &b));
    pause_ms(self->rank > 1 ? 1000 : 0);
    if (self->rank != 1)
        RANK_TRY(self, collective_call(&c, world, b.foreign[0], b.foreign[1], b.stream));
    for (int64_t until = now_ms() + 20000; symm_check(world) == SYMM_OK && now_ms() < until;)
        pause_ms(1);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "for rank 1, a packet", symm_check(world));
out:
    trial_close(&b);
}

/* Elements of ones, as the last word of a free slot has: NaNs, which arrive as NaNs. */
WORLD_TEST(packets, lamport_sends_the_value_of_a_free_slot, TRIO, .timeout_s = 60,
           .env = {{"SYMM_TIMEOUT_MS", "10000"}})
{
    static const symm_dtype dtypes[] = {SYMM_FLOAT32, SYMM_FLOAT16, SYMM_BFLOAT16, SYMM_FLOAT64};
    enum { COUNT = 101 };
    struct trial_buffers b = {0};

    RANK_TRY(self, trial_open(ctx, MOST_NBYTES, &b));
    for (int d = 0; d < 4; d++)
        for (int scatters = 0; scatters < 2; scatters++) {
            const struct collective c = {.operation = scatters ? REDUCE_SCATTER : ALL_REDUCE,
                                         .algo = SYMM_ALGO_LAMPORT,
                                         .dtype = dtypes[d],
                                         .op = d % 2 ? SYMM_MAX : SYMM_SUM,
                                         .count = COUNT};
            const size_t size = symm_dtype_size(dtypes[d]);
            RANK_TRY(self, symm_fill(b.foreign[0], 0xff, COUNT * TRIO * size, b.stream));
            RANK_TRY(self, symm_fill(b.foreign[1], 0, COUNT * size, b.stream));
            RANK_TRY(self, collective_call(&c, world, b.foreign[0], b.foreign[1], b.stream));
            RANK_TRY(self, symm_copy(b.got, b.foreign[1], COUNT * size, b.stream));
            RANK_TRY(self, symm_synchronize(world, b.stream));
            for (size_t i = 0; i < COUNT; i++) /* the highest bits of a NaN, but for the sign */
                CHECK_RANK(self, (b.got[(i + 1) * size - 1] & 0x7f) == 0x7f);
        }
out:
    trial_close(&b);
}
