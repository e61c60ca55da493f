/*
 * How groups of several domains end: deaths of a rank, of a domain's hub and of the root, a host
 * that is silent, aborts, calls that differ, ranks that do not come. Other domains go on.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "exercise.h"
#include "hosts.h"
#include "test.h"

enum { ROUNDS = 1000000, HOSTS = 3, SIZE = 2 /* ranks of a host */, RANKS = HOSTS * SIZE };

TEST_GROUP(ends, 60);

/* ---- Deaths ---- */

enum phase { IN_VOTES, IN_NEW_GROUPS, IN_CONFIRMATIONS, PHASES };

struct death {
    int victim;
    bool silent;             /* its host stops, and the connection stays */
    const char *who, *where; /* in the text of a survivor of its domain, and of another one */
    int64_t limit_ms;
    enum phase phase;
    struct hosts hosts;
};

static const struct death deaths[] = {
    {.victim = 3, .who = "rank 3 (pid ", .where = "rank 3 (pid ", .limit_ms = 1000},
    {.victim = 2, .who = "rank 2 (pid ", .where = "domain 1 (ranks 2 to 3)", .limit_ms = 1000},
    {.victim = 1, .who = "rank 1 (pid ", .where = "rank 1 (pid ", .limit_ms = 1000},
    {.victim = 0, .who = "rank 0 (pid ", .where = "rank 0, which connects the", .limit_ms = 1000},
    {.victim = 2, .silent = true, .where = "silent", .limit_ms = 6500},
};
enum { DEATHS = sizeof deaths / sizeof deaths[0] };

static symm_status work(const struct rank *self, symm_group *world, enum phase phase)
{
    const int rail[] = {self->rank % SIZE, SIZE + self->rank % SIZE, 2 * SIZE + self->rank % SIZE};
    symm_group *group = NULL;
    int all[RANKS];
    symm_status st;

    if (phase == IN_CONFIRMATIONS)
        return symm_synchronize(world, NULL);
    if (phase == IN_VOTES)
        return symm_exchange(world, &self->rank, sizeof self->rank, all);
    st = symm_group_create(world, HOSTS, rail, &group);
    return st == SYMM_OK ? symm_group_destroy(group) : st;
}

/* The group of a domain works. */
static void go_on(struct rank *self, symm_context *ctx)
{
    symm_group *domain = symm_context_domain(ctx);
    int all[SIZE] = {0};

    RANK_TRY(self, symm_exchange(domain, &self->rank, sizeof self->rank, all));
    for (int i = 0; i < SIZE; i++)
        CHECK_RANK(self, all[i] == self->rank - self->rank % SIZE + i);
    RANK_TRY(self, symm_barrier(domain, NULL));
    RANK_TRY(self, symm_synchronize(domain, NULL));
    /* A rank that then destroys its context ends the domain's group, too. */
    RANK_TRY(self, symm_exchange(domain, NULL, 0, NULL));
out:;
}

static void outlive(struct rank *self, void *arg)
{
    const struct death *death = arg;
    const bool near = self->rank / SIZE == death->victim / SIZE;
    symm_context *ctx = NULL;
    symm_group *world;
    symm_status st = SYMM_OK;

    RANK_TRY(self, hosts_join(self, &death->hosts, &ctx));
    world = symm_context_world(ctx);
    for (int i = 0; i < ROUNDS && st == SYMM_OK; i++) {
        st = work(self, world, death->phase);
        self->report->value[1]++;
    }
    while (symm_check(world) == SYMM_OK) /* a rail may have ended first */
        usleep(1000);
    self->report->value[0] = now_ms();
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, near ? death->who : death->where, symm_check(world));
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm_synchronize(world, NULL));
    if (!near)
        go_on(self, ctx);
out:
    symm_context_destroy(ctx);
}

/* Stops all ranks of the victim's host. Returns when. */
static int64_t stop_host(const struct ranks *run, int victim)
{
    ranks_await(run, victim, 1, 20);
    for (int r = victim; r < victim + SIZE; r++)
        kill(ranks_pid(run, r), SIGSTOP);
    return now_ms();
}

