/*
 * Products whose driver fails: the k-th call of a create or of a run on one rank, for every k. The
 * errors on all ranks name this call and rank, and nothing is left behind. A group that has ended
 * can be destroyed; another product, or a second attempt, works.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "exercise.h"
#include "leaks.h"
#include "matmul_bench.h"
#include "test.h"

enum { TRIO = 3, CALL = 48, BEGIN_CALLS = 2 };

/* The rank whose calls fail, and its product. */
struct sweep {
    int bad;
    symm_matmul_kind kind;
    symm_strategy strategy;
    bool by_engine, traced;
    int run_calls;  /* of a run by any kernel: at least */
    bool plain;     /* collectives make the sums */
    bool any_order; /* or the switch, if they are plain */
};

/* A rank in a sweep. The world and its product stay; each life has a group of its own. */
struct life {
    const struct sweep *sweep;
    struct matmul_bench b;
    struct matmul_case c;
    struct matmul_group group;
    bool (*set_fault)(const char *);
    const char *(*last_fault)(void);
    int k;     /* the call that fails; 0: none */
    bool sent; /* an earlier call of the runs was behind the first work for other ranks */
    struct leaks before;
};

/* The bad rank's report to the others. */
struct news {
    symm_status status; /* of the create or the run */
    char call[CALL];    /* that failed; empty: there are fewer than k calls */
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

/* Replaces news by the bad rank's on all ranks. */
static symm_status share_news(struct rank *self, struct life *life, struct news *news)
{
    struct news all[TRIO];

    RANK_TRY(self, symm_exchange(life->b.world, news, sizeof *news, all));
    *news = all[life->sweep->bad];
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

/* Whether the text of this thread's last failure names the rank and its call. */
static bool names_it(const struct life *life, const struct news *news)
{
    char who[16];

    snprintf(who, sizeof who, "rank %d", life->sweep->bad);
    return strstr(symm_error_text(), who) && strstr(symm_error_text(), news->call);
}

/* ------------------------------------------------------------------------------------- lives */

static symm_status open_life(struct rank *self, struct life *life)
{
    RANK_TRY(self, matmul_group_open(self, &life->b, &life->c, &life->group));
    RANK_TRY(self, matmul_job_send(self, &life->group.job, (uint64_t)life->k, life->b.stream));
out:
    return self->report->status;
}

/* Destroys the group. This rank then holds the same resources as after the life without faults. */
static symm_status close_life(struct rank *self, struct life *life, bool ended)
{
    char text[512];

    const symm_status st = matmul_group_close(&life->group);
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

/* The result of this life's product is right. */
static symm_status look(struct rank *self, struct life *life)
{
    RANK_TRY(self, matmul_job_fetch(self, &life->group.job, NULL, life->b.stream));
    RANK_TRY(self, matmul_job_look(self, &life->group.job));
out:
    return self->report->failed[0] ? SYMM_ERROR_STATE : SYMM_OK;
}

/* A create fails with the same status on all ranks, and the next one works. */
static symm_status live_create(struct rank *self, struct life *life, struct news *news)
{
    struct matmul_job *job = &life->group.job;
    const symm_matmul_desc desc = matmul_job_desc(job);

    arm(self, life);
    const symm_status st = symm_matmul_create(life->group.g, &desc, &job->m);
    disarm(life, news->call);
    news->status = st;
    RANK_TRY(self, share_news(self, life, news));
    CHECK_RANK_MSG(self, st == news->status && (st == SYMM_OK || st == injected(life)),
                   "%s: %s, and %s on rank %d: %s", news->call, symm_status_name(st),
                   symm_status_name(news->status), life->sweep->bad, symm_error_text());
    CHECK_RANK_MSG(self, st == SYMM_OK || names_it(life, news), "%s: %s", news->call,
                   symm_error_text());
    if (st != SYMM_OK)
        RANK_TRY(self, matmul_job_create(self, job));
    RANK_TRY(self, matmul_job_run(self, job, life->b.stream));
    return look(self, life);
out:
    return SYMM_ERROR_STATE;
}

/*
 * A run has failed on this rank. It has ended the group, if and only if it had come to its work for
 * other ranks. If it has not, a second attempt works. An unfused all-gather never ends the group:
 * then this rank does.
 */
static symm_status check_end(struct rank *self, struct life *life)
{
    const bool unfused =
        life->c.kind == SYMM_ALL_GATHER_MATMUL && life->sweep->strategy == SYMM_STRATEGY_UNFUSED;
    const bool ended = symm_check(life->group.g) != SYMM_OK;

    CHECK_RANK(self, !ended || (life->k > 1 && !unfused));
    CHECK_RANK(self, ended || !life->sent);
    life->sent = ended;
    if (unfused)
        symm_abort(life->group.g, symm_error_text());
    else if (!ended)
        RANK_TRY(self, matmul_job_run(self, &life->group.job, life->b.stream));
    return SYMM_OK;
out:
    return SYMM_ERROR_STATE;
}

static symm_status live_run(struct rank *self, struct life *life, struct news *news)
{
    struct matmul_job *job = &life->group.job;
    symm_group *g = life->group.g;
    const symm_matmul_args args = matmul_job_args(job);

    RANK_TRY(self, matmul_job_create(self, job));
    arm(self, life);
    symm_status st = symm_matmul_run(job->m, &args, life->b.stream);
    disarm(life, news->call);
    news->status = st;
    if (self->rank == life->sweep->bad && st != SYMM_OK) {
        CHECK_RANK_MSG(self, st == injected(life) && names_it(life, news), "%s: %s: %s", news->call,
                       symm_status_name(st), symm_error_text());
        RANK_TRY(self, check_end(self, life));
    }
    news->ended = symm_check(g) != SYMM_OK;
    RANK_TRY(self, share_news(self, life, news));
    if (!news->ended)
        return look(self, life);
    st = symm_synchronize(g, life->b.stream);
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

    /* Rows that are not a multiple of packs are copied. The workspace needs a segment. */
    life.c.strategy = sweep->strategy;
    life.c.n[0] = life.c.n[1] = 1;
    life.c.kind = sweep->kind;
    life.c.traced = sweep->traced;
    life.c.any_order = sweep->any_order;
    life.c.k = 2047;
    if (sweep->kind != SYMM_ALL_GATHER_MATMUL) {
        life.c.gathered = false;
        life.c.k = 3;
        life.c.n[0] = life.c.n[1] = 1025 * TRIO;
    }
    life.c.l = 1;
    if (sweep->plain) {
        life.c.m = 7 * TRIO;
        life.c.n[0] = life.c.n[1] = 400; /* collectives take long with small areas */
        life.c.has_c = life.c.has_bias = false;
        life.c.beta = NULL;
    }
    RANK_TRY(self, matmul_bench_begin(self, &life.b));
    *(void **)&life.set_fault = symm_context_driver_symbol(life.b.ctx, "symm_emulated_set_fault");
    *(void **)&life.last_fault = symm_context_driver_symbol(life.b.ctx, "symm_emulated_last_fault");
    for (; life.k < 2 || news.call[0]; life.k++) {
        RANK_TRY(self, open_life(self, &life));
        RANK_TRY(self, live(self, &life, &news));
        RANK_TRY(self, close_life(self, &life, news.ended));
        counts[0] += news.call[0] != 0;
        counts[1] += news.status != SYMM_OK;
        counts[2] += news.ended;
    }
out:
    matmul_group_close(&life.group);
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
    {0, SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_FUSED, false, false, 28, false, false},
    {1, SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_FUSED, true, false, 25, false, false},
    {2, SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_PIPELINED, false, false, 28, false, false},
    {0, SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_PIPELINED, true, false, 28, false, false},
    {1, SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_UNFUSED, false, false, 6, false, false},
    {2, SYMM_ALL_GATHER_MATMUL, SYMM_STRATEGY_FUSED, false, true, 28, false, false},
    {2, SYMM_MATMUL_REDUCE_SCATTER, SYMM_STRATEGY_UNFUSED, false, false, 4, false, false},
    {0, SYMM_MATMUL_ALL_REDUCE, SYMM_STRATEGY_UNFUSED, false, false, 4, false, false},
    {1, SYMM_MATMUL_ALL_SCATTER, SYMM_STRATEGY_UNFUSED, false, false, 4, false, false},
    {1, SYMM_MATMUL_REDUCE_SCATTER, SYMM_STRATEGY_FUSED, false, false, 4, false, false},
    {2, SYMM_MATMUL_ALL_REDUCE, SYMM_STRATEGY_PIPELINED, false, false, 6, false, false},
    {0, SYMM_MATMUL_ALL_SCATTER, SYMM_STRATEGY_FUSED, false, true, 4, false, false},
    {1, SYMM_MATMUL_REDUCE_SCATTER, SYMM_STRATEGY_UNFUSED, false, false, 4, true, false},
    {2, SYMM_MATMUL_ALL_REDUCE, SYMM_STRATEGY_UNFUSED, false, false, 4, true, false},
    {1, SYMM_MATMUL_ALL_REDUCE, SYMM_STRATEGY_FUSED, false, false, 2, true, false},
    {0, SYMM_MATMUL_ALL_REDUCE, SYMM_STRATEGY_FUSED, false, false, 4, true, true},
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
    printf("# %s, kind %d, strategy %d%s%s, rank %d: %d driver calls failed once each; %d failed "
           "it, %d ended the group\n",
           what, (int)s->kind, (int)s->strategy, s->by_engine ? " by copy engines" : "",
           s->traced ? ", traced" : "", s->bad, (int)counts[0], (int)counts[1], (int)counts[2]);
    ck_assert_int_ge(counts[0], least);
    if (s->traced) /* the trace is cleared first, behind the calls with which every call begins */
        ck_assert_int_gt(counts[1] - counts[2], BEGIN_CALLS);
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
    sweep_calls(&sweeps[_i], run_all, "run", sweeps[_i].run_calls);
}

void test_setup(void)
{
    setenv("SYMM_SEGMENT_BYTES", "64K", 0);
    setenv("SYMM_STAGING_BYTES", "64K", 0);
    if (TEST_INSTRUMENTED) /* the Hopper kernel takes minutes there */
        setenv("SYMM_MATMUL_WGMMA", "0", 0);
}
