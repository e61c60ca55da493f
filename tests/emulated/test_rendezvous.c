/* Ranks that meet, and ranks that do not: whoever is wrong is named on every rank. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include "folder.h"
#include "meet.h"
#include "runtime/boot_id.h"
#include "runtime/fd.h"
#include "runtime/hub.h"
#include "runtime/link.h"
#include "runtime/message.h"
#include "runtime/rendezvous.h"
#include "test.h"

static const struct symm_log silent = {.rank = -1};

/* ---- Meeting ---- */

static void meet_and_part(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    bool right = true;

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    RANK_TRY(self, agree(m.world, "agree", 5, &right));
    CHECK_RANK(self, right);
    CHECK_RANK(self, symm__lane_rank(m.world) == self->rank);
out:
    part(&m);
}

static const int world_sizes[] = {1, 2, 3, 4, 8, 16};

START_TEST(processes_meet)
{
    ranks_run_ok(world_sizes[_i], RANKS_AS_PROCESSES, meet_and_part, NULL, 20);
}
END_TEST

START_TEST(threads_meet)
{
    ranks_run_ok(world_sizes[_i], RANKS_AS_THREADS, meet_and_part, NULL, 20);
}
END_TEST

static void meet_again_and_again(struct rank *self, void *arg)
{
    for (int i = 0; i < 10 && !self->report->failed[0]; i++)
        meet_and_part(self, arg);
}

START_TEST(contexts_follow_one_another)
{
    ranks_run_ok(3, RANKS_AS_PROCESSES, meet_again_and_again, NULL, 20);
}
END_TEST

START_TEST(two_jobs_at_once)
{
    enum { JOBS = 6 };
    struct ranks *jobs[JOBS];
    struct rank_report reports[RANKS_MAX];

    for (int i = 0; i < JOBS; i++)
        jobs[i] = ranks_start(2, RANKS_AS_PROCESSES, meet_again_and_again, NULL);
    for (int i = 0; i < JOBS; i++) {
        const char *missing = ranks_finish(jobs[i], reports, 30);
        ck_assert_msg(!missing, "%s", missing);
        ranks_assert_ok(reports, 2);
    }
}
END_TEST

START_TEST(a_temporary_folder_of_200_characters)
{
    char path[400];
    int n = snprintf(path, sizeof path, "%s/", folder);

    memset(path + n, 'x', 200);
    path[n + 200] = 0;
    ck_assert_int_eq(mkdir(path, 0700), 0);
    setenv("TMPDIR", path, 1);
    ranks_run_ok(4, RANKS_AS_PROCESSES, meet_and_part, NULL, 20);
    ck_assert_int_eq(rmdir(path), 0);
}
END_TEST

static void on_alarm(int unused)
{
    (void)unused;
}

static void meet_in_a_storm(struct rank *self, void *arg)
{
    const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};

    if (self->rank == 0)
        pause_ms(50);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 5 && !self->report->failed[0]; i++)
        meet_and_part(self, arg);
    setitimer(ITIMER_REAL, &never, NULL);
}

START_TEST(signals_do_not_disturb)
{
    ranks_run_ok(4, RANKS_AS_PROCESSES, meet_in_a_storm, NULL, 20);
}
END_TEST

/* ---- Whoever is wrong is named ---- */

struct wrong {
    int rank;            /* the odd one */
    symm_config config;  /* what it says, apart from the session */
    const char *token;   /* its token */
    bool same_device;    /* it uses rank 0's */
    symm_status status;  /* what all get */
    const char *text[2]; /* and read */
};

