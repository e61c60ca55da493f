/*
 * The ways in which ranks of several hosts meet: the program's own all_gather, the variables of
 * each launcher with and without an address, an explicit configuration, and what each way refuses.
 * The hosts are pretended, the sockets are real.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "exercise.h"
#include "folder.h"
#include "hosts.h"
#include "runtime/comm/join.h"
#include "test.h"

#define TOKEN "00112233445566778899aabbccddeeff"
#define OTHER_TOKEN "00112233445566778899aabbccddeefe"
#define NOWHERE "192.0.2.1:4242" /* of no host: RFC 5737 */

enum { HOSTS = 2, SIZE = 2 /* ranks of a host */, RANKS = HOSTS * SIZE, TIMEOUT_MS = 1500 };

/* ---- The environment ---- */

/* The names of its variables. NULL: it has none. */
struct launcher {
    const char *rank, *nranks, *local_rank, *local_nranks;
    const char *job[5][2]; /* the same on all ranks; a value of NULL is a name of this job alone */
};

static const struct launcher
    symm_run = {"SYMM_RANK", "SYMM_NRANKS", NULL, NULL, {{"SYMM_SESSION", NULL}}},
    torchrun = {"RANK",
                "WORLD_SIZE",
                "LOCAL_RANK",
                "LOCAL_WORLD_SIZE",
                {{"MASTER_ADDR", "127.0.0.1"},
                 {"MASTER_PORT", "29500"},
                 {"TORCHELASTIC_RUN_ID", NULL},
                 {"TORCHELASTIC_RESTART_COUNT", "0"}}},
    slurm = {"SLURM_PROCID",
             "SLURM_NTASKS",
             "SLURM_LOCALID",
             NULL,
             {{"SLURM_JOB_ID", NULL}, {"SLURM_STEP_ID", "0"}, {"SLURM_NNODES", "2"}}},
    open_mpi = {"OMPI_COMM_WORLD_RANK",
                "OMPI_COMM_WORLD_SIZE",
                "OMPI_COMM_WORLD_LOCAL_RANK",
                "OMPI_COMM_WORLD_LOCAL_SIZE",
                {{"PMIX_NAMESPACE", NULL}}},
    mpich = {"PMI_RANK", "PMI_SIZE", NULL, NULL, {{NULL}}};

static const struct launcher *const launchers[] = {&symm_run, &torchrun, &slurm, &open_mpi, &mpich};
enum { LAUNCHERS = sizeof launchers / sizeof launchers[0] };

static void forget(const char *name)
{
    if (name)
        unsetenv(name);
}

/* Forgets the variables of all launchers, also those that the harness has set. */
static void forget_all(void)
{
    for (int i = 0; i < LAUNCHERS; i++) {
        const struct launcher *l = launchers[i];
        forget(l->rank);
        forget(l->nranks);
        forget(l->local_rank);
        forget(l->local_nranks);
        for (int v = 0; l->job[v][0]; v++)
            forget(l->job[v][0]);
    }
    forget("SLURM_STEP_NUM_NODES");
    forget("PMIX_RANK");
    forget("SYMM_TOKEN");
    forget("SYMM_ADDRESS");
}

static void set_number(const char *name, int value)
{
    char text[16];

    snprintf(text, sizeof text, "%d", value);
    if (name)
        setenv(name, text, 1);
}

static void set_launcher(const struct launcher *l, int rank, int local_nranks, const char *job)
{
    forget_all();
    set_number(l->rank, rank);
    set_number(l->nranks, RANKS);
    set_number(l->local_rank, rank % SIZE);
    set_number(l->local_nranks, local_nranks);
    for (int v = 0; l->job[v][0]; v++)
        setenv(l->job[v][0], l->job[v][1] ? l->job[v][1] : job, 1);
}

static void set_host(int host)
{
    char text[32];

    snprintf(text, sizeof text, "host %d", host);
    setenv("SYMM_HOSTID", text, 1);
}

/* ---- A rank ---- */

