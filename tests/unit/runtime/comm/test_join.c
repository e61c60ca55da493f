/* Rank, world and session out of every launcher's variables: complete, in part, and nonsense. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "runtime/comm/join.h"
#include "test.h"

#define TOKEN "00112233445566778899aabbccddeeff"

struct launch {
    const char *launcher;
    int rank, nranks, local_rank;
    const char *variables[10][2]; /* the first nneeded of them are needed */
    int nneeded;
};

static const struct launch launches[] = {
    {"symm-run",
     1,
     4,
     1,
     {{"SYMM_RANK", "1"}, {"SYMM_NRANKS", "4"}, {"SYMM_SESSION", "abc"}, {"SYMM_TOKEN", TOKEN}},
     3},
    {"torchrun",
     2,
     8,
     2,
     {{"RANK", "2"},
      {"WORLD_SIZE", "8"},
      {"LOCAL_RANK", "2"},
      {"LOCAL_WORLD_SIZE", "8"},
      {"MASTER_ADDR", "localhost"},
      {"MASTER_PORT", "29500"},
      {"TORCHELASTIC_RUN_ID", "none"},
      {"TORCHELASTIC_RESTART_COUNT", "0"}},
     6},
    {"Open MPI",
     3,
     4,
     3,
     {{"OMPI_COMM_WORLD_RANK", "3"},
      {"OMPI_COMM_WORLD_SIZE", "4"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
      {"PMIX_NAMESPACE", "prterun-1"}},
     5},
    {"Slurm",
     1,
     2,
     1,
     {{"SLURM_STEP_ID", "0"},
      {"SLURM_PROCID", "1"},
      {"SLURM_NTASKS", "2"},
      {"SLURM_LOCALID", "1"},
      {"SLURM_JOB_ID", "77"},
      {"SLURM_NNODES", "1"}},
     5},
};
enum { LAUNCHES = 4 };

static void forget_all(void)
{
    for (int l = 0; l < LAUNCHES; l++)
        for (int i = 0; launches[l].variables[i][0]; i++)
            unsetenv(launches[l].variables[i][0]);
    unsetenv("PMI_RANK");
    unsetenv("PMI_SIZE");
    unsetenv("PMIX_RANK");
}

static void launch(const struct launch *l)
{
    forget_all();
    for (int i = 0; l->variables[i][0]; i++)
        setenv(l->variables[i][0], l->variables[i][1], 1);
}

static struct symm_join resolve(const symm_config *config)
{
    struct symm_join join;
    symm_status st = symm__join_resolve(config, NULL, &join);

    ck_assert_msg(st == SYMM_OK, "%s", symm__failure_text());
    return join;
}

static struct symm_join resolve_env(void)
{
    return resolve(&(symm_config){0});
}

static void refuse(const symm_config *config, symm_status want, const char *text)
{
    struct symm_join join = {.rank = 12345};

    ck_assert_int_eq(symm__join_resolve(config, NULL, &join), want);
    ck_assert_msg(strstr(symm__failure_text(), text), "no \"%s\" in: %s", text,
                  symm__failure_text());
    ck_assert_int_eq(join.rank, 12345);
}

TEST_GROUP(launchers, 10);

TEST_LOOP(launchers, each_launcher_is_understood, 0, LAUNCHES)
{
    const struct launch *l = &launches[_i];

    launch(l);
    struct symm_join join = resolve_env();
    ck_assert_str_eq(join.launcher, l->launcher);
    ck_assert_int_eq(join.rank, l->rank);
    ck_assert_int_eq(join.nranks, l->nranks);
    ck_assert_int_eq(join.local_rank, l->local_rank);
    ck_assert_uint_eq(strlen(join.session), 32);
    ck_assert(join.has_token == !strcmp(l->launcher, "symm-run"));
}

TEST_LOOP(launchers, a_missing_variable_is_named, 0, LAUNCHES)
{
    const struct launch *l = &launches[_i];

    for (int i = 0; i < l->nneeded; i++) {
        launch(l);
        unsetenv(l->variables[i][0]);
        refuse(&(symm_config){0}, SYMM_ERROR_ARGUMENT, l->variables[i][0]);
    }
}

TEST_LOOP(launchers, nonsense_is_named_with_its_value, 0, LAUNCHES)
{
    static const char *const bad[] = {"x", "-1", "1x", "99999999999999999999", "4000000000"};
    const struct launch *l = &launches[_i];

    for (int i = 0; i < l->nneeded; i++)
        for (int b = 0; b < 5; b++) {
            char want[96];
            const char *name = l->variables[i][0];
            if (l->variables[i][1][0] < '0' || l->variables[i][1][0] > '9' ||
                !strcmp(name, "MASTER_PORT") || !strcmp(name, "SLURM_STEP_ID") ||
                !strcmp(name, "SLURM_JOB_ID"))
                continue; /* a text that only names the job */
            launch(l);
            setenv(name, bad[b], 1);
            snprintf(want, sizeof want, "%s=%s", name, bad[b]);
            refuse(&(symm_config){0}, SYMM_ERROR_ARGUMENT, want);
        }
}

TEST(launchers, several_hosts_are_unsupported)
{
    launch(&launches[1]);
    setenv("LOCAL_WORLD_SIZE", "4", 1);
    refuse(&(symm_config){0}, SYMM_ERROR_UNSUPPORTED, "WORLD_SIZE=8, LOCAL_WORLD_SIZE=4");
    launch(&launches[2]);
    setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    refuse(&(symm_config){0}, SYMM_ERROR_UNSUPPORTED, "more than one host");
    launch(&launches[3]);
    setenv("SLURM_NNODES", "2", 1);
    refuse(&(symm_config){0}, SYMM_ERROR_UNSUPPORTED, "SLURM_NNODES=2");
    setenv("SLURM_STEP_NUM_NODES", "1", 1); /* the step's count is the one that matters */
    ck_assert_str_eq(resolve_env().launcher, "Slurm");
}

/* What launchers set that are not understood; the first of them is named. */
static const struct {
    const char *variables[4][2];
    bool fits_slurm; /* rank 1 of 2 */
} foreigners[] = {
    {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, true},
    {{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, false},
    {{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}}, false},
    {{{"PMI_SIZE", "4"}}, false},
    {{{"PMIX_RANK", "1"}}, true},
    {{{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "prterun-1"}}, false},
    {{{"PMIX_NAMESPACE", "prterun-1"}}, false},
};
enum { FOREIGNERS = sizeof foreigners / sizeof foreigners[0] };

TEST_LOOP(launchers, launchers_that_are_not_understood_are_refused, 0, FOREIGNERS)
{
    const char *name = foreigners[_i].variables[0][0];

    for (int l = -1; l < LAUNCHES; l++) {
        forget_all();
        if (l >= 0)
            launch(&launches[l]);
        for (int i = 0; foreigners[_i].variables[i][0]; i++)
            setenv(foreigners[_i].variables[i][0], foreigners[_i].variables[i][1], 1);
        if (l < 0 || (!strcmp(launches[l].launcher, "Slurm") && !foreigners[_i].fits_slurm)) {
            refuse(&(symm_config){0}, SYMM_ERROR_ARGUMENT, name);
            ck_assert_ptr_nonnull(strstr(symm__failure_text(), "set SYMM_RANK, SYMM_NRANKS and"));
        } else {
            ck_assert_str_eq(resolve_env().launcher, launches[l].launcher);
        }
        ck_assert_str_eq(resolve(&(symm_config){.nranks = 2, .session = "s"}).launcher,
                         "configuration");
    }
}

TEST(launchers, one_process_of_another_launcher_is_alone)
{
    forget_all();
    setenv("PMI_RANK", "0", 1);
    setenv("PMI_SIZE", "1", 1);
    ck_assert_str_eq(resolve_env().launcher, "alone");
    forget_all();
    launch(&launches[3]); /* srun -n 1 with PMIx */
    setenv("SLURM_NTASKS", "1", 1);
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_LOCALID", "0", 1);
    setenv("PMIX_RANK", "0", 1);
    ck_assert_str_eq(resolve_env().launcher, "Slurm");
}

TEST(launchers, half_of_slurm_is_refused_and_a_batch_shell_is_not)
{
    launch(&launches[3]);
    unsetenv("SLURM_STEP_ID");
    refuse(&(symm_config){0}, SYMM_ERROR_ARGUMENT, "SLURM_PROCID=1 is set, but SLURM_STEP_ID is");
    setenv("SLURM_PROCID", "0", 1);
    ck_assert_str_eq(resolve_env().launcher, "alone");
}

TEST(launchers, too_many_ranks)
{
    launch(&launches[0]);
    setenv("SYMM_NRANKS", "73", 1);
    refuse(&(symm_config){0}, SYMM_ERROR_ARGUMENT, "72 ranks at most");
    refuse(&(symm_config){.nranks = 73, .session = "s"}, SYMM_ERROR_ARGUMENT, "nranks is 73");
}

TEST(launchers, rank_beyond_the_world)
{
    launch(&launches[0]);
    setenv("SYMM_RANK", "4", 1);
    refuse(&(symm_config){0}, SYMM_ERROR_ARGUMENT, "SYMM_RANK=4 is not within 0 to 3");
}

TEST(launchers, alone)
{
    forget_all();
    struct symm_join join = resolve_env();
    ck_assert_str_eq(join.launcher, "alone");
    ck_assert(join.rank == 0 && join.nranks == 1 && join.local_rank == 0);
}

TEST_GROUP(configuration, 10);

TEST(configuration, the_configuration_comes_first)
{
    launch(&launches[0]);
    struct symm_join join = resolve(&(symm_config){.rank = 5, .nranks = 6, .session = "mine"});
    ck_assert_str_eq(join.launcher, "configuration");
    ck_assert(join.rank == 5 && join.nranks == 6);
    /* and its session also counts with a launcher's ranks */
    setenv("SYMM_RANK", "0", 1);
    struct symm_join other = resolve(&(symm_config){.session = "mine"});
    ck_assert_str_eq(other.launcher, "symm-run");
    ck_assert_str_eq(other.session, join.session);
}

TEST(configuration, a_bad_configuration_is_named)
{
    forget_all();
    refuse(&(symm_config){.rank = 4, .nranks = 4, .session = "s"}, SYMM_ERROR_ARGUMENT,
           "rank is 4, which is not within 0 to 3");
    refuse(&(symm_config){.rank = -1, .nranks = 4, .session = "s"}, SYMM_ERROR_ARGUMENT,
           "rank is -1");
    refuse(&(symm_config){.nranks = -1}, SYMM_ERROR_ARGUMENT, "nranks is -1");
    refuse(&(symm_config){.rank = 3}, SYMM_ERROR_ARGUMENT, "rank is 3 and nranks is 0");
    refuse(&(symm_config){.nranks = 2}, SYMM_ERROR_ARGUMENT, "session is not given");
    setenv("SYMM_TOKEN", "abc", 1);
    refuse(&(symm_config){.nranks = 2, .session = "s"}, SYMM_ERROR_ARGUMENT, "SYMM_TOKEN");
    setenv("SYMM_TOKEN", "0011223344556677889900aabbccddxx", 1);
    refuse(&(symm_config){.nranks = 2, .session = "s"}, SYMM_ERROR_ARGUMENT, "SYMM_TOKEN");
}

TEST(configuration, the_token_is_read)
{
    launch(&launches[0]);
    struct symm_join join = resolve_env();
    ck_assert(join.has_token);
    for (int i = 0; i < 16; i++)
        ck_assert_uint_eq(join.token[i], 0x11u * (unsigned)i);
}

TEST(configuration, sessions_differ_as_jobs_do)
{
    char session[4][65];

    for (int i = 0; i < 4; i++) {
        launch(&launches[1]);
        if (i == 1)
            setenv("MASTER_PORT", "29501", 1);
        if (i == 2)
            setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
        if (i == 3)
            setenv("SYMM_SESSION", "given", 1);
        strcpy(session[i], resolve_env().session);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(session[i], session[j]);
    }
    /* All ranks of a job have the same one, whatever they believe of its size: it must come out. */
    launch(&launches[1]);
    setenv("RANK", "7", 1);
    setenv("WORLD_SIZE", "9", 1);
    setenv("LOCAL_WORLD_SIZE", "9", 1);
    ck_assert_str_eq(resolve_env().session, session[0]);
}

TEST(configuration, generations_count_contexts_that_joined)
{
    const symm_config config = {.rank = 1, .nranks = 2, .session = "generations"};
    forget_all();
    struct symm_join first = resolve(&config), again = resolve(&config);

    ck_assert_str_eq(first.session, again.session); /* a failed attempt does not count */
    symm__join_done(&first);
    struct symm_join second = resolve(&config);
    ck_assert_str_ne(second.session, first.session);
    symm__join_done(&second);
    ck_assert_str_ne(resolve(&config).session, second.session);
    /* Another rank of this process counts for itself. */
    const symm_config other = {.rank = 0, .nranks = 2, .session = "generations"};
    ck_assert_str_eq(resolve(&other).session, first.session);
}

/* ---- A bootstrap of the caller ---- */

struct gather {
    pthread_barrier_t barrier;
    char slots[4][256];
    int fails, swaps;
};

struct gatherer {
    struct gather *shared;
    int rank, nranks;
    struct symm_join join;
    symm_status status;
    char text[SYMM_TEXT_MAX];
};

static int all_gather(void *user, const void *mine, void *all, size_t nbytes)
{
    struct gatherer *g = user;

    memcpy(g->shared->slots[g->rank], mine, nbytes);
    pthread_barrier_wait(&g->shared->barrier);
    for (int r = 0; r < 4; r++)
        memcpy((char *)all + (size_t)r * nbytes, g->shared->slots[g->shared->swaps ? 3 - r : r],
               nbytes);
    return g->shared->fails ? 7 : 0;
}

static void *gather_one(void *arg)
{
    struct gatherer *g = arg;
    const symm_config config = {
        .rank = g->rank, .nranks = g->nranks, .all_gather = all_gather, .user = g};

    g->status = symm__join_resolve(&config, NULL, &g->join);
    strcpy(g->text, symm__failure_text());
    return NULL;
}

static void gather_all(struct gather *shared, struct gatherer ranks[4], int odd_nranks)
{
    pthread_t threads[4];

    forget_all();
    pthread_barrier_init(&shared->barrier, NULL, 4);
    for (int r = 0; r < 4; r++) {
        ranks[r] = (struct gatherer){.shared = shared, .rank = r, .nranks = 4};
        if (r == 2 && odd_nranks)
            ranks[r].nranks = odd_nranks;
        pthread_create(&threads[r], NULL, gather_one, &ranks[r]);
    }
    for (int r = 0; r < 4; r++)
        pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&shared->barrier);
}

