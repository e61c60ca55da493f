/*
 * Ranks of several domains: pretended hosts on this one. They meet over TCP, vote through the root,
 * make groups, and end together; memory stays in a domain.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <symm/matmul.h>
#include <sys/wait.h>
#include <unistd.h>
#include "exercise.h"
#include "hosts.h"
#include "test.h"

static const struct hosts shapes[] = {
    {2, {2, 2}, false, ""},   {2, {2, 2}, true, ""},
    {2, {4, 4}, false, ""},   {4, {1, 1, 1, 1}, false, ""},
    {2, {3, 1}, false, ""},   {2, {8, 7}, false, ""},
    {3, {2, 2, 2}, true, ""}, {16, {8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}, true, ""},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

TEST_GROUP(domains, 60);

/* Every rank's 24 bits of a hash of its rank and a round. */
static uint32_t mark(int rank, int round)
{
    return (uint32_t)(rank * 7919 + round * 104729) & 0xffffff;
}

static void exchange(struct rank *self, symm_group *group, int round, int count)
{
    const int n = symm_nranks(group), me = symm_world_rank(group, symm_rank(group));
    uint32_t *mine = calloc((size_t)count, sizeof *mine);
    uint32_t *all = calloc((size_t)count * (size_t)n, sizeof *all);

    for (int i = 0; i < count; i++)
        mine[i] = mark(me, round + i);
    RANK_TRY(self, symm_exchange(group, mine, (size_t)count * sizeof *mine, all));
    for (int r = 0; r < n; r++)
        for (int i = 0; i < count; i++)
            CHECK_RANK(self, all[r * count + i] == mark(symm_world_rank(group, r), round + i));
out:
    free(mine);
    free(all);
}

static void look_around(struct rank *self, const struct hosts *hosts, symm_context *ctx)
{
    symm_group *world = symm_context_world(ctx), *domain = symm_context_domain(ctx);
    const int mine = hosts_of(hosts, self->rank);
    int near = 0;

    CHECK_RANK(self, symm_rank(world) == self->rank && symm_nranks(world) == self->nranks);
    CHECK_RANK(self, symm_group_ndomains(world) == (uint32_t)hosts->n);
    CHECK_RANK(self, symm_group_ndomains(domain) == 1 && domain != world);
    CHECK_RANK(self, symm_nranks(domain) == hosts->sizes[mine]);
    for (int r = 0; r < self->nranks; r++) {
        CHECK_RANK(self, symm_group_domain_of(world, r) == (uint32_t)hosts_of(hosts, r));
        CHECK_RANK(self, symm_world_rank(world, r) == r);
        if (hosts_of(hosts, r) == mine)
            CHECK_RANK(self, symm_world_rank(domain, near++) == r);
    }
    CHECK_RANK(self, symm_world_rank(domain, symm_rank(domain)) == self->rank);
out:;
}

/* Of every kind, with shapes that are right for one rank. */
static void refuse_products(struct rank *self, symm_group *world)
{
    symm_matmul_desc desc = {.nb = 1};
    symm_matmul *product = NULL;
    const int64_t square[] = {8, 8};

    RANK_TRY(self, symm_tensor_of(NULL, SYMM_BFLOAT16, 2, square, NULL, &desc.a));
    RANK_TRY(self, symm_tensor_of(NULL, SYMM_BFLOAT16, 2, square, NULL, &desc.b[0]));
    RANK_TRY(self, symm_tensor_of(NULL, SYMM_BFLOAT16, 2, square, NULL, &desc.d[0]));
    for (int kind = SYMM_MATMUL; kind <= SYMM_MATMUL_ALL_SCATTER; kind++) {
        desc.kind = (symm_matmul_kind)kind;
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "domains",
                         symm_matmul_create(world, &desc, &product));
        CHECK_RANK(self, !product);
    }
out:;
}

