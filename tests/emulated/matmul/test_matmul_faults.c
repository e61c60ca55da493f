/*
 * Products whose driver fails: the k-th call of a create or of a run on one rank, for every k. All
 * ranks hear which call of which rank it was, nothing is left behind, what has ended can be
 * destroyed, and what was not touched, or is tried again, works.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "leaks.h"
#include "matmul_bench.h"
#include "test.h"

enum { TRIO = 3, CALL = 48 };

/* Whose calls fail, and of which product. */
struct sweep {
    int bad;
    symm_strategy strategy;
    bool by_engine;
};

/* A rank in a sweep. The world and its product stay; each life has a group of its own. */
struct life {
    const struct sweep *sweep;
    struct matmul_bench b;
    struct matmul_case c;
    symm_group *g;
    struct matmul_job job;
    bool (*set_fault)(const char *);
    const char *(*last_fault)(void);
    int k; /* the call that fails; 0: none */
    struct leaks before;
};

/* What the bad rank tells the others of a life. */
struct news {
    symm_status status; /* of the create or the run */
    char call[CALL];    /* that failed; empty: there are fewer */
    bool ended;         /* the group */
};

/* ------------------------------------------------------------------------------------ faults */

static symm_status injected(const struct life *life)
{
    return life->k % 2 ? SYMM_ERROR_MEMORY : SYMM_ERROR_DRIVER;
}

static void arm(const struct rank *self, struct life *life)
{
    char fault[48];

    if (self->rank != life->sweep->bad || life->k == 0)
        return;
    snprintf(fault, sizeof fault, "any@%d#%d=%d", self->rank, life->k, life->k % 2 ? 2 : 999);
    life->set_fault(fault);
}

static void disarm(struct life *life, char call[CALL])
{
    const char *last = life->last_fault();

    snprintf(call, CALL, "%s", last ? last : "");
    life->set_fault(NULL);
}

