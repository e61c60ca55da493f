/*
 * Bad networks between hosts: the second of three pretended hosts reaches rank 0 by a proxy that is
 * slow, loses what comes, or ends its connections. All ranks learn of it in time, and the groups
 * inside the domains go on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <symm/collectives.h>
#include <symm/stream.h>
#include <unistd.h>
#include "exercise.h"
#include "hosts.h"
#include "proxy.h"
#include "standin.h"
#include "test.h"

enum { ROUNDS = 1000000, HOSTS = 3, SIZE = 2 /* ranks of a host */, RANKS = HOSTS * SIZE, FAR = 1 };

struct scene {
    struct hosts hosts;
    struct proxy proxy;
};

static symm_status join(const struct rank *self, const struct scene *scene, symm_context **out)
{
    symm_config config = hosts_config(self, &scene->hosts);

    if (hosts_of(&scene->hosts, self->rank) == FAR)
        config.address = scene->proxy.address;
    return symm_context_create(&config, out);
}

static void scene_open(struct scene *scene, int delay_ms)
{
    scene->hosts = (struct hosts){HOSTS, {SIZE, SIZE, SIZE}, false, ""};
    hosts_address(&scene->hosts);
    proxy_start(&scene->proxy, scene->hosts.address, delay_ms);
}

/* The group of a domain works. */
static void go_on(struct rank *self, symm_context *ctx)
{
    symm_group *domain = symm_context_domain(ctx);

    RANK_TRY(self, symm_exchange(domain, NULL, 0, NULL));
    RANK_TRY(self, exercise_all_reduce(self, ctx, domain, SYMM_ALGO_AUTO, SYMM_FLOAT32, 1000, 1));
    RANK_TRY(self, symm_synchronize(domain, NULL));
    /* A rank that then destroys its context ends the domain's group, too. */
    RANK_TRY(self, symm_exchange(domain, NULL, 0, NULL));
out:;
}

TEST_GROUP(network, 60);

/* ---- Slow ---- */

static void work_slowly(struct rank *self, symm_context *ctx, symm_stream s)
{
    symm_group *world = symm_context_world(ctx), *rail = NULL;
    const int ranks[] = {self->rank % SIZE, SIZE + self->rank % SIZE, 2 * SIZE + self->rank % SIZE};
    float *x = NULL, got = 0;
    int all[RANKS], far[HOSTS];

    RANK_TRY(self, symm_exchange(world, &self->rank, sizeof self->rank, all));
    for (int r = 0; r < RANKS; r++)
        CHECK_RANK(self, all[r] == r);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "called different things",
                     symm_exchange(world, all, self->rank == 3 ? 8 : 4, all));
    RANK_TRY(self, symm_group_create(world, HOSTS, ranks, &rail));
    RANK_TRY(self, symm_exchange(rail, &self->rank, sizeof self->rank, far));
    for (int h = 0; h < HOSTS; h++)
        CHECK_RANK(self, far[h] == ranks[h]);
    RANK_TRY(self, symm_device_alloc(ctx, sizeof *x, (void **)&x));
    got = (float)self->rank;
    RANK_TRY(self, symm_copy(x, &got, sizeof got, s));
    RANK_TRY(self, symm_all_reduce(world, x, x, 1, SYMM_FLOAT32, SYMM_SUM, NULL, s));
    RANK_TRY(self, symm_copy(&got, x, sizeof got, s));
    RANK_TRY(self, symm_barrier(world, s));
    RANK_TRY(self, symm_synchronize(world, s));
    CHECK_RANK(self, got == RANKS * (RANKS - 1) / 2);
out:
    symm_device_free(ctx, x);
    symm_group_destroy(rail);
}

static void live_slowly(struct rank *self, void *arg)
{
    symm_context *ctx = NULL, *last;
    symm_stream s = NULL;

    RANK_TRY(self, join(self, arg, &ctx));
    RANK_TRY(self, symm_stream_create(ctx, &s));
    work_slowly(self, ctx, s);
    go_on(self, ctx);
    if (self->report->failed[0])
        goto out;
    symm_stream_destroy(s);
    s = NULL;
    last = ctx;
    ctx = NULL;
    RANK_TRY(self, symm_context_destroy(last));
out:
    symm_stream_destroy(s);
    symm_context_destroy(ctx);
}