/* Memory and collectives of the domain's group, and what the world refuses. */
static void use_memory(struct rank *self, symm_context *ctx, int other)
{
    symm_group *world = symm_context_world(ctx), *domain = symm_context_domain(ctx);
    symm_view view;
    void *x = NULL;

    RANK_TRY(self, symm_alloc(domain, 4096, &x));
    RANK_TRY(self, exercise_all_reduce(self, ctx, domain, SYMM_ALGO_AUTO, SYMM_FLOAT32, 1000, 1));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "symm_context_domain()",
                     symm_alloc(world, 4096, &(void *){NULL}));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "SYMM_NCCL_LIBRARY", symm_barrier(world, NULL));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "domains", symm_group_view(world, &view));
    for (int i = 0; i < 2; i++) {
        const int to = i ? other : self->rank;
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "domains", symm_put(world, x, x, 4, to, NULL));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "domains", symm_get(world, x, x, 4, to, NULL));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "domains",
                         symm_signal(world, NULL, 0, to, 1, NULL));
        RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "domains",
                         symm_wait(world, NULL, 0, to, 1, NULL));
    }
    refuse_products(self, world);
    CHECK_RANK(self, symm_peer(world, x, self->rank) == x);
    CHECK_RANK(self, !symm_peer(world, x, other));
    CHECK_RANK(self, symm_multicast_off(world) != NULL && !symm_multicast(world, x));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_group_destroy(world));
    RANK_EXPECT(self, SYMM_ERROR_ARGUMENT, symm_group_destroy(domain));
out:
    symm_free(domain, x);
}

/* One rank, then a whole domain names the last two ranks in another order than the others do. */
static void name_other_orders(struct rank *self, const struct hosts *hosts, symm_group *world)
{
    const int n = self->nranks;
    symm_group *group = NULL;
    int ranks[RANKS_MAX];

    for (int whole = 0; whole < 2; whole++) {
        const bool other =
            whole ? hosts_of(hosts, self->rank) == hosts->n - 1 : self->rank == n - 1;
        for (int r = 0; r < n; r++)
            ranks[r] = r;
        ranks[n - 2] = other ? n - 1 : n - 2;
        ranks[n - 1] = other ? n - 2 : n - 1;
        RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "ranks called different things",
                         symm_group_create(world, n, ranks, &group));
    }
out:
    symm_group_destroy(group);
}

/* The ranks of the same number in their domains; each domain's ranks in reverse. */
static void make_groups(struct rank *self, const struct hosts *hosts, symm_group *world)
{
    symm_group *rail = NULL, *domain = NULL, *all = NULL;
    int ranks[RANKS_MAX], n = 0, number = 0, mine = hosts_of(hosts, self->rank);

    for (int r = 0; r < self->rank; r++)
        number += hosts_of(hosts, r) == mine;
    for (int d = 0; d < hosts->n; d++) {
        int seen = 0;
        for (int r = 0; r < self->nranks; r++)
            if (hosts_of(hosts, r) == d && seen++ == number)
                ranks[n++] = r;
    }
    RANK_TRY(self, symm_group_create(world, n, ranks, &rail));
    CHECK_RANK(self, symm_group_ndomains(rail) == (uint32_t)n);
    exchange(self, rail, 50, 3);
    n = 0;
    for (int r = self->nranks - 1; r >= 0; r--)
        if (hosts_of(hosts, r) == mine)
            ranks[n++] = r;
    RANK_TRY(self, symm_group_create(world, n, ranks, &domain));
    CHECK_RANK(self, symm_group_ndomains(domain) == 1 && symm_nranks(domain) == n);
    exchange(self, domain, 60, 3);
    RANK_TRY(self, symm_barrier(domain, NULL));
    RANK_TRY(self, symm_synchronize(domain, NULL));
    for (int r = 0; r < self->nranks; r++)
        ranks[r] = self->nranks - 1 - r;
    RANK_TRY(self, symm_group_create(world, self->nranks, ranks, &all));
    exchange(self, all, 70, 2);
    RANK_TRY(self, symm_synchronize(rail, NULL));
out:
    symm_group_destroy(all);
    symm_group_destroy(rail);
    symm_group_destroy(domain);
}

