/* Joining: launchers, worlds of every size, repeatedly, side by side, ranks that differ. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "emulated.h"
#include "exercise.h"
#include "test.h"
#include "world.h"

static const char *own_path;

static void forget_launchers(void)
{
    static const char *const names[] = {
        "SYMM_RANK",  "SYMM_NRANKS", "SYMM_SESSION",     "SYMM_TOKEN",   "RANK",
        "WORLD_SIZE", "LOCAL_RANK",  "LOCAL_WORLD_SIZE", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

static void set_number(const char *name, long value)
{
    char text[24];
    snprintf(text, sizeof text, "%ld", value);
    setenv(name, text, 1);
}

/* A number that all ranks of a run and nobody else has. */
static long number_of(const char *session)
{
    unsigned long hash = 5381;
    while (*session)
        hash = hash * 33 + (unsigned char)*session++;
    return (long)(hash % 30000 + 20000);
}

/* Joins with this configuration and sums once. */
static void join_and_sum(struct rank *self, const symm_config *config)
{
    symm_context *ctx = NULL;
    RANK_TRY(self, symm_context_create(config, &ctx));
    CHECK_RANK(self, symm_rank(symm_context_world(ctx)) == self->rank);
    CHECK_RANK(self, symm_nranks(symm_context_world(ctx)) == self->nranks);
    RANK_TRY(self, exercise_all_reduce(self, ctx, symm_context_world(ctx), SYMM_ALGO_TWO_SHOT,
                                       SYMM_FLOAT32, 1000, 1));
    RANK_TRY(self, symm_context_destroy(ctx));
    return;
out:
    symm_context_destroy(ctx);
}

TEST_GROUP(worlds, 120);

TEST_LOOP(worlds, worlds_of_every_size_work_as_processes, 1, 9)
{
    ranks_run_ok(_i, RANKS_AS_PROCESSES, exercise_world, NULL, 60);
}

TEST_LOOP(worlds, worlds_work_as_threads, 0, 4)
{
    static const int sizes[] = {1, 2, 3, 8};
    ranks_run_ok(sizes[_i], RANKS_AS_THREADS, exercise_world, NULL, 60);
}

TEST_GROUP(ways_to_join, 60);

RANKS_TEST(ways_to_join, without_any_launcher_it_is_a_world_of_one, 1)
{
    forget_launchers();
    join_and_sum(self, NULL);
}

RANKS_TEST(worlds, a_context_is_created_again, 3, _i, .loop = {0, 2})
{
    for (uint64_t round = 0; round < 3 && !self->report->failed[0]; round++)
        exercise_world(self, &round);
}

/* The second one shares the kernels that the first one has loaded, and keeps them. */
RANKS_TEST(worlds, a_process_holds_two_contexts_at_once, 3)
{
    symm_context *one = NULL, *two = NULL;
    symm_config config = rank_config(self);
    char session[96];
    RANK_TRY(self, symm_context_create(&config, &one));
    snprintf(session, sizeof session, "%s-two", self->session);
    config.session = session;
    config.rank = self->nranks - 1 - self->rank; /* another order in the other world */
    emulated_set_fault("cuModuleLoadData#1+=700");
    RANK_TRY(self, symm_context_create(&config, &two));
    emulated_set_fault(NULL);
    CHECK_RANK(self, symm_rank(symm_context_world(two)) == self->nranks - 1 - self->rank);
    RANK_TRY(self, exercise_group(self, one, symm_context_world(one), 1));
    RANK_TRY(self, exercise_group(self, two, symm_context_world(two), 2));
    RANK_TRY(self, symm_context_destroy(one));
    one = NULL;
    RANK_TRY(self, exercise_group(self, two, symm_context_world(two), 3));
out:
    symm_context_destroy(two);
    symm_context_destroy(one);
}

RANKS_TEST(ways_to_join, an_explicit_configuration_joins, 4)
{
    const symm_config config = rank_config(self);
    set_number("SYMM_RANK", 77); /* a configuration with nranks asks no variable */
    set_number("RANK", -3);
    join_and_sum(self, &config);
}

/* A bootstrap of the caller's own: shared memory and a barrier. */
struct board {
    pthread_barrier_t barrier;
    char bytes[RANKS_MAX][1024];
    int nranks, fails;
};

struct board_user {
    struct board *board;
    int rank;
};

static int gather_on_board(void *user, const void *mine, void *all, size_t nbytes)
{
    struct board_user *u = user;
    if (u->board->fails || nbytes > sizeof u->board->bytes[0])
        return 1;
    memcpy(u->board->bytes[u->rank], mine, nbytes);
    pthread_barrier_wait(&u->board->barrier);
    for (int r = 0; r < u->board->nranks; r++)
        memcpy((char *)all + (size_t)r * nbytes, u->board->bytes[r], nbytes);
    pthread_barrier_wait(&u->board->barrier);
    return 0;
}