static const struct wrong wrongs[] = {
    {3, {.rank = 1, .nranks = 4}, NULL, false, SYMM_ERROR_MISMATCH, {"rank 1 came twice", "pid"}},
    {2,
     {.rank = 2, .nranks = 5},
     NULL,
     false,
     SYMM_ERROR_MISMATCH,
     {"rank 2", "has nranks 5, rank 0 has 4"}},
    {1,
     {.rank = 5, .nranks = 6},
     NULL,
     false,
     SYMM_ERROR_MISMATCH,
     {"rank 5", "has nranks 6, rank 0 has 4"}},
    {2,
     {.rank = 2, .nranks = 4},
     NULL,
     true,
     SYMM_ERROR_MISMATCH,
     {"rank 0", "same device, GPU-00070707-0707-0707-0707-070707070707"}},
};

static void be_wrong(struct rank *self, void *arg)
{
    const struct wrong *w = arg;
    struct meeting m = {.x = NULL};
    symm_config config = rank_config(self);
    char device[16];

    memset(device, 7, sizeof device);
    device[0] = (char)self->rank;
    if (self->rank == w->rank) {
        config = w->config;
        config.session = self->session;
        device[0] = w->same_device ? 0 : device[0];
    }
    m.config.device_uuid = device;
    int64_t before = now_ms();
    RANK_EXPECT_TEXT(self, w->status, w->text[0], meet_as(&m, &config));
    CHECK_RANK_MSG(self, strstr(self->report->text, w->text[1]), "%s", self->report->text);
    CHECK_RANK(self, now_ms() - before < 5000);
out:
    part(&m);
}

START_TEST(all_ranks_read_who_is_wrong)
{
    struct rank_report reports[RANKS_MAX];

    ranks_run(4, RANKS_AS_PROCESSES, be_wrong, (void *)&wrongs[_i], reports, 20);
    ranks_assert_clean(reports, 4);
}
END_TEST

static void have_a_token(struct rank *self, void *arg)
{
    struct meeting m = {.config = {.timeout_ms = 1000}};

    (void)arg;
    setenv("SYMM_TOKEN",
           self->rank == 2 ? "ffffffffffffffffffffffffffffffff"
                           : "00000000000000000000000000000001",
           1);
    if (self->rank == 2)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "SYMM_TOKEN", meet(self, &m));
    else
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "rank 2 of 3 did not join", meet(self, &m));
    CHECK_RANK(self, strstr(self->report->text, "the token (SYMM_TOKEN) of rank 2"));
out:
    part(&m);
}

START_TEST(a_wrong_token_is_refused)
{
    struct rank_report reports[RANKS_MAX];

    ranks_run(3, RANKS_AS_PROCESSES, have_a_token, NULL, reports, 20);
    ranks_assert_clean(reports, 3);
}
END_TEST

/* A rank that speaks by hand. */
static int say(struct rank *self, bool other_version, bool other_host)
{
    const symm_config config = rank_config(self);
    struct symm_join join;
    struct symm_hello hello = {.token = {0}};
    struct symm_message m = {.type = SYMM_MESSAGE_HELLO,
                             .rank = self->rank,
                             .args = {(uint64_t)self->nranks, (uint64_t)getpid()},
                             .payload = &hello,
                             .payload_nbytes = sizeof hello};
    struct symm_frame *frame;
    pid_t hub;
    int fd = -1;

    if (symm__join_resolve(&config, &join) != SYMM_OK ||
        symm__rendezvous_connect(join.session, symm__deadline_in(5000), &silent, INT32_MAX, &fd,
                                 &hub) != SYMM_OK)
        return -1;
    symm__boot_id(hello.boot_id);
    hello.boot_id[0] ^= other_host;
    frame = symm__frame_make(&m);
    frame->bytes[4] ^= other_version;
    symm__frame_send(fd, frame);
    symm__frame_put(frame);
    return fd;
}

static void meet_a_stranger(struct rank *self, void *arg)
{
    const bool version = arg != NULL;
    struct meeting m = {.x = NULL};
    int fd = -1;

    if (self->rank == 2) {
        fd = say(self, version, !version);
        CHECK_RANK(self, fd >= 0);
        pause_ms(1000);
    } else if (version) {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_VERSION, "rank 2 (pid", meet(self, &m));
        CHECK_RANK(self, strstr(self->report->text, "has symm 101, rank 0 has 100"));
    } else {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "rank 2 is on another host", meet(self, &m));
    }
