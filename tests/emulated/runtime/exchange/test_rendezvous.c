/* Ranks that meet, and ranks that do not: every rank names the one that is wrong. */
#include <check.h>
#include <signal.h>
#include <sys/socket.h>
#include "by_hand.h"
#include "runtime/comm/rendezvous.h"
#include "folder.h"
#include "test.h"

/* ---- Meeting ---- */

MEETING_RANK(meet_and_part)
{
    bool right = true;

    RANK_TRY(self, agree(m->world, "agree", 5, &right));
    CHECK_RANK(self, right);
    CHECK_RANK(self, symm__host_comm_rank(m->world) == self->rank);
out:;
}

/* Until another rank, a process, has put something into value[0] of its report. */
static void await_rank(const struct rank *self, int rank)
{
    const volatile struct rank_report *other = self->report + (rank - self->rank);

    for (int i = 0; i < 20000 && !other->value[0]; i++)
        pause_ms(1);
}

static const int world_sizes[] = {1, 2, 3, 4, 8, 16};

TEST_GROUP(meeting, 60, IN_A_FOLDER);

TEST_LOOP(meeting, ranks_meet, 0, 2 * sizeof world_sizes / sizeof world_sizes[0])
{
    ranks_run_ok(world_sizes[_i / 2], (enum ranks_mode)(_i % 2), meet_and_part, NULL, 20);
}

static void meet_again_and_again(struct rank *self, void *arg)
{
    for (int i = 0; i < 10 && !self->report->failed[0]; i++)
        meet_and_part(self, arg);
}

TEST(meeting, contexts_follow_one_another)
{
    ranks_run_ok(3, RANKS_AS_PROCESSES, meet_again_and_again, NULL, 20);
}

TEST(meeting, two_jobs_at_once)
{
    enum { JOBS = 6 };
    struct ranks *jobs[JOBS];
    struct rank_report reports[RANKS_MAX];

    for (int i = 0; i < JOBS; i++)
        jobs[i] = ranks_start(2, RANKS_AS_PROCESSES, meet_again_and_again, NULL);
    for (int i = 0; i < JOBS; i++) {
        ranks_end(jobs[i], reports, 30);
        ranks_assert_ok(reports, 2);
    }
}

TEST(meeting, a_folder_of_200_characters)
{
    char path[400];
    int n = snprintf(path, sizeof path, "%s/", folder);

    memset(path + n, 'x', 200);
    path[n + 200] = 0;
    ck_assert_int_eq(mkdir(path, 0700), 0);
    setenv("SYMM_DIR", path, 1);
    ranks_run_ok(4, RANKS_AS_PROCESSES, meet_and_part, NULL, 20);
    ck_assert_int_eq(rmdir(path), 0);
}

RANKS_TEST(meeting, signals_do_not_disturb, 4)
{
    if (self->rank == 0)
        pause_ms(50);
    test_interrupt(300);
    for (int i = 0; i < 5 && !self->report->failed[0]; i++)
        meet_and_part(self, arg);
    test_interrupt(0);
}

/* ---- The rank that is wrong is named ---- */

/* The rank that says something else than it is, and what all ranks read. */
static const struct wrong {
    int rank, says_rank, says_nranks;
    bool same_device; /* it uses rank 0's */
    const char *text[2];
} wrongs[] = {
    {3, 1, 4, false, {"rank 1 came twice", "pid"}},
    {2, 2, 5, false, {"rank 2", "has nranks 5, rank 0 has 4"}},
    {1, 5, 6, false, {"rank 5", "has nranks 6, rank 0 has 4"}},
    {2,
     2,
     4,
     true,
     {"4 ranks, 3 devices: rank 0 and rank 2",
      "same device, GPU-00070707-0707-0707-0707-070707070707"}},
};

TEST_GROUP(refusing, 60, IN_A_FOLDER);

UNMET_TEST(refusing, all_ranks_read_which_rank_is_wrong, 4, .arg = (void *)&wrongs[_i],
           .loop = {0, sizeof wrongs / sizeof wrongs[0]})
{
    const struct wrong *w = arg;
    symm_config config = rank_config(self);
    char device[16];

    memset(device, 7, sizeof device);
    device[0] = (char)self->rank;
    if (self->rank == w->rank) {
        config.rank = w->says_rank;
        config.nranks = w->says_nranks;
        device[0] = w->same_device ? 0 : device[0];
    }
    m->config.device_uuid = device;
    int64_t before = now_ms();
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, w->text[0], meet_as(m, &config));
    RANK_TEXT(self, w->text[1]);
    CHECK_RANK(self, now_ms() - before < 5000);