static struct board *make_board(int nranks)
{
    pthread_barrierattr_t attr;
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(board != MAP_FAILED);
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board->barrier, &attr, (unsigned)nranks);
    board->nranks = nranks;
    return board;
}

static void join_by_all_gather(struct rank *self, void *arg)
{
    struct board_user user = {arg, self->rank};
    symm_config config = {
        .rank = self->rank, .nranks = self->nranks, .all_gather = gather_on_board, .user = &user};
    symm_context *ctx = NULL;
    forget_launchers();
    if (!user.board->fails) {
        join_and_sum(self, &config);
        return;
    }
    RANK_EXPECT_TEXT(self, SYMM_ERROR_SYSTEM, "all_gather", symm_context_create(&config, &ctx));
    CHECK_RANK(self, !ctx);
out:;
}

TEST_LOOP(ways_to_join, a_users_all_gather_joins, 0, 2)
{
    struct board *board = make_board(4);
    ranks_run_ok(4, (enum ranks_mode)_i, join_by_all_gather, board, 20);
    munmap(board, sizeof *board);
}

TEST(ways_to_join, an_all_gather_that_fails_is_named)
{
    struct board *board = make_board(2);
    board->fails = 1;
    ranks_run_ok(2, RANKS_AS_PROCESSES, join_by_all_gather, board, 20);
    munmap(board, sizeof *board);
}

RANKS_TEST(ways_to_join, torchruns_variables_join, 3)
{
    forget_launchers();
    set_number("RANK", self->rank);
    set_number("WORLD_SIZE", self->nranks);
    set_number("LOCAL_RANK", self->rank);
    set_number("LOCAL_WORLD_SIZE", self->nranks);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", number_of(self->session));
    setenv("TORCHELASTIC_RUN_ID", "none", 1);
    set_number("TORCHELASTIC_RESTART_COUNT", 0);
    join_and_sum(self, NULL);
}

RANKS_TEST(ways_to_join, open_mpis_variables_join, 3)
{
    forget_launchers();
    set_number("OMPI_COMM_WORLD_RANK", self->rank);
    set_number("OMPI_COMM_WORLD_SIZE", self->nranks);
    set_number("OMPI_COMM_WORLD_LOCAL_RANK", self->rank);
    set_number("OMPI_COMM_WORLD_LOCAL_SIZE", self->nranks);
    setenv("PMIX_NAMESPACE", self->session, 1);
    set_number("OMPI_MCA_ess_base_jobid", number_of(self->session));
    join_and_sum(self, NULL);
}

RANKS_TEST(ways_to_join, slurms_variables_join, 3)
{
    char tasks[16];
    forget_launchers();
    set_number("SLURM_PROCID", self->rank);
    set_number("SLURM_LOCALID", self->rank);
    set_number("SLURM_NTASKS", self->nranks);
    set_number("SLURM_STEP_NUM_TASKS", self->nranks);
    set_number("SLURM_NNODES", 1);
    set_number("SLURM_STEP_NUM_NODES", 1);
    snprintf(tasks, sizeof tasks, "%d", self->nranks);
    setenv("SLURM_STEP_TASKS_PER_NODE", tasks, 1);
    setenv("SLURM_TASKS_PER_NODE", tasks, 1);
    set_number("SLURM_JOB_ID", number_of(self->session));
    set_number("SLURM_STEP_ID", 0);
    join_and_sum(self, NULL);
}

/* What a launcher starts: this executable with --rank. */
static int be_launched(void)
{
    symm_context *ctx = NULL;
    struct rank_report report = {0};
    struct rank self = {.report = &report};
    int wrong = 1;
    if (symm_context_create(NULL, &ctx) == SYMM_OK) {
        self.rank = symm_rank(symm_context_world(ctx));
        self.nranks = symm_nranks(symm_context_world(ctx));
        wrong = exercise_group(&self, ctx, symm_context_world(ctx), 5) != SYMM_OK || report.wrong ||
                self.nranks != 3;
    }
    wrong |= symm_context_destroy(ctx) != SYMM_OK;
    if (wrong)
        fprintf(stderr, "rank %d of %d: %s\n", self.rank, self.nranks, symm_error_text());
    return wrong;
}