/* Joins, looks at the domains, exchanges once, leaves. */
static void live(struct rank *self, const symm_config *config, int nhosts)
{
    const int size = RANKS / nhosts;
    symm_context *ctx = NULL, *last;
    int all[RANKS] = {0};

    RANK_TRY(self, symm_context_create(config, &ctx));
    symm_group *world = symm_context_world(ctx), *domain = symm_context_domain(ctx);
    CHECK_RANK(self, symm_rank(world) == self->rank && symm_nranks(world) == RANKS);
    CHECK_RANK(self, symm_group_ndomains(world) == (uint32_t)nhosts);
    CHECK_RANK(self, symm_nranks(domain) == size && symm_rank(domain) == self->rank % size);
    for (int r = 0; r < RANKS; r++)
        CHECK_RANK(self, symm_group_domain_of(world, r) == (uint32_t)(r / size));
    RANK_TRY(self, symm_exchange(world, &self->rank, sizeof self->rank, all));
    for (int r = 0; r < RANKS; r++)
        CHECK_RANK(self, all[r] == r);
    last = ctx;
    ctx = NULL;
    RANK_TRY(self, symm_context_destroy(last));
out:
    symm_context_destroy(ctx);
}

/* Fails to join, as it must, in time. */
static void be_refused(struct rank *self, const symm_config *config, symm_status want,
                       const char *text)
{
    const int64_t begun = now_ms();
    symm_context *ctx = NULL;

    RANK_EXPECT_TEXT(self, want, text, symm_context_create(config, &ctx));
    CHECK_RANK(self, !ctx);
    CHECK_RANK_MSG(self, now_ms() - begun < TIMEOUT_MS + 3000, "it took %lld ms",
                   (long long)(now_ms() - begun));
out:
    symm_context_destroy(ctx);
}

/* ---- The program's own all_gather ---- */

struct table {
    pthread_barrier_t barrier;
    char rows[RANKS][4096];
};

struct gatherer {
    struct table *table;
    int rank;
};

static int all_gather(void *user, const void *mine, void *all, size_t nbytes)
{
    struct gatherer *g = user;

    if (nbytes > sizeof g->table->rows[0])
        return 1;
    memcpy(g->table->rows[g->rank], mine, nbytes);
    pthread_barrier_wait(&g->table->barrier);
    for (size_t r = 0; r < RANKS; r++)
        memcpy((char *)all + r * nbytes, g->table->rows[r], nbytes);
    pthread_barrier_wait(&g->table->barrier);
    return 0;
}

struct gathering {
    const char *address, *variable; /* config.address and SYMM_ADDRESS */
    int nhosts;
    uint32_t span;
    symm_status status;
    const char *first, *others; /* in the texts of rank 0 and of the other ranks */
    struct table *table;
};

static const struct gathering gatherings[] = {
    {.nhosts = HOSTS, .span = 1},
    {.nhosts = HOSTS, .span = 1, .address = "127.0.0.1:0"},
    {.nhosts = HOSTS, .span = 1, .variable = "127.0.0.1:0"},
    {.nhosts = HOSTS, .span = 1, .address = "127.0.0.1:0", .variable = NOWHERE},
    {.nhosts = 1, .span = 1},
    {.nhosts = 1, .span = 0},
    {.nhosts = HOSTS,
     .span = 1,
     .address = NOWHERE,
     .status = SYMM_ERROR_SYSTEM,
     .first = NOWHERE " is not an address of this host",
     .others = "rank 0 cannot listen for ranks of other hosts"},
    {.nhosts = HOSTS,
     .span = 0,
     .status = SYMM_ERROR_UNSUPPORTED,
     .first = "rank 2 is on another host than rank 0, and symm_config.span is 0",
     .others = "rank 2 is on another host than rank 0, and symm_config.span is 0"},
};
enum { GATHERINGS = sizeof gatherings / sizeof gatherings[0] };

static void gather(struct rank *self, void *arg)
{
    const struct gathering *g = arg;
    struct gatherer user = {g->table, self->rank};
    symm_config config = rank_config(self);

    forget_all();
    set_host(self->rank * g->nhosts / RANKS);
    if (g->variable)
        setenv("SYMM_ADDRESS", g->variable, 1);
    config.session = NULL;
    config.address = g->address;
    config.span = g->span;
    config.all_gather = all_gather;
    config.user = &user;
    if (g->status != SYMM_OK)
        be_refused(self, &config, g->status, self->rank ? g->others : g->first);
    else
        live(self, &config, g->nhosts);
}

TEST_GROUP(ways, 60);

TEST_LOOP(ways, ranks_meet_by_an_all_gather_of_the_program, 0, GATHERINGS)
{
    struct gathering g = gatherings[_i];
    pthread_barrierattr_t shared;

    g.table =
        mmap(NULL, sizeof *g.table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(g.table != MAP_FAILED);
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&g.table->barrier, &shared, RANKS);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, gather, &g, 50);
    munmap(g.table, sizeof *g.table);
}

