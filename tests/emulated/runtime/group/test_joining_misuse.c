/* Ranks that may not join get a status and a text with the value; garbage disturbs nobody. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "exercise.h"
#include "ranks.h"
#include "test.h"

enum { ALL = -1 };

static const struct bad_join {
    int n, odd;               /* how many ranks, and which of them is different */
    const char *unset[3];     /* in its environment */
    const char *set[4][2];    /* there, too; with either it joins by its environment */
    symm_config config;       /* its configuration's values where not zero */
    symm_status want, others; /* others, and want: 0 any failure */
    const char *part[2];      /* of its text */
} bad_joins[] = {
    /* A rank outside of its world, and worlds that cannot be. */
    {1, ALL, .config = {.rank = 5, .nranks = 2}, .want = SYMM_ERROR_ARGUMENT, .part = {"5"}},
    {1, ALL, .config = {.rank = -2, .nranks = 2}, .want = SYMM_ERROR_ARGUMENT, .part = {"-2"}},
    {1, ALL, .config = {.nranks = 73}, .want = SYMM_ERROR_ARGUMENT, .part = {"73"}},
    {1, ALL, .config = {.nranks = -4}, .want = SYMM_ERROR_ARGUMENT, .part = {"-4"}},
    /* A rank that comes twice; worlds of different sizes. */
    {3, 2, .config = {.rank = 1}, .want = SYMM_ERROR_MISMATCH, .part = {"1"}},
    {3, 2, .config = {.nranks = 4}, .want = SYMM_ERROR_MISMATCH, .others = SYMM_ERROR_MISMATCH,
     .part = {"4"}},
    /* Tokens: a wrong one, and one that is none. */
    {2, 1, .set = {{"SYMM_TOKEN", "00112233445566778899aabbccddeef0"}}},
    {1, ALL, .set = {{"SYMM_TOKEN", "xyzzy"}}, .want = SYMM_ERROR_ARGUMENT, .part = {"SYMM_TOKEN"}},
    /* Half of a launcher's variables: the rest is named. */
    {1, ALL, .unset = {"SYMM_NRANKS"}, .want = SYMM_ERROR_ARGUMENT, .part = {"SYMM_NRANKS"}},
    {1, ALL, .unset = {"SYMM_RANK"}, .want = SYMM_ERROR_ARGUMENT, .part = {"SYMM_RANK"}},
    {1, ALL, .unset = {"SYMM_RANK", "SYMM_NRANKS", "SYMM_SESSION"}, .set = {{"RANK", "0"}},
     .want = SYMM_ERROR_ARGUMENT, .part = {"WORLD_SIZE"}},
    /* More than one host. */
    {1, ALL, .unset = {"SYMM_RANK", "SYMM_NRANKS", "SYMM_SESSION"},
     .set = {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "2"}},
     .want = SYMM_ERROR_UNSUPPORTED, .part = {"WORLD_SIZE"}},
    {1, ALL, .config = {.driver = "opencl"}, .want = SYMM_ERROR_ARGUMENT, .part = {"opencl"}},
#define NONSENSE(name, value)                                                                      \
    {                                                                                              \
        1, ALL, .set = {{name, value}}, .want = SYMM_ERROR_ARGUMENT, .part = { name, value }       \
    }
    NONSENSE("SYMM_RANK", "zero"),
    NONSENSE("SYMM_NRANKS", "2x"),
    NONSENSE("SYMM_TIMEOUT_MS", "soon"),
    NONSENSE("SYMM_SEGMENT_BYTES", "12Q"),
    NONSENSE("SYMM_CHECK", "perhaps"),
    NONSENSE("SYMM_STAGING_BYTES", "-1"),
    NONSENSE("SYMM_EPOCH_START", "1e9"),
    NONSENSE("SYMM_MULTICAST", "maybe"),
    NONSENSE("SYMM_STAGING_BYTES", "512"),
};
enum { BAD_JOINS = sizeof bad_joins / sizeof bad_joins[0] };

static void be_different(const struct bad_join *bad, symm_config *config)
{
    for (int i = 0; i < 3 && bad->unset[i]; i++)
        unsetenv(bad->unset[i]);
    for (int i = 0; i < 4 && bad->set[i][0]; i++)
        setenv(bad->set[i][0], bad->set[i][1], 1);
    config->rank = bad->config.rank ? bad->config.rank : config->rank;
    config->nranks = bad->config.nranks ? bad->config.nranks : config->nranks;
    config->driver = bad->config.driver;
}

static void join_badly(struct rank *self, void *arg)
{
    const struct bad_join *bad = arg;
    const bool odd = bad->odd == ALL || bad->odd == self->rank;
    const symm_status want = odd ? bad->want : bad->others;
    symm_config config = rank_config(self);
    symm_context *ctx = NULL;

    setenv("SYMM_TOKEN", "00112233445566778899aabbccddeeff", 1);
    setenv("SYMM_TIMEOUT_MS", "800", 1);
    if (odd)
        be_different(bad, &config);
    const bool by_environment = bad->unset[0] || bad->set[0][0];
    const symm_status st = symm_context_create(by_environment ? NULL : &config, &ctx);
    CHECK_RANK_MSG(self, !ctx && st != SYMM_OK && (!want || st == want), "%s instead of %s: %s",
                   symm_status_name(st), symm_status_name(want), symm_error_text());
    for (int i = 0; i < 2 && odd && bad->part[i]; i++)
        CHECK_RANK_MSG(self, strstr(symm_error_text(), bad->part[i]), "no \"%s\" in: %s",
                       bad->part[i], symm_error_text());
out:
    symm_context_destroy(ctx);
}

