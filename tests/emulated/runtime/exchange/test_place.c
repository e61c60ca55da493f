/* The place where ranks meet: folders and abstract sockets, what others leave or do there. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "by_hand.h"
#include "runtime/comm/rendezvous.h"
#include "folder.h"
#include "test.h"

MEETING_RANK(meet_and_part)
{
    RANK_TRY(self, barrier(m->world, "barrier", 5000));
out:;
}

/* ---- What others leave or do there ---- */

UNMET_RANK(wait_for_nobody)
{
    const symm_config config = {.rank = self->rank, .nranks = 3, .session = arg};

    self->report->value[0] = 1;
    meet_as(m, &config);
}

UNMET_RANK(meet_at)
{
    const symm_config config = {.rank = self->rank, .nranks = 3, .session = arg};

    RANK_TRY(self, meet_as(m, &config));
    RANK_TRY(self, barrier(m->world, "barrier", 5000));
out:;
}

TEST_GROUP(others, 60, IN_A_FOLDER);

TEST(others, a_killed_job_is_no_obstacle)
{
    char session[] = "the same session";
    struct rank_report reports[RANKS_MAX];
    struct ranks *run = ranks_start(2, RANKS_AS_PROCESSES, wait_for_nobody, session);

    for (int r = 0; r < 2; r++)
        ranks_await(run, r, 0, 1);
    pause_ms(200);
    for (int r = 0; r < 2; r++)
        kill(ranks_pid(run, r), SIGKILL);
    ck_assert_ptr_null(ranks_finish(run, reports, 10));
    ranks_run_ok(3, RANKS_AS_PROCESSES, meet_at, session, 20);
}

static void come_late(struct rank *self, void *arg)
{
    struct rank later = {.rank = self->rank + 1, .nranks = 3, .report = self->report};

    meet_at(&later, arg);
}

TEST(others, a_living_job_is_not_disturbed)
{
    char session[] = "the same session";
    struct rank_report reports[RANKS_MAX];
    struct meeting m = {.x = NULL};
    struct ranks *run = ranks_start(1, RANKS_AS_PROCESSES, meet_at, session);

    pause_ms(300);
    ck_assert_int_eq(meet_as(&m, &(symm_config){.nranks = 3, .session = session}),
                     SYMM_ERROR_STATE);
    ck_assert_ptr_nonnull(strstr(symm__failure_text(), "another job uses this session"));
    ranks_run_ok(2, RANKS_AS_PROCESSES, come_late, session, 20); /* rank 0 is still waiting */
    ck_assert_ptr_null(ranks_finish(run, reports, 20));
    ranks_assert_ok(reports, 1);
}

/* Too many unwanted clients: silence, garbage, descriptors, a VOTE before the HELLO. */
UNMET_TEST(others, strangers_are_dropped, 2)
{
    const symm_config config = rank_config(self);
    struct symm_frame *frame = NULL;
    struct symm_join join;
    int fds[40];

    for (int i = 0; i < 40; i++)
        fds[i] = -1;
    if (self->rank == 1) {
        RANK_TRY(self, symm__join_resolve(&config, NULL, &join));
        for (int i = 0; i < 40; i++) {
            fds[i] = connect_to(join.session);
            CHECK_RANK(self, fds[i] >= 0);
            if (i % 4 == 1)
                CHECK_RANK(self, send(fds[i], "garbage", 7, MSG_NOSIGNAL) != 0);
            if (i % 4 == 2) {
                struct symm_message step = {.type = SYMM_MESSAGE_VOTE, .nfds = 1, .fds = {fds[i]}};
                frame = symm__frame_make(&step);
                symm__frame_send(fds[i], frame);
                symm__frame_put(frame);
            }
            if (i % 4 == 3)
                symm__fd_close(&fds[i]);
        }
        pause_ms(200);
    }
    RANK_TRY(self, meet(self, m));
    RANK_TRY(self, barrier(m->world, "barrier", 5000));
out:
    symm__fd_close_all(fds, 40);
}