/* What has happened on the bad rank, for all ranks. */
static symm_status hear(struct rank *self, struct life *life, struct news *news)
{
    struct news all[TRIO];

    RANK_TRY(self, symm_exchange(life->b.world, news, sizeof *news, all));
    *news = all[life->sweep->bad];
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* The text of this thread's last failure says whose call it was that failed. */
static bool names_it(const struct life *life, const struct news *news)
{
    char who[16];

    snprintf(who, sizeof who, "rank %d", life->sweep->bad);
    return strstr(symm_error_text(), who) && strstr(symm_error_text(), news->call);
}

/* ------------------------------------------------------------------------------------- lives */

static symm_status open_life(struct rank *self, struct life *life)
{
    static const int ranks[] = {0, 1, 2};

    RANK_TRY(self, symm_group_create(life->b.world, TRIO, ranks, &life->g));
    if (matmul_job_open(self, life->b.ctx, life->g, &life->c, &life->job) != SYMM_OK ||
        matmul_job_send(self, &life->job, (uint64_t)life->k, life->b.stream) != SYMM_OK)
        goto out;
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* Afterwards this rank holds what it held before. */
static symm_status close_life(struct rank *self, struct life *life, bool ended)
{
    char text[512];

    matmul_job_close(&life->job);
    const symm_status st = symm_group_destroy(life->g);
    life->g = NULL;
    CHECK_RANK_MSG(self, st == (ended ? SYMM_ERROR_PEER : SYMM_OK), "%s: %s", symm_status_name(st),
                   symm_error_text());
    RANK_TRY(self, symm_trim(life->b.world));
    if (life->k == 0)
        leaks_take(&life->before);
    CHECK_RANK_MSG(self, leaks_none_since(&life->before, text, sizeof text), "left behind: %s",
                   text);
    return matmul_bench_works(self, &life->b);
out:
    return SYMM_ERROR_STATE;
}

/* The product of this life, with data that nothing has read yet, is right. */
static symm_status look(struct rank *self, struct life *life)
{
    if (matmul_job_fetch(self, &life->job, NULL, life->b.stream) != SYMM_OK ||
        matmul_job_look(self, &life->job) != SYMM_OK)
        return SYMM_ERROR_STATE;
    return SYMM_OK;
}

/* A create fails alike on all ranks, and the next one works. */
static symm_status live_create(struct rank *self, struct life *life, struct news *news)
{
    const symm_matmul_desc desc = matmul_job_desc(&life->job);

    arm(self, life);
    const symm_status st = symm_matmul_create(life->g, &desc, &life->job.m);
    disarm(life, news->call);
    news->status = st;
    if (hear(self, life, news) != SYMM_OK)
        goto out;
    CHECK_RANK_MSG(self, st == news->status && (st == SYMM_OK || st == injected(life)),
                   "%s: %s, and %s on rank %d: %s", news->call, symm_status_name(st),
                   symm_status_name(news->status), life->sweep->bad, symm_error_text());
    CHECK_RANK_MSG(self, st == SYMM_OK || names_it(life, news), "%s: %s", news->call,
                   symm_error_text());
    if (st != SYMM_OK && matmul_job_create(self, &life->job) != SYMM_OK)
        goto out;
    if (matmul_job_run(self, &life->job, life->b.stream) != SYMM_OK)
        goto out;
    return look(self, life);
out:
    return SYMM_ERROR_STATE;
}

/*
 * A run that fails has ended the group, or left nothing that would be in the way of another. (Of an
 * unfused one this rank cannot tell.)
 */
static symm_status live_run(struct rank *self, struct life *life, struct news *news)
{
    const symm_matmul_args args = matmul_job_args(&life->job);

    if (matmul_job_create(self, &life->job) != SYMM_OK)
        goto out;
    arm(self, life);
    symm_status st = symm_matmul_run(life->job.m, &args, life->b.stream);
    disarm(life, news->call);
    news->status = st;
    if (self->rank == life->sweep->bad && st != SYMM_OK) {
        CHECK_RANK_MSG(self, st == injected(life) && names_it(life, news), "%s: %s: %s", news->call,
                       symm_status_name(st), symm_error_text());
        if (life->sweep->strategy == SYMM_STRATEGY_UNFUSED)
            symm_abort(life->g, symm_error_text());
        if (symm_check(life->g) == SYMM_OK &&
            matmul_job_run(self, &life->job, life->b.stream) != SYMM_OK)
            goto out;
    }
    news->ended = symm_check(life->g) != SYMM_OK;
    if (hear(self, life, news) != SYMM_OK)
        goto out;
    if (!news->ended)
        return look(self, life);
    st = symm_synchronize(life->g, life->b.stream);
    CHECK_RANK_MSG(self, st == SYMM_ERROR_PEER && names_it(life, news), "%s: %s: %s", news->call,
                   symm_status_name(st), symm_error_text());
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* ------------------------------------------------------------------------------------ sweeps */

typedef symm_status live_fn(struct rank *self, struct life *life, struct news *news);

/* A life without faults, and one for each call. Counts failed calls, failures and ended groups. */
static void live_all(struct rank *self, const struct sweep *sweep, live_fn *live)
{
    struct life life = {.sweep = sweep, .c = matmul_works};
    struct news news = {.status = SYMM_OK};
    int64_t *counts = &self->report->value[1];

    /* Rows that are no whole packs, hence copied first; a workspace that needs a segment. */
    life.c.strategy = sweep->strategy;
    life.c.k = 2047;
    life.c.l = life.c.n[0] = life.c.n[1] = 1;
    if (matmul_bench_open(self, &life.b, &matmul_works) != SYMM_OK ||
        matmul_bench_works(self, &life.b) != SYMM_OK)
        goto out;
    *(void **)&life.set_fault = symm_context_driver_symbol(life.b.ctx, "symm_emulated_set_fault");
    *(void **)&life.last_fault = symm_context_driver_symbol(life.b.ctx, "symm_emulated_last_fault");
    for (; life.k < 2 || news.call[0]; life.k++) {
        if (open_life(self, &life) != SYMM_OK || live(self, &life, &news) != SYMM_OK ||
            close_life(self, &life, news.ended) != SYMM_OK)
            goto out;
        counts[0] += news.call[0] != 0;
        counts[1] += news.status != SYMM_OK;
        counts[2] += news.ended;
    }
out:
    matmul_job_close(&life.job);
    symm_group_destroy(life.g);
    matmul_bench_close(&life.b);
}

static void create_all(struct rank *self, void *arg)
{
    live_all(self, arg, live_create);
}

static void run_all(struct rank *self, void *arg)
{
    live_all(self, arg, live_run);
}

static struct sweep sweeps[] = {
    {0, SYMM_STRATEGY_FUSED, false},     {1, SYMM_STRATEGY_FUSED, true},
    {2, SYMM_STRATEGY_PIPELINED, false}, {0, SYMM_STRATEGY_PIPELINED, true},
    {1, SYMM_STRATEGY_UNFUSED, false},
};
enum { NSWEEPS = sizeof sweeps / sizeof sweeps[0] };

static void sweep_calls(struct sweep *s, rank_fn fn, const char *what, int least)
{
    struct rank_report reports[TRIO];
    const int64_t *counts = &reports[0].value[1];

    if (s->by_engine)
        setenv("SYMM_MATMUL_ENGINE_BYTES", "1", 1);
    ranks_run(TRIO, RANKS_AS_PROCESSES, fn, s, reports, 60);
    ranks_assert_ok(reports, TRIO);
    printf("# %s, strategy %d%s, rank %d: %d driver calls failed once each; %d failed it, %d ended "
           "the group\n",
           what, (int)s->strategy, s->by_engine ? " by copy engines" : "", s->bad, (int)counts[0],
           (int)counts[1], (int)counts[2]);
    ck_assert_int_ge(counts[0], least);
}

TEST_GROUP(faults, 120);

TEST_LOOP(faults, every_call_of_a_create_fails_once, 0, NSWEEPS)
{
    setenv("SYMM_CHECK", "1", 1);
    sweep_calls(&sweeps[_i], create_all, "create", 15);
}

TEST_LOOP(faults, every_call_of_a_run_fails_once, 0, NSWEEPS)
{
    setenv("SYMM_CHECK", "0", 1); /* a rank that tries again does so alone */
    sweep_calls(&sweeps[_i], run_all, "run", sweeps[_i].strategy == SYMM_STRATEGY_UNFUSED ? 8 : 30);
}

void test_setup(void)
{
    setenv("SYMM_SEGMENT_BYTES", "64K", 0);
    setenv("SYMM_STAGING_BYTES", "64K", 0);
}