/* ---- Variables ---- */

enum where { NO_ADDRESS, IN_VARIABLE, IN_CONFIG };

struct way {
    const struct launcher *launcher; /* NULL: explicit rank, nranks and session */
    enum where where;                /* rank 0's address */
    const char *token, *last_token;  /* of all ranks but the last one, and of that one */
    bool one_domain;                 /* no config.span */
    symm_status status;
    const char *text, *last_text; /* last_text: of the last rank, if it differs */
    char job[32];
    struct hosts hosts;
};

#define NO_PLACE "set SYMM_ADDRESS or symm_config.address to HOST:PORT of rank 0's host"

static const struct way ways[] = {
    {.launcher = &symm_run, .where = IN_VARIABLE, .token = TOKEN, .last_token = TOKEN},
    {.launcher = &symm_run, .where = IN_VARIABLE},
    {.launcher = &symm_run, .where = IN_CONFIG, .token = TOKEN, .last_token = TOKEN},
    {.launcher = &torchrun},
    {.launcher = &torchrun, .where = IN_VARIABLE, .token = TOKEN, .last_token = TOKEN},
    {.launcher = &slurm, .where = IN_VARIABLE},
    {.launcher = &open_mpi, .where = IN_VARIABLE},
    {.where = IN_VARIABLE},
    {.where = IN_CONFIG, .token = TOKEN, .last_token = TOKEN},

    {.launcher = &symm_run,
     .where = IN_VARIABLE,
     .token = TOKEN,
     .last_token = OTHER_TOKEN,
     .status = SYMM_ERROR_TIMEOUT,
     .text = "rank 3 of 4 did not come to 127.0.0.1:",
     .last_text = "nobody with this token listens at 127.0.0.1:"},
    {.launcher = &symm_run,
     .where = IN_VARIABLE,
     .token = TOKEN,
     .status = SYMM_ERROR_TIMEOUT,
     .text = "has not proved that it knows the token",
     .last_text = "(SYMM_ADDRESS)"},
    {.launcher = &slurm, .status = SYMM_ERROR_ARGUMENT, .text = NO_PLACE},
    {.launcher = &open_mpi, .status = SYMM_ERROR_ARGUMENT, .text = NO_PLACE},
    {.status = SYMM_ERROR_ARGUMENT, .text = NO_PLACE},
    {.launcher = &torchrun,
     .one_domain = true,
     .status = SYMM_ERROR_UNSUPPORTED,
     .text = "WORLD_SIZE=4, LOCAL_WORLD_SIZE=2"},
    {.launcher = &slurm,
     .one_domain = true,
     .status = SYMM_ERROR_UNSUPPORTED,
     .text = "SLURM_NNODES=2"},
    {.launcher = &open_mpi,
     .one_domain = true,
     .status = SYMM_ERROR_UNSUPPORTED,
     .text = "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
    {.launcher = &mpich,
     .where = IN_VARIABLE,
     .status = SYMM_ERROR_ARGUMENT,
     .text = "as by MPICH or Intel MPI, which symm does not support: set SYMM_RANK"},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static void go(struct rank *self, void *arg)
{
    const struct way *way = arg;
    const bool last = self->rank == RANKS - 1;
    const char *token = last ? way->last_token : way->token;
    symm_config config = {.span = !way->one_domain};

    forget_all();
    if (way->launcher)
        set_launcher(way->launcher, self->rank, SIZE, way->job);
    else
        config = (symm_config){
            .rank = self->rank, .nranks = RANKS, .session = way->job, .span = config.span};
    set_host(self->rank / SIZE);
    if (token)
        setenv("SYMM_TOKEN", token, 1);
    if (way->where == IN_VARIABLE)
        setenv("SYMM_ADDRESS", way->hosts.address, 1);
    if (way->where == IN_CONFIG)
        config.address = way->hosts.address;
    if (way->status != SYMM_OK)
        be_refused(self, &config, way->status, last && way->last_text ? way->last_text : way->text);
    else
        live(self, &config, HOSTS);
}

/* A name that no other job of this host has. */
static void name_job(char job[32])
{
    static int njobs;

    snprintf(job, 32, "ways %d %d", (int)getpid(), njobs++);
}

TEST_LOOP(ways, ranks_meet_by_each_launcher_and_by_hand, 0, WAYS)
{
    struct way way = ways[_i];

    name_job(way.job);
    hosts_address(&way.hosts);
    if (way.status != SYMM_OK)
        set_number("SYMM_TIMEOUT_MS", TIMEOUT_MS);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, go, &way, 50);
}

/* ---- Several contexts, and hosts of which nothing tells ---- */

static void join_again(struct rank *self, void *arg)
{
    const struct hosts *hosts = arg;
    symm_config config = hosts_config(self, hosts), second = config;
    symm_context *first = NULL, *last;

    second.timeout_ms = TIMEOUT_MS / 3; /* rank 0 fails at once, and waits for the others later */
    RANK_TRY(self, symm_context_create(&config, &first));
    be_refused(self, &second, SYMM_ERROR_STATE,
               self->rank ? "another context of rank 0 is still there; an address serves one"
                          : "all ports are in use");
    RANK_TRY(self, symm_exchange(symm_context_world(first), NULL, 0, NULL));
    last = first;
    first = NULL;
    RANK_TRY(self, symm_context_destroy(last));
    live(self, &config, HOSTS);
out:
    symm_context_destroy(first);
}

TEST(ways, an_address_serves_one_context_at_a_time)
{
    struct hosts hosts = {HOSTS, {SIZE, SIZE}, false, ""};

    hosts_address(&hosts);
    set_number("SYMM_TIMEOUT_MS", TIMEOUT_MS);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, join_again, &hosts, 50);
}