TEST(others, an_unsafe_folder_is_refused)
{
    char path[128], other[160];
    struct meeting m = {.x = NULL};
    symm_config config = {.nranks = 2, .session = "s"};

    snprintf(path, sizeof path, "%s/shared", folder);
    snprintf(other, sizeof other, "%s/link", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    chmod(path, 0755);
    setenv("SYMM_DIR", path, 1);
    for (config.rank = 0; config.rank < 2; config.rank++) {
        ck_assert_int_eq(meet_as(&m, &config), SYMM_ERROR_ARGUMENT);
        ck_assert_ptr_nonnull(strstr(symm__failure_text(), path));
        ck_assert_ptr_nonnull(strstr(symm__failure_text(), "mode 755"));
    }
    config.rank = 0;
    chmod(path, 0700);
    ck_assert_int_eq(symlink(path, other), 0);
    setenv("SYMM_DIR", other, 1);
    ck_assert_int_eq(meet_as(&m, &config), SYMM_ERROR_ARGUMENT);
    unlink(other);
    close(open(other, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ck_assert_int_eq(meet_as(&m, &config), SYMM_ERROR_ARGUMENT);
    unlink(other);
    setenv("SYMM_DIR", "/proc/nowhere/at/all", 1);
    ck_assert_int_eq(meet_as(&m, &config), SYMM_ERROR_SYSTEM);
    rmdir(path);
}

/* ---- Descriptors ---- */

static void limit_descriptors(rlim_t soft, rlim_t hard)
{
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){soft, hard});
}

TEST_GROUP(descriptors, 60, IN_A_FOLDER);

RANKS_TEST(descriptors, a_limit_of_32_descriptors_is_enough_for_4, 4)
{
    limit_descriptors(32, 32);
    meet_and_part(self, arg);
}

RANKS_TEST(descriptors, all_ranks_read_that_rank_0_has_too_few_descriptors, 4)
{
    struct meeting m = {.config = {.timeout_ms = 10000}};

    limit_descriptors(16, 16);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_SYSTEM, "RLIMIT_NOFILE is 16", meet(self, &m));
    CHECK_RANK(self, strstr(symm__failure_text(), "(on rank 0)") != NULL);
out:
    part(&m);
}

/* ---- Rank 0 cannot serve ---- */

/* Leaves this process n descriptors. */
static void leave_descriptors(int n)
{
    int fds[64], nopen = 0;

    limit_descriptors(64, 64);
    while (nopen < 64 && (fds[nopen] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        nopen++;
    while (n-- > 0 && nopen > 0)
        close(fds[--nopen]);
}

static void meet_without_descriptors(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    int64_t before = now_ms();

    if (self->rank == 0)
        leave_descriptors(*(int *)arg);
    symm_status st = meet(self, &m);
    CHECK_RANK_MSG(self, st == SYMM_ERROR_SYSTEM || (self->rank && st == SYMM_ERROR_PEER), "%s: %s",
                   symm_status_name(st), symm__failure_text());
    CHECK_RANK(self, now_ms() - before < 10000);
    if (*(int *)arg >= 3 || self->rank == 0)
        CHECK_RANK_MSG(self, strstr(symm__failure_text(), "(24)"), "%s", symm__failure_text());
out:
    part(&m);
    if (self->rank == 0) /* what leave_descriptors() has opened is not counted as left behind */
        closefrom(3);
}

TEST_LOOP(descriptors, without_descriptors_rank_0_lets_nobody_wait, 1, 9)
{
    int left = _i;
    struct rank_report reports[RANKS_MAX];

    ranks_run(3, RANKS_AS_PROCESSES, meet_without_descriptors, &left, reports, 15);
    for (int r = 0; r < 3; r++)
        ck_assert_msg(!reports[r].failed[0], "rank %d: %s", r, reports[r].failed);
}

/* ---- Users ---- */

enum { USER = 54321, STRANGER = 54322 };

/* Becomes another user, for whom /proc/self stays open. */
static bool become(uid_t user)
{
    return setresuid(user, user, user) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0;
}

UNMET_RANK(meet_where_nothing_can_be_made)
{
    int64_t before = now_ms();

    CHECK_RANK(self, geteuid() || become(USER));
    RANK_EXPECT_TEXT(self, SYMM_ERROR_SYSTEM, "Permission denied", meet(self, m));
    CHECK_RANK_MSG(self, self->rank == 0 || strstr(self->report->text, "(on rank 0)"), "%s",
                   self->report->text);
    CHECK_RANK(self, now_ms() - before < 5000);
out:;
}

TEST_GROUP(users, 60, IN_A_FOLDER);

TEST(users, all_ranks_read_that_rank_0_cannot_make_its_socket)
{
    char path[128];

    snprintf(path, sizeof path, "%s/full", folder);
    ck_assert_int_eq(mkdir(path, 0500), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(chmod(folder, 0711), 0);
        ck_assert_int_eq(chown(path, USER, (gid_t)-1), 0);
    }
    setenv("SYMM_DIR", path, 1);
    ranks_run_ok(3, RANKS_AS_PROCESSES, meet_where_nothing_can_be_made, NULL, 15);
    rmdir(path);
}

/* The session that a rank of USER has. Called as root; the caller is root afterwards, too. */
static bool session_of_user(struct rank *self, struct symm_join *join)
{
    const symm_config config = rank_config(self);
    bool ok = seteuid(USER) == 0 && symm__join_resolve(&config, NULL, join) == SYMM_OK;

    return seteuid(0) == 0 && ok;
}

/* Rank 2 is another user's process that knows everything and says that it is rank 1. */
UNMET_RANK(join_beside_a_stranger)
{
    struct rank as = {self->rank, 2, self->mode, self->session, self->report};
    struct symm_message heard;
    struct symm_join join;
    int fd = -1;

    if (self->rank == 2) {
        as.rank = 1;
        CHECK_RANK(self, session_of_user(&as, &join));
        fd = symm__fd_above_stdio(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
        CHECK_RANK(self, become(STRANGER));
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "symm-%s", join.session);
        for (int i = 0; i < 5000 && !self->report->value[0]; i++, pause_ms(1))
            self->report->value[0] =
                !connect(fd, (struct sockaddr *)&a,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)n);
        CHECK_RANK_MSG(self, self->report->value[0], "connect: %s", strerror(errno));
        say_hello_by_hand(fd, &join, &(struct hello_by_hand){0});
        CHECK_RANK(self, hear(fd, &heard) == SYMM_RECEIVED_END);
        self->report->value[1] = 1;
        goto out;
    }
    CHECK_RANK(self, become(USER));
    for (int i = 0; self->rank == 1 && i < 10000 && !self->report[1].value[1]; i++)
        pause_ms(1);
    RANK_TRY(self, meet(&as, m));
    RANK_TRY(self, barrier(m->world, "barrier", 5000));
out:
    symm__fd_close(&fd);
}

TEST(users, a_process_of_another_user_is_refused)
{
    if (geteuid() != 0)
        TEST_SKIP("needs root, to be two users");
    unsetenv("SYMM_DIR");
    ranks_run_ok(3, RANKS_AS_PROCESSES, join_beside_a_stranger, NULL, 20);
}

/* Rank 2 is another user's process that has taken the socket's name before rank 0 comes. */
UNMET_RANK(join_where_a_stranger_sits)
{
    struct symm_rendezvous place = {.listener = -1};
    struct rank as = {self->rank, 2, self->mode, self->session, self->report};
    struct symm_join join;

    if (self->rank == 2) {
        as.rank = 1;
        CHECK_RANK(self, session_of_user(&as, &join));
        CHECK_RANK(self, become(STRANGER));
        RANK_TRY(self,
                 symm__rendezvous_open(&place, join.session, symm__deadline_in(1000), &silent));
        self->report->value[0] = 1;
        for (int r = 0; r < 2; r++)
            for (int i = 0; i < 10000 && !self->report[r - 2].value[0]; i++)
                pause_ms(1);
        goto out;
    }
    CHECK_RANK(self, become(USER));
    for (int i = 0; i < 10000 && !self->report[2 - self->rank].value[0]; i++)
        pause_ms(1);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "is user 54322's", meet(&as, m));
    RANK_TEXT(self, "set SYMM_DIR on all ranks");
out:
    self->report->value[0] = 1;
    symm__rendezvous_close(&place, SYMM_ERROR_PEER, "over");
}