out:
    symm__fd_close(&fd);
    part(&m);
}

START_TEST(other_versions_and_hosts_are_refused)
{
    struct rank_report reports[RANKS_MAX];

    ranks_run(3, RANKS_AS_PROCESSES, meet_a_stranger, _i ? folder : NULL, reports, 20);
    ranks_assert_clean(reports, 3);
}
END_TEST

/* A hub that speaks by hand: it answers whatever comes in the words of another version. */
static bool answer_as_another_version(struct rank *self)
{
    const symm_config config = rank_config(self);
    struct symm_rendezvous place = {.listener = -1, .folder_fd = -1};
    struct symm_message m = {.type = SYMM_MESSAGE_ENDED, .rank = -1, .status = SYMM_ERROR_VERSION};
    struct symm_join join;
    struct symm_frame *frame = NULL;
    int fd = -1;

    if (symm__join_resolve(&config, &join) != SYMM_OK ||
        symm__rendezvous_open(&place, join.session, symm__deadline_in(5000)) != SYMM_OK)
        return false;
    for (int tries = 0; fd < 0 && tries < 500; tries++) {
        fd = accept(place.listener, NULL, NULL);
        pause_ms(10);
    }
    frame = symm__frame_make(&m);
    frame->bytes[4] ^= 1;
    symm__frame_send(fd, frame);
    symm__frame_put(frame);
    pause_ms(200);
    symm__fd_close(&fd);
    symm__rendezvous_close(&place);
    return true;
}

static void meet_another_version(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};

    (void)arg;
    if (self->rank == 0)
        CHECK_RANK(self, answer_as_another_version(self));
    else
        RANK_EXPECT_TEXT(self, SYMM_ERROR_VERSION, "rank 0 has version 101 of symm, this rank 100",
                         meet(self, &m));
out:
    part(&m);
}

START_TEST(a_rank_0_of_another_version_is_named)
{
    struct rank_report reports[RANKS_MAX];

    ranks_run(2, RANKS_AS_PROCESSES, meet_another_version, NULL, reports, 20);
    ranks_assert_clean(reports, 2);
}
END_TEST

/* ---- Ranks that do not come ---- */

static void miss_some(struct rank *self, void *arg)
{
    struct meeting m = {.config = {.timeout_ms = 600 + 300 * self->rank}};
    int present = *(int *)arg;

    if (!(present >> self->rank & 1))
        return;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT,
                     present & 1 ? "rank 1, 3 of 4 did not join within" : "rank 0 has not come",
                     meet(self, &m));
out:
    part(&m);
}

START_TEST(missing_ranks_are_named)
{
    int present = _i ? 6 : 5;
    struct rank_report reports[RANKS_MAX];

    ranks_run(4, RANKS_AS_PROCESSES, miss_some, &present, reports, 20);
    ranks_assert_clean(reports, 4);
}
END_TEST

static void try_twice(struct rank *self, void *arg)
{
    struct meeting m = {.config = {.timeout_ms = 300}};

    if (self->rank != 1)
        RANK_EXPECT(self, SYMM_ERROR_TIMEOUT, meet(self, &m));
    else
        pause_ms(1000);
    meet_and_part(self, arg);
out:;
}

START_TEST(after_a_failed_attempt_the_next_one_works)
{
    ranks_run_ok(3, RANKS_AS_PROCESSES, try_twice, NULL, 20);
}
END_TEST

static void die_while_joining(struct rank *self, void *arg)
{
    const int dies = *(int *)arg;
    struct meeting m = {.x = NULL};
    char want[32];

    snprintf(want, sizeof want, "rank %d (pid", dies);
    if (self->rank == 3)
        return; /* so that the others wait */
    self->report->value[0] = 1;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, want, meet(self, &m));
    self->report->value[1] = now_ms();
    CHECK_RANK(self, strstr(self->report->text, "died"));