static void kill_host(const struct ranks *run, int victim)
{
    for (int r = 0; r < RANKS; r++)
        if (r / SIZE != victim / SIZE)
            ranks_await(run, r, 0, 1);
    for (int r = victim; r < victim + SIZE; r++)
        kill(ranks_pid(run, r), SIGKILL);
}

TEST_LOOP(ends, a_death_is_known_everywhere_in_time, 0, DEATHS *PHASES)
{
    struct rank_report reports[RANKS_MAX];
    struct death death = deaths[_i / PHASES];

    death.phase = (enum phase)(_i % PHASES);
    death.hosts = (struct hosts){HOSTS, {SIZE, SIZE, SIZE}, false, ""};
    hosts_address(&death.hosts);
    struct ranks *run = ranks_start(RANKS, RANKS_AS_PROCESSES, outlive, &death);
    const int64_t when =
        death.silent ? stop_host(run, death.victim) : ranks_kill_at(run, death.victim, 1, 20);
    if (death.silent)
        kill_host(run, death.victim);
    ranks_end(run, reports, 40);
    for (int r = 0; r < RANKS; r++) {
        if (r == death.victim || (death.silent && r / SIZE == death.victim / SIZE)) {
            ck_assert_int_eq(reports[r].end, RANK_KILLED);
            continue;
        }
        ranks_assert_ok(&reports[r], 1);
        ck_assert_msg(reports[r].value[0] - when < death.limit_ms, "rank %d noticed after %lld ms",
                      r, (long long)(reports[r].value[0] - when));
    }
}

/* ---- Ends without a death ---- */

struct end {
    void (*body)(struct rank *self, symm_context *ctx);
    struct hosts hosts;
};

static void abort_world(struct rank *self, symm_context *ctx)
{
    symm_group *world = symm_context_world(ctx);
    int all[RANKS];

    RANK_TRY(self, symm_exchange(world, &self->rank, sizeof self->rank, all));
    if (self->rank == 3)
        symm_abort(world, "the test says so");
    else
        RANK_EXPECT(self, SYMM_ERROR_PEER,
                    symm_exchange(world, &self->rank, sizeof self->rank, all));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 3 aborted: the test says so", symm_check(world));
    go_on(self, ctx);
out:;
}

/* A rank that does not come is named, with its last call, on every rank. */
static void wait_in_vain(struct rank *self, symm_context *ctx)
{
    symm_group *world = symm_context_world(ctx);
    int all[RANKS];

    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (self->rank == 5) {
        while (symm_check(world) == SYMM_OK)
            usleep(1000);
        RANK_EXPECT(self, SYMM_ERROR_TIMEOUT, symm_check(world));
    } else {
        RANK_EXPECT(self, SYMM_ERROR_TIMEOUT,
                    symm_exchange(world, &self->rank, sizeof self->rank, all));
    }
    RANK_TEXT(self, "rank 5");
    RANK_TEXT(self, "symm_exchange(4 bytes)");
    go_on(self, ctx);
out:;
}

/* The same if none of its domain comes. */
static void wait_for_a_domain(struct rank *self, symm_context *ctx)
{
    symm_group *world = symm_context_world(ctx);
    int all[RANKS];

    if (self->rank / SIZE == 1) {
        while (symm_check(world) == SYMM_OK)
            usleep(1000);
        RANK_EXPECT(self, SYMM_ERROR_TIMEOUT, symm_check(world));
    } else {
        RANK_EXPECT(self, SYMM_ERROR_TIMEOUT,
                    symm_exchange(world, &self->rank, sizeof self->rank, all));
    }
    RANK_TEXT(self, "domain 1 (ranks 2 to 3): rank 2, 3");
    go_on(self, ctx);
out:;
}

/* Different calls, of one rank or of a whole domain, fail everywhere; the group goes on. */
static void differ(struct rank *self, symm_context *ctx)
{
    symm_group *world = symm_context_world(ctx);
    int all[2 * RANKS], mine[2] = {self->rank, self->rank};

    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "rank 3: symm_exchange(8 bytes)",
                     symm_exchange(world, mine, self->rank == 3 ? 8 : 4, all));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "domain 2 (ranks 4 to 5): symm_exchange(8 bytes)",
                     symm_exchange(world, mine, self->rank / SIZE == 2 ? 8 : 4, all));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "mine is NULL",
                     symm_exchange(world, self->rank == 4 ? NULL : mine, 4, all));
    RANK_TRY(self, symm_exchange(world, mine, 4, all));
    for (int r = 0; r < RANKS; r++)
        CHECK_RANK(self, all[r] == r);
