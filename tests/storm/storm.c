/*
 * A storm: rounds of real processes on the emulated driver that do random things with each other
 * while ranks are killed, stopped, aborted and made to fail. The survivors continue. In every round
 * a result is right if symm_synchronize returns OK, every call returns in time, destroyed objects
 * leave nothing, and a group ends only for a reason.
 *
 * storm [--seconds N] [--rounds N] [--seed S] [--ranks A..B] [--show]
 *
 * Round i of seed S is the first round of seed S + i, so a round is repeated by its seed as far as
 * timing allows.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include "exercise.h"
#include "life.h"
#include "ranks.h"
#include "test.h"
#include "watch.h"

struct options {
    int seconds, rounds, least, most;
    uint64_t seed;
    bool shows;
};

struct totals {
    long long rounds, lives, calls;
    long long worst; /* the most by which a call exceeded its limit, in ms, and which that was */
    const char *worst_call;
    uint64_t worst_seed;
    long long happened[STORM_EVENTS_KNOWN], wrong[STORM_WRONGS];
};

struct round {
    const struct storm_plan *plan;
    struct storm_board *board;
};

static void live(struct rank *self, void *arg)
{
    const struct round *round = arg;

    for (int i = 0; i < round->plan->nlives; i++)
        if (life_place(&round->plan->lives[i], self->rank) >= 0)
            life_run(round->plan, i, &round->board->posts[self->rank]);
}

/* Adds a round up. Returns whether something was wrong in it. */
static bool add_up(const struct storm_plan *plan, const struct storm_board *board,
                   struct totals *totals)
{
    bool wrong = false;

    totals->rounds++;
    totals->lives += plan->nlives;
    for (int r = 0; r < plan->nranks; r++) {
        const struct storm_post *post = &board->posts[r];
        totals->calls += post->calls;
        if (post->worst > totals->worst) {
            totals->worst = post->worst;
            totals->worst_call = post->worst_call;
            totals->worst_seed = plan->seed;
        }
        for (int i = 0; i < STORM_EVENTS_KNOWN; i++)
            totals->happened[i] += post->happened[i];
        for (int i = 0; i < STORM_WRONGS; i++) {
            totals->wrong[i] += post->wrong[i];
            wrong = wrong || post->wrong[i] > 0;
        }
    }
    return wrong;
}

static void run_round(const struct options *options, struct storm_board *board,
                      struct totals *totals)
{
    struct rank_report reports[RANKS_MAX];
    struct storm_plan plan;
    struct round round = {&plan, board};

    plan_draw(options->seed + (uint64_t)totals->rounds, options->least, options->most, &plan);
    plan_environment(&plan);
    board_clear(board, &plan);
    if (options->shows)
        plan_print(&plan);
    struct ranks *run = ranks_start(plan.nranks, RANKS_AS_PROCESSES, live, &round);
    watch_round(&plan, board, run);
    ranks_finish(run, reports, 0);
    if (add_up(&plan, board, totals)) {
        plan_print(&plan);
        printf("# to repeat it: storm --rounds 1 --seed %llu --ranks %d..%d\n",
               (unsigned long long)plan.seed, options->least, options->most);
    }
}

/* One line. Returns whether all was well. */
static bool summarize(const struct totals *t)
{
    static const char *const wrong[] = {
#define TEXT_(name, text) text,
        STORM_FAULTS(TEXT_)
#undef TEXT_
    };
    bool well = t->calls > 0;

    printf("# storm: %lld rounds, %lld re-creations, %lld calls", t->rounds, t->lives - t->rounds,
           t->calls);
    for (int i = 0; i < STORM_EVENTS_KNOWN; i++)
        printf(", %lld %s", t->happened[i], plan_event_text((enum storm_event_kind)i));
    for (int i = 0; i < STORM_WRONGS; i++) {
        printf("%s %lld %s", i ? "," : ";", t->wrong[i], wrong[i]);
        well = well && t->wrong[i] == 0;
    }
    if (t->worst_call)
        printf("; at most %lld ms over the limit, with seed %llu in %s", t->worst,
               (unsigned long long)t->worst_seed, t->worst_call);
    printf("\n");
    return well;
}

static bool read_options(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {
        {"seconds", required_argument, NULL, 's'}, {"rounds", required_argument, NULL, 'r'},
        {"seed", required_argument, NULL, 'S'},    {"ranks", required_argument, NULL, 'n'},
        {"show", no_argument, NULL, 'v'},          {NULL, 0, NULL, 0},
    };

    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 's')
            o->seconds = atoi(optarg);
        else if (c == 'r')
            o->rounds = atoi(optarg);
        else if (c == 'S')
            o->seed = strtoull(optarg, NULL, 0);
        else if (c == 'v')
            o->shows = true;
        else if (c != 'n' || sscanf(optarg, "%d..%d", &o->least, &o->most) != 2)
            return false;
    }
    return optind == argc && o->least >= 1 && o->most >= o->least && o->most <= STORM_RANKS &&
           (o->seconds > 0 || o->rounds > 0);
}

/* Check keeps the processes of a case together, and ends them with it. */
static struct options options = {.least = 2, .most = STORM_RANKS};

TEST_GROUP(storm, 0);

TEST(storm, a_storm)
{
    struct totals totals = {0};
    struct storm_board *board = board_create();

    ck_assert(board && unsetenv("SYMM_DIR") == 0); /* the ranks meet at the default place */
    printf("# storm: seed %llu, %d to %d ranks\n", (unsigned long long)options.seed, options.least,
           options.most);
    const int64_t end = now_ms() + options.seconds * INT64_C(1000);
    while (options.rounds ? totals.rounds < options.rounds : now_ms() < end)
        run_round(&options, board, &totals);
    const bool well = summarize(&totals);
    board_destroy(board);
    fflush(stdout);
    ck_assert_msg(well, "something was wrong: see above");
}

int main(int argc, char **argv)
{
    enum { SLACK_S = 600 };

    if (getrandom(&options.seed, 4, 0) != 4 || !read_options(argc, argv, &options)) {
        fprintf(stderr, "usage: storm --seconds N | --rounds N [--seed S] [--ranks A..B] "
                        "[--show]\n");
        return 2;
    }
    setenv("SYMM_TEST_SEED", "1", 1); /* data follow from the round's seed */
    storm_group.timeout_s = options.seconds + SLACK_S;
    return test_main();
}