enum { SLOW_MS = 50 };

TEST(network, a_slow_link_changes_nothing)
{
    struct scene scene = {0};

    standin_use();
    scene_open(&scene, SLOW_MS);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, live_slowly, &scene, 50);
    ck_assert_int_gt(atomic_load(&scene.proxy.control->nforwards), SIZE); /* also the hub's */
    proxy_end(&scene.proxy);
}

/* ---- Broken ---- */

enum phase { IN_VOTES, IN_CONFIRMATIONS, IDLE, PHASES };

struct damage {
    enum proxy_mode mode;
    int64_t limit_ms;
};

static const struct damage damages[] = {
    {PROXY_CUT, 1000},
    {PROXY_SWALLOWS, 6500},
    {PROXY_SWALLOWS_UP, 6500},
    {PROXY_SWALLOWS_DOWN, 6500},
};
enum { DAMAGES = sizeof damages / sizeof damages[0] };

struct breakage {
    struct scene scene;
    enum phase phase;
};

static void outlive(struct rank *self, void *arg)
{
    const struct breakage *b = arg;
    const bool far = hosts_of(&b->scene.hosts, self->rank) == FAR;
    symm_context *ctx = NULL;
    symm_group *world;
    symm_status st = SYMM_OK;
    int all[RANKS];

    RANK_TRY(self, join(self, &b->scene, &ctx));
    world = symm_context_world(ctx);
    for (int i = 0; i < ROUNDS && st == SYMM_OK; i++) {
        if (b->phase == IN_VOTES)
            st = symm_exchange(world, &self->rank, sizeof self->rank, all);
        else if (b->phase == IN_CONFIRMATIONS)
            st = symm_synchronize(world, NULL);
        else if ((st = symm_check(world)) == SYMM_OK)
            usleep(1000);
        self->report->value[1]++;
    }
    self->report->value[0] = now_ms();
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, far ? "rank 0" : "domain 1 (ranks 2 to 3)",
                     symm_check(world));
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm_synchronize(world, NULL));
    go_on(self, ctx);
out:
    symm_context_destroy(ctx);
}

TEST_LOOP(network, a_broken_link_is_known_everywhere_in_time, 0, DAMAGES *PHASES)
{
    const struct damage *damage = &damages[_i / PHASES];
    struct breakage b = {.phase = (enum phase)(_i % PHASES)};
    struct rank_report reports[RANKS_MAX];

    scene_open(&b.scene, 0);
    struct ranks *run = ranks_start(RANKS, RANKS_AS_PROCESSES, outlive, &b);
    for (int r = 0; r < RANKS; r++)
        ranks_await(run, r, 1, 20);
    const int64_t when = now_ms();
    atomic_store(&b.scene.proxy.control->mode, damage->mode);
    ranks_end(run, reports, 40);
    proxy_end(&b.scene.proxy);
    for (int r = 0; r < RANKS; r++) {
        ranks_assert_ok(&reports[r], 1);
        ck_assert_msg(reports[r].value[0] - when < damage->limit_ms,
                      "rank %d noticed after %lld ms", r, (long long)(reports[r].value[0] - when));
    }
}

/* ---- Broken before the ranks have met ---- */

static void miss(struct rank *self, void *arg)
{
    const struct scene *scene = arg;
    const bool far = hosts_of(&scene->hosts, self->rank) == FAR;
    const int64_t begun = now_ms();
    symm_context *ctx = NULL;

    RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT,
                     far ? "nobody with this token listens at" : "rank 2, 3 of 6 did not come",
                     join(self, scene, &ctx));
    CHECK_RANK(self, now_ms() - begun < 6500);
out:
    symm_context_destroy(ctx);
}

TEST_LOOP(network, a_link_that_is_broken_from_the_beginning_is_reported, 0, DAMAGES)
{
    struct scene scene = {0};

    setenv("SYMM_TIMEOUT_MS", "1500", 1);
    scene_open(&scene, 0);
    atomic_store(&scene.proxy.control->mode, damages[_i].mode);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, miss, &scene, 50);
    proxy_end(&scene.proxy);
}
