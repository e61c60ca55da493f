/*
 * What is said to be right is right: ranks sum for as long as they are told that all is well, while
 * one of them dies or gives up and the others hear of it one after the other.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "reference.h"
#include "test.h"
#include "world.h"

enum { NRANKS = 4, COUNT = 3000, DEPTH = 6 };

struct promise {
    int victim;
    bool gives_up; /* instead of being killed */
    symm_algo algo;
};

/* The abort reaches the ranks up to 450 ms apart; the victim itself at once. */
static void be_late(const struct rank *self, int victim)
{
    static const char *const delays[] = {"0", "450", "225", "450"};
    setenv("SYMM_TEST_ABORT_DELAY_MS", delays[(self->rank + NRANKS - victim) % NRANKS], 1);
}

struct sums {
    symm_group *w;
    symm_stream s;
    symm_algo algo;
    float *x, *host;
};

static symm_status begin_sums(struct rank *self, struct sums *j, uint64_t round)
{
    const symm_options options = {.algo = j->algo};
    symm_status st;
    for (uint64_t i = 0; i < DEPTH; i++)
        reference_fill(j->host + i * COUNT, COUNT, SYMM_FLOAT32, round * DEPTH + i, self->rank);
    st = symm_copy(j->x, j->host, DEPTH * COUNT * sizeof *j->x, j->s);
    memset(j->host, 0xee, DEPTH * COUNT * sizeof *j->host);
    for (uint64_t i = 0; i < DEPTH && st == SYMM_OK; i++)
        st = symm_all_reduce(j->w, j->x + i * COUNT, j->x + i * COUNT, COUNT, SYMM_FLOAT32,
                             SYMM_SUM, &options, j->s);
    return st;
}

static symm_status end_sums(struct rank *self, struct sums *j, uint64_t round)
{
    symm_status st = symm_copy(j->host, j->x, DEPTH * COUNT * sizeof *j->x, j->s);
    if (st == SYMM_OK)
        st = symm_synchronize(j->w, j->s);
    for (uint64_t i = 0; i < DEPTH && st == SYMM_OK; i++)
        self->report->wrong +=
            reference_wrong(j->host + i * COUNT, 0, COUNT, SYMM_FLOAT32, round * DEPTH + i,
                            self->nranks, (enum reference_bound)exercise_bound(j->algo));
    self->report->value[1] += st == SYMM_OK;
    return st;
}

/* Sums fresh data, several at once, until a call fails; each result that is OK must be right. */
static void sum_until_the_end(struct rank *self, void *arg)
{
    enum { LAST = 5 };
    const struct promise *p = arg;
    symm_context *ctx = NULL;
    struct sums j = {.algo = p->algo, .host = calloc(DEPTH * COUNT, sizeof *j.host)};
    be_late(self, p->victim);
    RANK_TRY(self, rank_join(self, &ctx));
    j.w = symm_context_world(ctx);
    RANK_TRY(self, symm_alloc(j.w, DEPTH * COUNT * sizeof *j.x, (void **)&j.x));
    RANK_TRY(self, symm_stream_create(ctx, &j.s));
    for (uint64_t round = 0; round < 100000; round++) {
        symm_status st;
        if (p->gives_up && round == LAST && self->rank != p->victim)
            pause_ms(100); /* the victim's work is enqueued, waits for this rank's, and is let go */
        st = begin_sums(self, &j, round);
        if (p->gives_up && round == LAST && self->rank == p->victim)
            symm_abort(j.w, "I have had enough");
        if (st == SYMM_OK)
            st = end_sums(self, &j, round);
        if (rank_note(self, st) != SYMM_OK)
            break;
    }
out:
    symm_stream_destroy(j.s);
    symm_context_destroy(ctx);
    free(j.host);
}

static void keep_promise(struct promise p)
{
    struct rank_report reports[NRANKS];
    struct ranks *run = ranks_start(NRANKS, RANKS_AS_PROCESSES, sum_until_the_end, &p);
    if (!p.gives_up) {
        ranks_await(run, p.victim, 1, 3);
        pause_ms((int)(reference_random(78, (uint64_t)now_ms()) % 40));
        kill(ranks_pid(run, p.victim), SIGKILL);
    }
    ranks_end(run, reports, 30);
    for (int r = 0; r < NRANKS; r++) {
        if (r == p.victim)
            continue;
        ck_assert_msg(!reports[r].failed[0], "rank %d: %s", r, reports[r].failed);
        ck_assert_msg(reports[r].wrong == 0,
                      "rank %d was told OK with %lld wrong elements, victim %d", r,
                      (long long)reports[r].wrong, p.victim);
        ck_assert_msg(reports[r].status == SYMM_ERROR_PEER, "rank %d: %s", r, reports[r].text);
        ck_assert_int_ge(reports[r].value[1], 2);
        ck_assert_msg(reports[r].end == RANK_RETURNED && !reports[r].leaks[0],
                      "rank %d left behind: %s", r, reports[r].leaks);
    }
}

TEST_GROUP(the_promise, 90);

TEST_LOOP(the_promise, ok_means_right_with_one_rank_dead_and_the_abort_late, 0, 4)
{
    static const symm_algo algos[] = {SYMM_ALGO_ONE_SHOT, SYMM_ALGO_TWO_SHOT, SYMM_ALGO_AUTO};
    setenv("SYMM_CHECK", "0", 1);
    for (int round = 0; round < 3; round++)
        keep_promise((struct promise){.victim = (_i + round) % NRANKS, .algo = algos[round]});
}

TEST_LOOP(the_promise, ok_means_right_with_one_rank_giving_up, 0, 2)
{
    setenv("SYMM_CHECK", "0", 1);
    keep_promise((struct promise){.victim = _i, .gives_up = true, .algo = SYMM_ALGO_TWO_SHOT});
}

/* The victim's wait ends with its abort; what stands behind it must not reach the other rank. */
RANKS_TEST(the_promise, no_signal_leaves_a_rank_after_its_abort, 2)
{
    enum { NEVER, BEHIND };
    symm_context *ctx = NULL;
    symm_signal_pad *pad = NULL;
    symm_stream s = NULL;
    be_late(self, 0);
    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *w = symm_context_world(ctx);
    RANK_TRY(self, symm_signal_pad_alloc(w, 2, &pad));
    RANK_TRY(self, symm_stream_create(ctx, &s));
    if (self->rank == 0) {
        RANK_TRY(self, symm_wait(w, pad, NEVER, 1, 1, s));
        RANK_TRY(self, symm_signal(w, pad, BEHIND, 1, 1, s));
        symm_abort(w, "enough");
        RANK_EXPECT(self, SYMM_ERROR_PEER, symm_synchronize(w, s));
        pause_ms(350);
    } else {
        RANK_TRY(self, symm_wait(w, pad, BEHIND, 0, 1, s));
        for (int i = 0; i < 25; i++) { /* this rank hears of the abort after 450 ms */
            pause_ms(10);
            CHECK_RANK_MSG(self, !exercise_is_idle(ctx, s),
                           "a signal came out of a rank that had aborted");
        }
        RANK_EXPECT(self, SYMM_ERROR_PEER, symm_synchronize(w, s));
    }
out:
    symm_stream_destroy(s);
    symm_context_destroy(ctx);
}