out:;
}

RANKS_TEST(refusing, a_wrong_token_is_refused, 3)
{
    struct meeting m = {.config = {.timeout_ms = 1000}};

    setenv("SYMM_TOKEN",
           self->rank == 2 ? "ffffffffffffffffffffffffffffffff"
                           : "00000000000000000000000000000001",
           1);
    if (self->rank == 2)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "SYMM_TOKEN", meet(self, &m));
    else
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "rank 2 of 3 did not join", meet(self, &m));
    RANK_TEXT(self, "the token (SYMM_TOKEN) of rank 2");
out:
    part(&m);
}

UNMET_TEST(refusing, other_versions_and_hosts_are_refused, 3, .arg = _i ? folder : NULL,
           .loop = {0, 2})
{
    const bool version = arg != NULL;
    struct symm_message heard;
    int fd = -1;

    if (self->rank == 2) {
        fd = join_by_hand(self, &(struct hello_by_hand){version, !version, 0});
        CHECK_RANK(self, hear(fd, &heard) == SYMM_RECEIVED && heard.type == SYMM_MESSAGE_ENDED);
    } else if (version) {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_VERSION, "rank 2 (pid", meet(self, m));
        RANK_TEXT(self, "has symm 101, rank 0 has 100");
    } else {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_UNSUPPORTED, "rank 2 is on another host", meet(self, m));
    }
out:
    symm__fd_close(&fd);
}

/* A hub that speaks by hand: it answers whatever comes in the words of another version. */
static bool answer_as_another_version(struct rank *self)
{
    const symm_config config = rank_config(self);
    struct symm_rendezvous place = {.listener = -1};
    struct symm_message m = {.type = SYMM_MESSAGE_ENDED, .rank = -1, .status = SYMM_ERROR_VERSION};
    struct symm_join join;
    struct symm_frame *frame = NULL;
    int fd = -1;

    if (symm__join_resolve(&config, NULL, &join) != SYMM_OK ||
        symm__rendezvous_open(&place, join.session, symm__deadline_in(5000), &silent) != SYMM_OK)
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
    symm__rendezvous_close(&place, SYMM_ERROR_PEER, "over");
    return true;
}

UNMET_TEST(refusing, a_rank_0_of_another_version_is_named, 2)
{
    if (self->rank == 0)
        CHECK_RANK(self, answer_as_another_version(self));
    else
        RANK_EXPECT_TEXT(self, SYMM_ERROR_VERSION, "rank 0 has version 101 of symm, this rank 100",
                         meet(self, m));
out:;
}

/* ---- Ranks that do not come ---- */

RANKS_TEST(refusing, missing_ranks_are_named, 4, .arg = &(int){_i ? 6 : 5}, .loop = {0, 2})
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

RANKS_TEST(refusing, after_a_failed_attempt_the_next_one_works, 3)
{
    struct meeting m = {.config = {.timeout_ms = 300}};

    if (self->rank != 1)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "rank 1 of 3 did not join", meet(self, &m));
    self->report->value[0] = 1;
    if (self->rank == 1) /* comes when all others have failed */
        await_rank(self, 0), await_rank(self, 2);
    meet_and_part(self, arg);
out:;
}

TEST_GROUP(late_or_silent, 60, IN_A_FOLDER);

/* ---- Ranks that come late, or say nothing ---- */

UNMET_TEST(late_or_silent, a_rank_that_comes_after_a_refusal_reads_it, 3)
{
    struct symm_message heard;
    int fd = -1;

    if (self->rank == 1) {
        fd = join_by_hand(self, &(struct hello_by_hand){.more_ranks = 1});
        CHECK_RANK(self, hear(fd, &heard) == SYMM_RECEIVED && heard.type == SYMM_MESSAGE_ENDED);
        self->report->value[0] = 1;
        CHECK_RANK(self, hear(fd, &heard) != SYMM_RECEIVED_NOTHING); /* the hub ends */
    } else {
        if (self->rank == 2)
            await_rank(self, 1);
        RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "has nranks 4, rank 0 has 3", meet(self, m));
    }
