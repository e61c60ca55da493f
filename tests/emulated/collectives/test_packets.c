/*
 * Calls by packets that do not fit, where nothing compares the calls before they run
 * (SYMM_CHECK=0): one rank of three calls something else, or one rank of four calls nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "collective.h"
#include "exercise.h"
#include "ranks.h"
#include "test.h"
#include "trial.h"

enum { TRIO = 3, QUARTET = 4, MOST_NBYTES = TRIO * 1200 * 8, SOON_MS = 5000, LATE_MS = 300 };

/* A pair of calls, and their names in the text. */
struct pair {
    struct collective call, other;
    const char *call_text, *other_text;
};

#define CALL(OPERATION, ALGO, DTYPE, OP, COUNT)                                                    \
    {                                                                                              \
        .operation = OPERATION, .algo = SYMM_ALGO_##ALGO, .dtype = SYMM_##DTYPE, .op = SYMM_##OP,  \
        .count = COUNT                                                                             \
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
    {CALL(ALL_REDUCE, AUTO, BFLOAT16, SUM, 512), CALL(ALL_REDUCE, AUTO, BFLOAT16, MAX, 512), "sum)",
     "max)"},
};
enum { NPAIRS = sizeof pairs / sizeof pairs[0] };

static void call_differently(struct rank *self, void *arg)
{
    const int odd = *(const int *)arg % TRIO; /* the rank with the other call */
    const bool late = *(const int *)arg % 2;  /* it calls after the others have waited long */
    const struct pair *p = &pairs[*(const int *)arg];
    const struct collective *c = self->rank == odd ? &p->other : &p->call;
    struct trial_buffers b = {0};
    symm_context *ctx = NULL;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, trial_open(ctx, MOST_NBYTES, &b));
    if (late && self->rank == odd)
        usleep(LATE_MS * 1000);
    const int64_t began = now_ms();
    RANK_TRY(self, collective_call(c, w, b.foreign[0], b.foreign[1], b.stream));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, p->call_text, symm_synchronize(w, b.stream));
    CHECK_RANK_MSG(self, strstr(self->report->text, p->other_text), "%s", self->report->text);
    CHECK_RANK(self, now_ms() - began < SOON_MS);
out:
    if (ctx)
        trial_close(ctx, &b);
    symm_context_destroy(ctx);
}

TEST_GROUP(packets, 60);

/* No rank gets OK, and all ranks are told at once, long before the timeout. */
TEST_LOOP(packets, packets_of_another_call_are_not_taken, 0, NPAIRS)
{
    struct rank_report reports[TRIO];

    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_TIMEOUT_MS", "30000", 1);
    ranks_run(TRIO, RANKS_AS_PROCESSES, call_differently, &(int){_i}, reports, 60);
    ranks_assert_clean(reports, TRIO);
}

/*
 * Rank 0 waits for the others, first of all for the last. Ranks 2 and 3 come late, rank 1 never.
 * When the timeout is over, rank 0 must not blame rank 3, which has come.
 */
static void wait_for_one(struct rank *self, void *arg)
{
    static const struct collective c = CALL(ALL_REDUCE, LOW_LATENCY, FLOAT32, SUM, 5);
    struct trial_buffers b = {0};
    symm_context *ctx = NULL;
    (void)arg;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, trial_open(ctx, MOST_NBYTES, &b));
    usleep(self->rank > 1 ? 1000000 : 0);
    if (self->rank != 1)
        RANK_TRY(self, collective_call(&c, w, b.foreign[0], b.foreign[1], b.stream));
    for (int64_t until = now_ms() + 20000; symm_check(w) == SYMM_OK && now_ms() < until;)
        usleep(1000);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "for rank 1, a packet", symm_check(w));
out:
    if (ctx)
        trial_close(ctx, &b);
    symm_context_destroy(ctx);
}

TEST(packets, a_wait_for_several_names_the_rank_that_is_still_missing)
{
    struct rank_report reports[QUARTET];

    setenv("SYMM_CHECK", "0", 1);
    setenv("SYMM_TIMEOUT_MS", "2000", 1);
    ranks_run(QUARTET, RANKS_AS_PROCESSES, wait_for_one, NULL, reports, 60);
    ranks_assert_clean(reports, QUARTET);
}