out:;
}

/* A member that does not come to a new group; then the members try again. */
static void make_a_group_late(struct rank *self, symm_context *ctx)
{
    symm_group *world = symm_context_world(ctx), *group = NULL;
    const int ranks[] = {5, 0, 2};

    if (self->rank == 0 || self->rank == 2)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "domain 2 (ranks 4 to 5)",
                         symm_group_create(world, 3, ranks, &group));
    else
        usleep(1000000); /* so that they wait for these two no longer than they may */
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (self->rank == 0 || self->rank == 2 || self->rank == 5) {
        int all[3];
        RANK_TRY(self, symm_group_create(world, 3, ranks, &group));
        RANK_TRY(self, symm_exchange(group, &self->rank, sizeof self->rank, all));
        CHECK_RANK(self, all[0] == 5 && all[1] == 0 && all[2] == 2);
    }
out:
    symm_group_destroy(group);
}

/* Ranks of one domain that name other ranks of another one do not meet. */
static void name_other_ranks(struct rank *self, symm_context *ctx)
{
    symm_group *world = symm_context_world(ctx), *group = NULL;
    const int one[] = {0, 1, 2}, other[] = {0, 1, 4};
    const bool first = self->rank == 0 || self->rank == 2;

    if (first || self->rank == 1 || self->rank == 4)
        RANK_EXPECT(self, SYMM_ERROR_TIMEOUT,
                    symm_group_create(world, 3, first ? one : other, &group));
    else
        usleep(1000000);
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
out:
    symm_group_destroy(group);
}

/* A rank leaves a group: the others hear of it when they need it. */
static void leave(struct rank *self, symm_context *ctx)
{
    symm_group *world = symm_context_world(ctx), *group = NULL;
    int ranks[RANKS];

    for (int r = 0; r < RANKS; r++)
        ranks[r] = r;
    RANK_TRY(self, symm_group_create(world, RANKS, ranks, &group));
    if (self->rank == 2) {
        RANK_TRY(self, symm_group_leave(group));
        group = NULL;
    } else {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "has left", symm_exchange(group, NULL, 0, NULL));
    }
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
out:
    symm_group_destroy(group);
}

/* A rank leaves; the others may still confirm results, and tell all of an end. */
static void go_on_without(struct rank *self, symm_context *ctx)
{
    symm_group *world = symm_context_world(ctx), *group = NULL;
    const int ranks[] = {0, 1, 2, 3, 4, 5};

    RANK_TRY(self, symm_group_create(world, RANKS, ranks, &group));
    if (self->rank == 2) {
        RANK_TRY(self, symm_group_leave(group));
        group = NULL;
    }
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (group)
        RANK_TRY(self, symm_synchronize(group, NULL));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (self->rank == 3)
        symm_abort(group, "its mate has left");
    for (int i = 0; group && i < 1000 && symm_check(group) == SYMM_OK; i++)
        usleep(1000);
    if (group)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 3 aborted: its mate", symm_check(group));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
out:
    symm_group_destroy(group);
}

/* The same if all ranks of a domain leave, before the others come. */
static void leave_as_a_domain(struct rank *self, symm_context *ctx)
{
    symm_group *world = symm_context_world(ctx), *group = NULL;
    const int ranks[] = {0, 1, 2, 3, 4, 5};

    RANK_TRY(self, symm_group_create(world, RANKS, ranks, &group));
    if (self->rank / SIZE == 1) {
        RANK_TRY(self, symm_group_leave(group));
        group = NULL;
    }
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    if (group)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "domain 1 (ranks 2 to 3) has left",
                         symm_exchange(group, NULL, 0, NULL));
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
out:
    symm_group_destroy(group);
}