static void live_once(struct rank *self, const struct hosts *hosts)
{
    symm_context *ctx = NULL, *last;
    symm_group *world;
    int other = 0;

    RANK_TRY(self, hosts_join(self, hosts, &ctx));
    world = symm_context_world(ctx);
    while (hosts_of(hosts, other) == hosts_of(hosts, self->rank))
        other++;
    look_around(self, hosts, ctx);
    exchange(self, world, 0, 1);
    exchange(self, world, 1, 40000 / self->nranks); /* pieces */
    RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
    use_memory(self, ctx, other);
    name_other_orders(self, hosts, world);
    make_groups(self, hosts, world);
    RANK_TRY(self, symm_synchronize(world, NULL));
    RANK_TRY(self, symm_check(world));
    last = ctx;
    ctx = NULL;
    RANK_TRY(self, symm_context_destroy(last));
out:
    symm_context_destroy(ctx);
}

/* Twice, at one address. */
static void live(struct rank *self, void *arg)
{
    for (int i = 0; i < 2 && !self->report->failed[0]; i++)
        live_once(self, arg);
}

TEST_LOOP(domains, every_shape_meets_votes_and_makes_groups, 0, SHAPES)
{
    struct hosts hosts = shapes[_i];

    hosts_address(&hosts);
    setenv("SYMM_EMULATED_DEVICES", "128", 1);
    ranks_run_ok(hosts_nranks(&hosts), RANKS_AS_PROCESSES, live, &hosts, 50);
}

/* The same program on one host. */
static void live_alone(struct rank *self, void *arg)
{
    const struct hosts *hosts = arg;
    symm_context *ctx = NULL, *last;

    RANK_TRY(self, hosts_join(self, hosts, &ctx));
    CHECK_RANK(self, symm_context_domain(ctx) == symm_context_world(ctx));
    CHECK_RANK(self, symm_group_ndomains(symm_context_world(ctx)) == 1);
    exchange(self, symm_context_world(ctx), 0, 10);
    RANK_TRY(self, exercise_all_reduce(self, ctx, symm_context_world(ctx), SYMM_ALGO_AUTO,
                                       SYMM_FLOAT32, 1000, 1));
    last = ctx;
    ctx = NULL;
    RANK_TRY(self, symm_context_destroy(last));
out:
    symm_context_destroy(ctx);
}

TEST_LOOP(domains, one_host_is_an_ordinary_world, 1, 4)
{
    struct hosts hosts = {.n = 1, .sizes = {_i}};

    hosts_address(&hosts);
    ranks_run_ok(_i, RANKS_AS_PROCESSES, live_alone, &hosts, 50);
}

/* ---- A forked child ---- */

/* A child of rank 0 holds the sockets of the first life. */
static void live_beside_a_child(struct rank *self, void *arg)
{
    symm_context *ctx = NULL, *last;
    pid_t child = 0;

    for (int life = 0; life < 2; life++) {
        RANK_TRY(self, hosts_join(self, arg, &ctx));
        if (self->rank == 0 && !child)
            child = fork();
        if (self->rank == 0 && !child) {
            sleep(15);
            _exit(0);
        }
        exchange(self, symm_context_world(ctx), life, 10);
        last = ctx;
        ctx = NULL;
        RANK_TRY(self, symm_context_destroy(last));
    }
out:
    symm_context_destroy(ctx);
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
}

TEST(domains, a_child_of_rank_0_does_not_keep_the_address)
{
    struct hosts hosts = {2, {1, 1}, false, ""};

    hosts_address(&hosts);
    setenv("SYMM_TIMEOUT_MS", "5000", 1);
    ranks_run_ok(2, RANKS_AS_PROCESSES, live_beside_a_child, &hosts, 50);
}

/* ---- A host whose devices are not all peers ---- */

static void live_apart(struct rank *self, void *arg)
{
    const symm_config config = rank_config(self);
    symm_context *ctx = NULL;

    (void)arg;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "with symm_config.span, a SYMM_HOSTID for each",
                     symm_context_create(&config, &ctx));
out:
    symm_context_destroy(ctx);
}