TEST_GROUP(all_gather, 10);

TEST(all_gather, all_gather_makes_up_a_session)
{
    struct gather shared = {.fails = 0};
    struct gatherer ranks[4], later[4];

    gather_all(&shared, ranks, 0);
    gather_all(&shared, later, 0);
    for (int r = 0; r < 4; r++) {
        ck_assert_msg(ranks[r].status == SYMM_OK, "%s", ranks[r].text);
        ck_assert_str_eq(ranks[r].join.session, ranks[0].join.session);
        ck_assert(ranks[r].join.has_token);
        ck_assert_mem_eq(ranks[r].join.token, ranks[0].join.token, 16);
    }
    ck_assert_str_ne(ranks[0].join.session, later[0].join.session);
    ck_assert_mem_ne(ranks[0].join.token, later[0].join.token, 16);
}

TEST(all_gather, all_gather_that_fails_or_mixes_up_is_named)
{
    struct gather shared = {.fails = 1};
    struct gatherer ranks[4];

    gather_all(&shared, ranks, 0);
    for (int r = 0; r < 4; r++) {
        ck_assert_int_eq(ranks[r].status, SYMM_ERROR_SYSTEM);
        ck_assert_ptr_nonnull(strstr(ranks[r].text, "all_gather returned 7"));
    }
    shared = (struct gather){.swaps = 1};
    gather_all(&shared, ranks, 0);
    for (int r = 0; r < 4; r++)
        ck_assert_int_eq(ranks[r].status, SYMM_ERROR_MISMATCH);
    shared = (struct gather){.swaps = 0};
    gather_all(&shared, ranks, 4 + 1);
    ck_assert_int_eq(ranks[0].status, SYMM_ERROR_MISMATCH);
    ck_assert_ptr_nonnull(strstr(ranks[0].text, "rank 2 of 5"));
}