out:
    symm__fd_close(&fd);
}

enum { SILENT = 30 };

/* More connections than the hub has places, all of them before rank 1 comes. */
UNMET_TEST(late_or_silent, silent_connections_make_room_and_are_told, 2)
{
    const symm_config config = rank_config(self);
    struct symm_message heard;
    struct symm_join join;
    int fds[SILENT], told[2] = {0};

    memset(fds, -1, sizeof fds);
    if (self->rank == 1) {
        RANK_TRY(self, symm__join_resolve(&config, NULL, &join));
        for (int i = 0; i < SILENT; i++)
            CHECK_RANK(self, (fds[i] = connect_to(join.session)) >= 0);
    }
    RANK_TRY(self, meet(self, m));
    for (int i = 0; self->rank == 1 && i < SILENT; i++) {
        CHECK_RANK(self, hear(fds[i], &heard) == SYMM_RECEIVED);
        CHECK_RANK(self, heard.type == SYMM_MESSAGE_ENDED);
        told[0] += strstr(heard.reason, "other connections wait") != NULL;
        told[1] += strstr(heard.reason, "have joined without this one") != NULL;
    }
    CHECK_RANK_MSG(self, self->rank == 0 || (told[0] > 0 && told[0] + told[1] == SILENT),
                   "%d made room, %d came too late", told[0], told[1]);
    RANK_TRY(self, barrier(m->world, "barrier", 5000));
out:
    symm__fd_close_all(fds, SILENT);
}

/* Another version, from a process that has the token or has not. */
UNMET_TEST(late_or_silent, another_version_without_the_token_ends_nothing, 3,
           .arg = _i ? folder : NULL, .loop = {0, 2})
{
    const bool knows_token = arg != NULL;
    struct symm_message heard;
    int fd = -1;

    setenv("SYMM_TOKEN", "00000000000000000000000000000001", 1);
    if (self->rank == 1) {
        if (!knows_token)
            setenv("SYMM_TOKEN", "00000000000000000000000000000002", 1);
        fd = join_by_hand(self, &(struct hello_by_hand){.other_version = true});
        CHECK_RANK(self, hear(fd, &heard) == SYMM_RECEIVED);
        CHECK_RANK(self, heard.type == SYMM_MESSAGE_ENDED && heard.status == SYMM_ERROR_VERSION);
        setenv("SYMM_TOKEN", "00000000000000000000000000000001", 1);
    }
    if (knows_token && self->rank != 1)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_VERSION, "rank 1 (pid", meet(self, m));
    else if (!knows_token)
        RANK_TRY(self, meet(self, m));
out:
    symm__fd_close(&fd);
}

UNMET_RANK(die_while_joining)
{
    const int dies = *(int *)arg;
    char want[32];

    snprintf(want, sizeof want, "rank %d (pid", dies);
    if (self->rank == 3)
        return; /* so that the others wait */
    self->report->value[0] = 1;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, want, meet(self, m));
    self->report->value[1] = now_ms();
    RANK_TEXT(self, "died");
out:;
}

TEST_LOOP(refusing, a_rank_that_dies_while_joining_is_named_at_once, 0, 3)
{
    int dies = _i;
    struct rank_report reports[RANKS_MAX];
    struct ranks *run = ranks_start(4, RANKS_AS_PROCESSES, die_while_joining, &dies);

    for (int r = 0; r < 3; r++)
        ranks_await(run, r, 0, 1);
    pause_ms(300); /* all are waiting by now */
    int64_t killed = now_ms();
    kill(ranks_pid(run, dies), SIGKILL);
    ranks_end(run, reports, 20);
    for (int r = 0; r < 3; r++) {
        if (r == dies)
            continue;
        ranks_assert_clean(&reports[r], 1);
        ck_assert_int_lt(reports[r].value[1] - killed, 2500); /* 1 s: rank 3 may come */
    }
    if (dies == 0) /* it has left its socket: the next job takes that away */
        ranks_run_ok(2, RANKS_AS_PROCESSES, meet_and_part, NULL, 20);
}