static const struct end all_ends[] = {
    {.body = abort_world},       {.body = wait_in_vain},
    {.body = wait_for_a_domain}, {.body = differ},
    {.body = make_a_group_late}, {.body = leave},
    {.body = leave_as_a_domain}, {.body = name_other_ranks},
    {.body = go_on_without},
};
enum { ENDS = sizeof all_ends / sizeof all_ends[0] };

static void run_end(struct rank *self, void *arg)
{
    const struct end *end = arg;
    symm_context *ctx = NULL;

    RANK_TRY(self, hosts_join(self, &end->hosts, &ctx));
    end->body(self, ctx);
out:
    symm_context_destroy(ctx);
}

TEST_LOOP(ends, the_others_hear_why, 0, ENDS)
{
    struct end end = all_ends[_i];

    setenv("SYMM_TIMEOUT_MS", "1500", 1);
    end.hosts = (struct hosts){HOSTS, {SIZE, SIZE, SIZE}, false, ""};
    hosts_address(&end.hosts);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, run_end, &end, 50);
}

/* ---- Joining ---- */

struct trouble {
    int rank;
    const char *device; /* a wrong one */
    bool absent;
    symm_status status;
    const char *part; /* of the text of the ranks that are not to blame */
    struct hosts hosts;
};

static const struct trouble troubles[] = {
    {.rank = 3, .device = "99", .status = SYMM_ERROR_ARGUMENT, .part = "world rank 3)"},
    {.rank = 0, .device = "99", .status = SYMM_ERROR_ARGUMENT, .part = "(on rank 0)"},
    {.rank = 4,
     .device = "5",
     .status = SYMM_ERROR_MISMATCH,
     .part = "rank 4 and rank 5 use the same device"},
    {.rank = 5, .absent = true, .status = SYMM_ERROR_TIMEOUT, .part = "rank 5"},
    {.rank = 2, .absent = true, .status = SYMM_ERROR_TIMEOUT, .part = "rank 2"},
};
enum { TROUBLES = sizeof troubles / sizeof troubles[0] };

static void join_in_vain(struct rank *self, void *arg)
{
    const struct trouble *trouble = arg;
    symm_config config = hosts_config(self, &trouble->hosts);
    symm_context *ctx = NULL;

    if (self->rank == trouble->rank && trouble->absent)
        return;
    if (self->rank == trouble->rank)
        config.device = trouble->device;
    RANK_EXPECT(self, trouble->status, symm_context_create(&config, &ctx));
    if (self->rank != trouble->rank)
        RANK_TEXT(self, trouble->part);
    CHECK_RANK(self, !ctx);
out:
    symm_context_destroy(ctx);
}

TEST_LOOP(ends, no_rank_joins_if_one_cannot, 0, TROUBLES)
{
    struct trouble trouble = troubles[_i];

    setenv("SYMM_TIMEOUT_MS", "3000", 1);
    trouble.hosts = (struct hosts){HOSTS, {SIZE, SIZE, SIZE}, false, ""};
    hosts_address(&trouble.hosts);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, join_in_vain, &trouble, 50);
}

#if SYMM_MULTICAST
/* Nothing can be released there: leaks do not count. */
static void hang_in_bind(struct rank *self, void *arg)
{
    symm_context *ctx = NULL;

    setenv("SYMM_EMULATED_FAULT", "cuMulticastBindMem@3=hang", 1);
    setenv("SYMM_EMULATED_LEAKS", "off", 1);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "(on rank 1, world rank 3)",
                     hosts_join(self, arg, &ctx));
    CHECK_RANK(self, !ctx);
out:
    symm_context_destroy(ctx);
}

TEST(ends, a_bind_that_hangs_names_the_world_rank)
{
    struct rank_report reports[RANKS];
    struct hosts hosts = {HOSTS, {SIZE, SIZE, SIZE}, false, ""};

    setenv("SYMM_TIMEOUT_MS", "3000", 1);
    hosts_address(&hosts);
    ranks_run(RANKS, RANKS_AS_PROCESSES, hang_in_bind, &hosts, reports, 50);
    for (int r = 0; r < RANKS; r++) {
        ck_assert_msg(!reports[r].failed[0], "rank %d: %s", r, reports[r].failed);
        ck_assert_int_eq(reports[r].end, RANK_RETURNED);
    }
}
#endif
