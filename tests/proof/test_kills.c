/*
 * A rank is killed at a random moment while all of them run protocols in weakly ordered memory. The
 * others learn of it soon, whatever they were told is right was right, and nothing is left behind.
 * PROOF_KILLS says how many times.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "exercise.h"
#include "protocols.h"
#include "test.h"

enum { AT_ONCE_MS = 2000, LONGEST_LIFE_US = 25000 };

struct kill {
    uint64_t seed;
    uint32_t block;
    int victim, after_us;
};

enum { IN_THE_LOOP, RUNS, END_MS }; /* values of a rank's report */

static void run_until_the_end(struct rank *self, void *arg)
{
    const struct kill *k = arg;
    struct hall hall = {.block = k->block, .protocol = "a kill", .seed = k->seed};
    struct stage st;
    struct draw draw = {k->seed};
    if (!protocols_open(&st, self, &hall))
        return;
    self->report->value[IN_THE_LOOP] = 1;
    protocols_until_the_end(&st, &draw);
    self->report->value[END_MS] = now_ms();
    rank_note(self, symm_check(st.group));
    stage_close(&st);
}

static void kill_one(const struct kill *k, int nranks, uint64_t *runs)
{
    struct rank_report reports[PROOF_RANKS];
    struct ranks *run = ranks_start(nranks, RANKS_AS_PROCESSES, run_until_the_end, (void *)k);
    for (int r = 0; r < nranks; r++)
        for (int i = 0; i < 20000 && !ranks_peek(run, r)->value[IN_THE_LOOP]; i++)
            pause_ms(1);
    usleep((useconds_t)k->after_us);
    const int64_t killed_ms = now_ms();
    kill(ranks_pid(run, k->victim), SIGKILL);
    const char *missing = ranks_finish(run, reports, 30);
    ck_assert_msg(!missing, "seed %llu: %s", (unsigned long long)k->seed, missing);
    for (int r = 0; r < nranks; r++) {
        const struct rank_report *report = &reports[r];
        *runs += (uint64_t)report->value[RUNS];
        if (r == k->victim)
            continue;
        ck_assert_msg(report->end == RANK_RETURNED && report->status == SYMM_ERROR_PEER,
                      "seed %llu: rank %d of %d ended with %d: %s", (unsigned long long)k->seed, r,
                      nranks, report->code, report->text);
        ck_assert_msg(report->value[END_MS] - killed_ms < AT_ONCE_MS,
                      "seed %llu: rank %d of %d took %lld ms", (unsigned long long)k->seed, r,
                      nranks, (long long)(report->value[END_MS] - killed_ms));
        ck_assert_msg(!report->leaks[0], "seed %llu: rank %d of %d left: %s",
                      (unsigned long long)k->seed, r, nranks, report->leaks);
    }
}

static int kills(void)
{
    const char *text = getenv("PROOF_KILLS");
    return text ? atoi(text) : 3;
}

TEST_GROUP(kills, 280);

TEST_LOOP(kills, the_others_outlive_a_rank, 0, 3)
{
    static const uint32_t blocks[] = {1, 3, 32, 64};
    const int nranks = 2 + _i;
    uint64_t runs = 0;
    for (int i = 0; i < kills(); i++) {
        struct draw draw = {(uint64_t)(1000 * nranks + i)};
        struct kill k = {.seed = draw.state, .block = blocks[i % 4]};
        k.victim = (int)draw_below(&draw, (uint32_t)nranks);
        k.after_us = (int)draw_below(&draw, LONGEST_LIFE_US);
        stage_environment(nranks, k.block, k.seed);
        kill_one(&k, nranks, &runs);
    }
    printf("# %d ranks: %d kills, %llu runs before them, 0 wrong\n", nranks, kills(),
           (unsigned long long)runs);
    fflush(stdout);
}