TEST_GROUP(joining, 120);

TEST_LOOP(joining, a_rank_that_may_not_join_is_told_why, 0, BAD_JOINS)
{
    ranks_run_ok(bad_joins[_i].n, RANKS_AS_PROCESSES, join_badly, (void *)(uintptr_t)&bad_joins[_i],
                 30);
}

TEST(joining, without_a_driver_the_error_names_the_emulated_one)
{
    static const struct bad_join no_driver = {1, ALL, .config = {.driver = "cuda"},
                                              .want = SYMM_ERROR_DRIVER,
                                              .part = {"SYMM_DRIVER=emulated"}};
    struct stat st;
    if (stat("/proc/driver/nvidia", &st) == 0)
        TEST_SKIP("this machine has a driver");
    ranks_run_ok(1, RANKS_AS_PROCESSES, join_badly, (void *)(uintptr_t)&no_driver, 30);
}

RANKS_TEST(joining, one_process_has_one_driver, 1)
{
    symm_context *ctx = NULL, *other = NULL;
    symm_config config = {.nranks = 1, .session = "other", .driver = "cuda"};
    RANK_TRY(self, rank_join(self, &ctx));
    RANK_EXPECT(self, SYMM_ERROR_STATE, symm_context_create(&config, &other));
    CHECK_RANK(self, !other);
out:
    symm_context_destroy(ctx);
}

static void join_with_few_descriptors(struct rank *self, void *arg)
{
    symm_context *ctx = NULL;
    void *x = NULL;
    if (self->rank == *(int *)arg || *(int *)arg < 0)
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){32, 32});
    if (rank_note(self, rank_join(self, &ctx)) == SYMM_OK)
        rank_note(self, symm_alloc(symm_context_world(ctx), 8u << 20, &x));
    self->report->value[0] = self->report->status;
    if (ctx && self->report->status == SYMM_OK)
        RANK_TRY(self, exercise_group(self, ctx, symm_context_world(ctx), 1));
out:
    symm_context_destroy(ctx);
}

TEST(joining, a_limit_of_32_descriptors_works_or_fails_alike_on_all_ranks)
{
    struct rank_report reports[8];
    for (int who = -1; who < 8; who += 3) {
        ranks_run(8, RANKS_AS_PROCESSES, join_with_few_descriptors, &who, reports, 40);
        ranks_assert_clean(reports, 8);
        for (int r = 0; r < 8; r++) {
            ck_assert_msg(reports[r].value[0] == reports[0].value[0], "rank %d: %s; rank 0: %s", r,
                          reports[r].text, reports[0].text);
            ck_assert_msg(reports[r].status == SYMM_OK || reports[r].status == SYMM_ERROR_SYSTEM,
                          "rank %d: %s: %s", r, symm_status_name(reports[r].status),
                          reports[r].text);
        }
    }
}

/* Connects to every socket in the folder and says nonsense, with a descriptor in it. */
static int send_garbage(const char *folder)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        struct sockaddr_un at = {.sun_family = AF_UNIX};
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (strlen(folder) + strlen(e->d_name) + 2 <= sizeof at.sun_path) {
            snprintf(at.sun_path, sizeof at.sun_path, "%.60s/%.40s", folder, e->d_name);
            if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0) {
                char junk[300], control[CMSG_SPACE(sizeof fd)];
                struct iovec iov = {junk, sizeof junk};
                struct msghdr m = {.msg_iov = &iov,
                                   .msg_iovlen = 1,
                                   .msg_control = control,
                                   .msg_controllen = sizeof control};
                memset(junk, 0x5a + n, sizeof junk);
                memset(control, 0, sizeof control);
                struct cmsghdr *c = CMSG_FIRSTHDR(&m);
                c->cmsg_level = SOL_SOCKET;
                c->cmsg_type = SCM_RIGHTS;
                c->cmsg_len = CMSG_LEN(sizeof fd);
                memcpy(CMSG_DATA(c), &fd, sizeof fd);
                n += sendmsg(fd, &m, MSG_NOSIGNAL) > 0;
                send(fd, "", 0, MSG_NOSIGNAL);
            }
        }
        close(fd);
    }
    if (dir)
        closedir(dir);
    return n;
}

static void join_beside_garbage(struct rank *self, void *arg)
{
    symm_context *ctx = NULL;
    int n = 0;
    setenv("SYMM_DIR", arg, 1);
    if (self->rank == 1) { /* rank 0 listens and waits for me */
        for (int tries = 0; tries < 200 && n < 3; tries++) {
            n += send_garbage(arg);
            pause_ms(10);
        }
        CHECK_RANK(self, n >= 3);
    }
    RANK_TRY(self, rank_join(self, &ctx));
    RANK_TRY(self, exercise_group(self, ctx, symm_context_world(ctx), 2));
out:
    symm_context_destroy(ctx);
}

TEST(joining, garbage_on_the_socket_disturbs_nobody)
{
    char folder[] = "/tmp/symm-garbage-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ranks_run_ok(2, RANKS_AS_PROCESSES, join_beside_garbage, folder, 30);
    ck_assert_int_eq(rmdir(folder), 0); /* it stays, being named, and nothing is left in it */
}