static int run_program(const char *const *argv)
{
    fflush(NULL);
    const pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        forget_launchers();
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(ways_to_join, a_real_mpirun_starts_a_world)
{
    if (system("command -v mpirun >/dev/null 2>&1") != 0)
        TEST_SKIP("there is no mpirun");
    const char *const argv[] = {
        "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", own_path, "--rank", NULL};
    setenv("OMPI_MCA_btl", "self,vader", 1);
    ck_assert_int_eq(run_program(argv), 0);
}

TEST(ways_to_join, symm_run_starts_a_world)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/symm-run", test_bin());
    if (access(path, X_OK) != 0)
        TEST_SKIP("there is no %s", path);
    const char *const argv[] = {path, "-n", "3", "--emulated", own_path, "--rank", NULL};
    ck_assert_int_eq(run_program(argv), 0);
}

TEST_GROUP(side_by_side, 120);

RANKS_TEST(side_by_side, a_rank_that_does_not_come_is_named, 3, .arg = &(int){_i ? 0 : 2},
           .loop = {0, 2})
{
    symm_context *ctx = NULL;
    const int64_t start = now_ms();
    const int absent = *(int *)arg;
    if (self->rank == absent)
        return;
    setenv("SYMM_TIMEOUT_MS", "600", 1);
    RANK_EXPECT(self, SYMM_ERROR_TIMEOUT, symm_context_create(NULL, &ctx));
    if (self->rank == (absent ? 0 : 1))
        RANK_TEXT(self, absent ? "2" : "rank 0");
    CHECK_RANK(self, !ctx);
    CHECK_RANK_MSG(self, now_ms() - start < 5000, "%lld ms", (long long)(now_ms() - start));
out:
    symm_context_destroy(ctx);
}

TEST_GROUP(disagreement, 60);

TEST(disagreement, another_version_of_the_header_is_refused)
{
    symm_context *ctx = NULL;
    ck_assert_int_eq(symm_context_create_v(NULL, 990000, &ctx), SYMM_ERROR_VERSION);
    ck_assert_ptr_null(ctx);
    ck_assert_msg(strstr(symm_error_text(), "99"), "%s", symm_error_text());
}

static const struct disagreement {
    int odd_rank; /* -1: all */
    const char *device, *name, *value;
    symm_status want;
    const char *part; /* of every rank's text */
} disagreements[] = {
    {1, "nonsense", NULL, NULL, SYMM_ERROR_ARGUMENT, "nonsense"},
    {0, "99", NULL, NULL, SYMM_ERROR_ARGUMENT, "99"},
    {2, "GPU-00000000-0000-0000-0000-000000000000", NULL, NULL, SYMM_ERROR_ARGUMENT,
     "GPU-00000000"},
    {-1, "3", NULL, NULL, SYMM_ERROR_MISMATCH, "device"},
    {1, NULL, "SYMM_STAGING_BYTES", "1M", SYMM_ERROR_MISMATCH, "SYMM_STAGING_BYTES"},
    {2, NULL, "SYMM_SEGMENT_BYTES", "8M", SYMM_ERROR_MISMATCH, "SYMM_SEGMENT_BYTES"},
    {1, NULL, "SYMM_MATMUL_ENGINE_BYTES", "64K", SYMM_ERROR_MISMATCH, "SYMM_MATMUL_ENGINE_BYTES"},
    {0, NULL, "SYMM_CHECK", "0", SYMM_ERROR_MISMATCH, "SYMM_CHECK"},
    {0, NULL, "SYMM_TIMEOUT_MS", "soon", SYMM_ERROR_ARGUMENT, "SYMM_TIMEOUT_MS=soon"},
    {1, NULL, "SYMM_TIMEOUT_MS", "0", SYMM_ERROR_ARGUMENT, "SYMM_TIMEOUT_MS=0"},
    {2, NULL, "SYMM_SLOW_MS", "0", SYMM_ERROR_ARGUMENT, "SYMM_SLOW_MS=0"},
};
enum { DISAGREEMENTS = sizeof disagreements / sizeof disagreements[0] };

RANKS_TEST(disagreement, a_wrong_device_or_another_setting_fails_all_ranks_and_is_named, 3,
           .arg = (void *)(uintptr_t)&disagreements[_i], .loop = {0, DISAGREEMENTS})
{
    const struct disagreement *d = arg;
    symm_context *ctx = NULL;
    symm_config config = rank_config(self);
    setenv("SYMM_TIMEOUT_MS", "8000", 1);
    if (self->rank == d->odd_rank || d->odd_rank < 0) {
        config.device = d->device;
        if (d->name)
            setenv(d->name, d->value, 1);
    }
    RANK_EXPECT_TEXT(self, d->want, d->part, symm_context_create(&config, &ctx));
    CHECK_RANK(self, !ctx);
out:
    symm_context_destroy(ctx);
}

/* ------------------------------------------------------------------------------------ settings */

static void count_reports(void *user, int level, const char *line)
{
    if (level == 2 && strstr(line, "waiting for rank 1"))
        ++*(atomic_int *)user;
}

TEST_GROUP(settings, 60);