/* Ranks of one host that cannot know of the other one, whose ranks do not find them. */
struct half {
    struct way way;
    int host;
};

static void miss_hosts(struct rank *self, void *arg)
{
    struct half *half = arg;

    if (self->rank / SIZE == half->host)
        go(self, &half->way);
}

TEST_LOOP(ways, ranks_without_an_address_are_told_to_set_it, 0, 2)
{
    struct half half = {
        .host = _i,
        .way = {.launcher = &symm_run,
                .status = SYMM_ERROR_TIMEOUT,
                .text = "if ranks are on several hosts, set SYMM_ADDRESS on all of them"}};

    name_job(half.way.job);
    set_number("SYMM_TIMEOUT_MS", TIMEOUT_MS);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, miss_hosts, &half, 50);
}

/* ---- torchrun's ports ---- */

/* The first port at which rank 0 would listen: as places_of_torchrun() has it. */
static int first_port(const char *job)
{
    struct symm_join join;

    set_launcher(&torchrun, 0, RANKS, job);
    ck_assert_int_eq(symm__join_resolve(&(symm_config){0}, NULL, &join), SYMM_OK);
    forget_all();
    return 20000 + (int)(join.id[0] % 12000);
}

/* Another program that listens. Returns its socket; -1: the port is not free. */
static int squat(int port)
{
    const struct sockaddr_in a = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (bind(fd, (const struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 64) == 0)
        return fd;
    close(fd);
    return -1;
}

TEST(ways, a_port_of_torchrun_that_another_program_has_is_passed_over)
{
    struct way way = {.launcher = &torchrun};
    int fd, guest, ncame = 0;

    do {
        name_job(way.job);
        fd = squat(first_port(way.job));
    } while (fd < 0);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, go, &way, 50);
    for (; (guest = accept(fd, NULL, NULL)) >= 0; ncame++)
        close(guest);
    close(fd);
    ck_assert_int_ge(ncame, 1); /* it was a port that they have tried */
}

/* ---- Folders ---- */

TEST_GROUP(folders, 60, IN_A_FOLDER);

/* The last rank meets the others, and then looks for those of its host in another folder. */
static void miss(struct rank *self, void *arg)
{
    const struct hosts *hosts = arg;
    const symm_config config = hosts_config(self, hosts);
    char other[80];

    snprintf(other, sizeof other, "%s/other", folder);
    if (self->rank == RANKS - 1)
        setenv("SYMM_DIR", other, 1);
    be_refused(self, &config, SYMM_ERROR_TIMEOUT,
               self->rank == RANKS - 1 ? "has not come to" : "rank 3 of 4 did not join within ");
}

TEST(folders, a_rank_that_its_host_does_not_find_is_named)
{
    struct hosts hosts = {HOSTS, {SIZE, SIZE}, false, ""};
    char other[80];

    hosts_address(&hosts);
    set_number("SYMM_TIMEOUT_MS", TIMEOUT_MS);
    snprintf(other, sizeof other, "%s/other", folder);
    ck_assert_int_eq(mkdir(other, 0700), 0);
    ranks_run_ok(RANKS, RANKS_AS_PROCESSES, miss, &hosts, 50);
    rmdir(other);
}