out:
    part(&m);
}

START_TEST(a_rank_that_dies_while_joining_is_named_at_once)
{
    int dies = _i;
    struct rank_report reports[RANKS_MAX];
    struct ranks *run = ranks_start(4, RANKS_AS_PROCESSES, die_while_joining, &dies);

    for (int r = 0; r < 3; r++)
        while (!ranks_peek(run, r)->value[0])
            pause_ms(1);
    pause_ms(300); /* all are waiting by now */
    int64_t killed = now_ms();
    kill(ranks_pid(run, dies), SIGKILL);
    const char *missing = ranks_finish(run, reports, 20);
    ck_assert_msg(!missing, "%s", missing);
    for (int r = 0; r < 3; r++) {
        if (r == dies)
            continue;
        ranks_assert_clean(&reports[r], 1);
        ck_assert_int_lt(reports[r].value[1] - killed, 1000);
    }
    if (dies == 0) { /* nobody was left to take the meeting place away; a next job would */
        int fd = open(folder, O_RDONLY | O_DIRECTORY);
        char name[64];
        snprintf(name, sizeof name, "symm-%u", (unsigned)geteuid());
        int sub = openat(fd, name, O_RDONLY | O_DIRECTORY);
        DIR *dir = fdopendir(sub);
        for (struct dirent *e; (e = readdir(dir));)
            unlinkat(sub, e->d_name, 0);
        closedir(dir);
        unlinkat(fd, name, AT_REMOVEDIR);
        close(fd);
    }
}
END_TEST

/* ---- What others leave or do at the meeting place ---- */

static void wait_for_nobody(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    const symm_config config = {.rank = self->rank, .nranks = 3, .session = arg};

    self->report->value[0] = 1;
    meet_as(&m, &config);
    part(&m);
}

static void meet_at(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    const symm_config config = {.rank = self->rank, .nranks = 3, .session = arg};

    RANK_TRY(self, meet_as(&m, &config));
    RANK_TRY(self, barrier(m.world, "barrier", 5000));
out:
    part(&m);
}

START_TEST(a_killed_job_is_no_obstacle)
{
    char session[] = "the same session";
    struct rank_report reports[RANKS_MAX];
    struct ranks *run = ranks_start(2, RANKS_AS_PROCESSES, wait_for_nobody, session);

    for (int r = 0; r < 2; r++)
        while (!ranks_peek(run, r)->value[0])
            pause_ms(1);
    pause_ms(200);
    for (int r = 0; r < 2; r++)
        kill(ranks_pid(run, r), SIGKILL);
    ck_assert_ptr_null(ranks_finish(run, reports, 10));
    ranks_run_ok(3, RANKS_AS_PROCESSES, meet_at, session, 20);
}
END_TEST

static void come_late(struct rank *self, void *arg)
{
    struct rank later = {.rank = self->rank + 1, .nranks = 3, .report = self->report};

    meet_at(&later, arg);
}

START_TEST(a_living_job_is_not_disturbed)
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
END_TEST

static int connect_to(const char *session)
{
    int fd = -1;
    pid_t hub;

    return symm__rendezvous_connect(session, symm__deadline_in(5000), &silent, INT32_MAX, &fd,
                                    &hub) == SYMM_OK
               ? fd
               : -1;
}

/* Clients that nobody wants: silent, garbage, surprise descriptors, a HELLO out of place, and too
 * many of them. */