TEST(users, another_user_in_the_way_is_named_with_a_remedy)
{
    if (geteuid() != 0)
        TEST_SKIP("needs root, to be two users");
    unsetenv("SYMM_DIR");
    ranks_run_ok(3, RANKS_AS_PROCESSES, join_where_a_stranger_sits, NULL, 20);
}

/* ---- The default place ---- */

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

/* Puts an empty /run/user before this process and its children. */
static bool own_run_user(void)
{
    const unsigned user = geteuid();
    char map[64];

    snprintf(map, sizeof map, "%u %u 1", user, user);
    if (unshare(user ? CLONE_NEWUSER | CLONE_NEWNS : CLONE_NEWNS) ||
        (user && !write_file("/proc/self/uid_map", map)))
        return false;
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", "/run/user", "tmpfs", 0, "mode=755") == 0;
}

UNMET_RANK(find_no_folder)
{
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "/symm (SYMM_DIR) is not a folder", meet(self, m));
out:;
}

TEST(users, the_default_place)
{
    char runtime[64], sub[80];

    unsetenv("SYMM_DIR");
    if (!own_run_user())
        TEST_SKIP("no mount namespace: %s", strerror(errno));
    ranks_run_ok(3, RANKS_AS_PROCESSES, meet_and_part, NULL, 20); /* abstract */

    snprintf(runtime, sizeof runtime, "/run/user/%u", (unsigned)geteuid());
    snprintf(sub, sizeof sub, "%s/symm", runtime);
    ck_assert_int_eq(mkdir(runtime, 0700), 0);
    ranks_run_ok(3, RANKS_AS_PROCESSES, meet_and_part, NULL, 20);
    ck_assert_int_eq(access(sub, F_OK), -1); /* taken away again */
    ck_assert_int_eq(symlink("/", sub), 0);  /* it is there that they meet */
    ranks_run_ok(3, RANKS_AS_PROCESSES, find_no_folder, NULL, 20);
    ck_assert_int_eq(chmod(runtime, 0755), 0); /* others can enter: abstract again */
    ranks_run_ok(3, RANKS_AS_PROCESSES, meet_and_part, NULL, 20);
}