/* Fields against the environment; the bytes of staging and packet areas are internal memory. */
RANKS_TEST(settings, the_configuration_comes_before_the_environment, 2,
           .env = {{"SYMM_CHECK", "1"},
                   {"SYMM_SLOW_MS", "100000"},
                   {"SYMM_STAGING_BYTES", "256K"},
                   {"SYMM_TUNING_FILE", "/no/such/table"}})
{
    symm_config config = rank_config(self);
    symm_context *ctx = NULL;
    symm_usage usage[2];
    atomic_int reports = 0;

    config.check = -1;
    config.slow_ms = 50;
    config.tuning_file = "";
    config.log = count_reports;
    config.user = &reports;
    for (int i = 0; i < 2; i++) {
        config.multicast = -i;
        config.staging_bytes = i ? 1 << 20 : 0;
        RANK_TRY(self, symm_context_create(&config, &ctx));
        symm_group *world = symm_context_world(ctx);
        const char *off = symm_multicast_off(world);
        CHECK_RANK_MSG(self, !SYMM_MULTICAST || (i ? off && strstr(off, "config.multicast") : !off),
                       "%s", off ? off : "on");
        RANK_TRY(self, symm_memory_usage(ctx, &usage[i]));
        /* With SYMM_CHECK=1 the barrier of rank 0 would meet the exchange of rank 1. */
        if (self->rank == 0)
            RANK_TRY(self, symm_barrier(world, NULL));
        if (self->rank == 1)
            pause_ms(300);
        RANK_TRY(self, symm_exchange(world, NULL, 0, NULL));
        if (self->rank == 1)
            RANK_TRY(self, symm_barrier(world, NULL));
        RANK_TRY(self, symm_synchronize(world, NULL));
        RANK_TRY(self, symm_context_destroy(ctx));
        ctx = NULL;
    }
    CHECK_RANK(self, self->rank == 1 || reports > 0);
    CHECK_RANK_MSG(self, usage[1].internal - usage[0].internal >= (1 << 20) - (256 << 10),
                   "%llu, %llu", (unsigned long long)usage[0].internal,
                   (unsigned long long)usage[1].internal);
out:
    symm_context_destroy(ctx);
}

/* The other way round: nothing turns multicast on against the environment. */
RANKS_TEST(settings, multicast_stays_off_and_check_comes_on, 2,
           .env = {{"SYMM_CHECK", "0"}, {"SYMM_MULTICAST", "0"}})
{
    symm_config config = rank_config(self);
    symm_context *ctx = NULL;

    config.multicast = 1;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "config.multicast is 1",
                     symm_context_create(&config, &ctx));
    config.multicast = 0;
    config.check = 1;
    RANK_TRY(self, symm_context_create(&config, &ctx));
    symm_group *world = symm_context_world(ctx);
    CHECK_RANK(self,
               strstr(symm_multicast_off(world), SYMM_MULTICAST ? "SYMM_MULTICAST" : "built"));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "symm_barrier",
                     self->rank ? symm_exchange(world, NULL, 0, NULL) : symm_barrier(world, NULL));
out:
    symm_context_destroy(ctx);
}

static const struct {
    symm_config config;
    const char *part;
} wrong_settings[] = {
    {{.check = 2}, "config.check is 2"},
    {{.multicast = -2}, "config.multicast is -2"},
    {{.slow_ms = -1}, "config.slow_ms is -1"},
    {{.staging_bytes = 512}, "config.staging_bytes=512"},
    {{.tuning_file = "/no/such/table"}, "config.tuning_file=/no/such/table: "},
    {{.reserved[1] = 7}, "config.reserved[1] is 7, not 0"},
    {{.reserved32 = 9}, "config.reserved32 is 9, not 0"},
    {{.span = 2}, "config.span is 2; it may be 0 or 1"},
    {{.device = "99"}, "0 to 7 of the emulated driver (SYMM_EMULATED_DEVICES sets how many)"},
};

TEST_LOOP(settings, a_wrong_field_is_named, 0, sizeof wrong_settings / sizeof wrong_settings[0])
{
    symm_config config = wrong_settings[_i].config;
    symm_context *ctx = NULL;

    config.nranks = 1;
    config.session = "alone";
    config.driver = "emulated";
    ck_assert_int_eq(symm_context_create(&config, &ctx), SYMM_ERROR_ARGUMENT);
    ck_assert_ptr_null(ctx);
    ck_assert_msg(strstr(symm_error_text(), wrong_settings[_i].part), "%s", symm_error_text());
}

int main(int argc, char **argv)
{
    char path[4096] = "";
    if (argc > 1 && strcmp(argv[1], "--rank") == 0)
        return be_launched();
    if (readlink("/proc/self/exe", path, sizeof path - 1) > 0)
        own_path = path;
    return test_main();
}