TEST(domains, devices_that_are_no_peers_need_domains)
{
    struct hosts hosts = {2, {2, 2}, false, ""};

    setenv("SYMM_EMULATED_DEVICES", "4", 1);
    setenv("SYMM_EMULATED_ISLAND", "2", 1);
    ranks_run_ok(4, RANKS_AS_PROCESSES, live_apart, NULL, 50);
    hosts_address(&hosts);
    ranks_run_ok(4, RANKS_AS_PROCESSES, live, &hosts, 50);
}

/* ---- Rank 0 is slow after the ranks have met ---- */

/* Longer than a connection may last without the proof of the token. */
enum { PAUSE_S = 7 };

/* In place of a slow device: the warning of an unknown setting comes before it is opened. */
static void pause_at_warning(void *user, int level, const char *line)
{
    (void)user;
    (void)level;
    if (strstr(line, "SYMM_NO_SUCH_SETTING"))
        sleep(PAUSE_S);
}

static void start_slowly(struct rank *self, void *arg)
{
    symm_config config = hosts_config(self, arg);
    symm_context *ctx = NULL, *last;

    if (self->rank == 0)
        config.log = pause_at_warning;
    RANK_TRY(self, symm_context_create(&config, &ctx));
    exchange(self, symm_context_world(ctx), 0, 10);
    last = ctx;
    ctx = NULL;
    RANK_TRY(self, symm_context_destroy(last));
out:
    symm_context_destroy(ctx);
}

TEST(domains, the_other_hosts_wait_for_the_device_of_rank_0)
{
    struct hosts hosts = {2, {2, 2}, false, ""};

    hosts_address(&hosts);
    setenv("SYMM_NO_SUCH_SETTING", "1", 1);
    ranks_run_ok(4, RANKS_AS_PROCESSES, start_slowly, &hosts, 50);
}

/* ---- Many domains ---- */

enum { FEWEST = 16, MOST = 64, VOTES = 100 };

static int count_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* KiB of this process that are in memory. */
static long resident(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[200];
    long kib = 0;

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib;
}

static void vote_often(struct rank *self, void *arg)
{
    const struct hosts *hosts = arg;
    const int before = count_descriptors();
    const long kib = resident();
    symm_context *ctx = NULL, *last;

    RANK_TRY(self, hosts_join(self, hosts, &ctx));
    exchange(self, symm_context_world(ctx), 0, 4);
    const int64_t start = now_us();
    for (int i = 0; i < VOTES; i++)
        RANK_TRY(self, symm_exchange(symm_context_world(ctx), NULL, 0, NULL));
    self->report->value[0] = (now_us() - start) / VOTES;
    self->report->value[1] = count_descriptors() - before;
    self->report->value[2] = resident() - kib;
    RANK_TRY(self, symm_synchronize(symm_context_world(ctx), NULL));
    last = ctx;
    ctx = NULL;
    RANK_TRY(self, symm_context_destroy(last));
out:
    symm_context_destroy(ctx);
}

/* Each rank is a domain: one hub each, and one root for all. */
static void many_hubs(int n)
{
    static struct rank_report reports[RANKS_MAX];
    struct hosts hosts = {.n = n};

    for (int h = 0; h < n; h++)
        hosts.sizes[h] = 1;
    setenv("SYMM_EMULATED_DEVICES", "64", 1);
    hosts_address(&hosts);
    ranks_run(n, RANKS_AS_PROCESSES, vote_often, &hosts, reports, 50);
    ranks_assert_ok(reports, n);
    printf(
        "# %d domains: a vote takes %lld us; descriptors: %lld in rank 0, %lld in others; memory: "
        "%lld KiB more in rank 0, %lld in others\n",
        n, (long long)reports[0].value[0], (long long)reports[0].value[1],
        (long long)reports[1].value[1], (long long)reports[0].value[2],
        (long long)reports[1].value[2]);
    ck_assert_int_lt(reports[0].value[1] - reports[1].value[1], n + 16);
    ck_assert_int_lt(reports[1].value[1], 32);
}

TEST(domains, many_hubs_vote_through_one_root)
{
    for (int n = FEWEST; n <= MOST; n *= 2)
        many_hubs(n);
}