static void pester(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    const symm_config config = rank_config(self);
    struct symm_frame *frame = NULL;
    struct symm_join join;
    int fds[40];

    (void)arg;
    for (int i = 0; i < 40; i++)
        fds[i] = -1;
    if (self->rank == 1) {
        RANK_TRY(self, symm__join_resolve(&config, &join));
        for (int i = 0; i < 40; i++) {
            fds[i] = connect_to(join.session);
            CHECK_RANK(self, fds[i] >= 0);
            if (i % 4 == 1)
                CHECK_RANK(self, send(fds[i], "garbage", 7, MSG_NOSIGNAL) != 0);
            if (i % 4 == 2) {
                struct symm_message step = {.type = SYMM_MESSAGE_STEP, .nfds = 1, .fds = {fds[i]}};
                frame = symm__frame_make(&step);
                symm__frame_send(fds[i], frame);
                symm__frame_put(frame);
            }
            if (i % 4 == 3)
                symm__fd_close(&fds[i]);
        }
        pause_ms(200);
    }
    RANK_TRY(self, meet(self, &m));
    RANK_TRY(self, barrier(m.world, "barrier", 5000));
out:
    symm__fd_close_all(fds, 40);
    part(&m);
}

START_TEST(strangers_are_dropped)
{
    ranks_run_ok(2, RANKS_AS_PROCESSES, pester, NULL, 20);
}
END_TEST

START_TEST(an_unsafe_folder_is_refused)
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
END_TEST

static void limit_descriptors(rlim_t soft, rlim_t hard)
{
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){soft, hard});
}

static void meet_with_few(struct rank *self, void *arg)
{
    limit_descriptors(32, 32);
    meet_and_part(self, arg);
}

START_TEST(a_limit_of_32_descriptors_is_enough_for_4)
{
    ranks_run_ok(4, RANKS_AS_PROCESSES, meet_with_few, NULL, 20);
}
END_TEST

static void meet_with_too_few(struct rank *self, void *arg)
{
    struct meeting m = {.config = {.timeout_ms = 10000}};

    (void)arg;
    limit_descriptors(16, 16);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_SYSTEM, "RLIMIT_NOFILE is 16", meet(self, &m));
    CHECK_RANK(self, strstr(symm__failure_text(), "rank 0: ") != NULL);
out:
    part(&m);
}

START_TEST(all_ranks_read_that_rank_0_has_too_few_descriptors)
{
    struct rank_report reports[RANKS_MAX];

    ranks_run(4, RANKS_AS_PROCESSES, meet_with_too_few, NULL, reports, 20);
    ranks_assert_clean(reports, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rendezvous");
    TCase *tc = test_case(suite, "meeting", 60);

    in_a_folder(tc);
    tcase_add_loop_test(tc, processes_meet, 0, sizeof world_sizes / sizeof world_sizes[0]);
    tcase_add_loop_test(tc, threads_meet, 0, sizeof world_sizes / sizeof world_sizes[0]);
    tcase_add_test(tc, contexts_follow_one_another);
    tcase_add_test(tc, two_jobs_at_once);
    tcase_add_test(tc, a_temporary_folder_of_200_characters);
    tcase_add_test(tc, signals_do_not_disturb);
    tc = test_case(suite, "refusing", 60);
    in_a_folder(tc);
    tcase_add_loop_test(tc, all_ranks_read_who_is_wrong, 0, sizeof wrongs / sizeof wrongs[0]);
    tcase_add_test(tc, a_wrong_token_is_refused);
    tcase_add_loop_test(tc, other_versions_and_hosts_are_refused, 0, 2);
    tcase_add_test(tc, a_rank_0_of_another_version_is_named);
    tcase_add_loop_test(tc, missing_ranks_are_named, 0, 2);
    tcase_add_test(tc, after_a_failed_attempt_the_next_one_works);
    tcase_add_loop_test(tc, a_rank_that_dies_while_joining_is_named_at_once, 0, 3);
    tc = test_case(suite, "the place", 60);
    in_a_folder(tc);
    tcase_add_test(tc, a_killed_job_is_no_obstacle);
    tcase_add_test(tc, a_living_job_is_not_disturbed);
    tcase_add_test(tc, strangers_are_dropped);
    tcase_add_test(tc, an_unsafe_folder_is_refused);
    tcase_add_test(tc, a_limit_of_32_descriptors_is_enough_for_4);
    tcase_add_test(tc, all_ranks_read_that_rank_0_has_too_few_descriptors);
    return test_main(suite);
}
