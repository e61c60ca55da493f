/* What ends a comm: deaths, goodbyes, time and aborts, with real processes and no driver. */
#include <signal.h>
#include <sys/wait.h>
#include "runtime/exchange/exchange.h"
#include "folder.h"
#include "meet.h"
#include "test.h"

/* ---- Death ---- */

struct death {
    int dies;
    bool in_step; /* the others wait in a vote; else the comm is idle */
};

static void outlive(struct rank *self, void *arg)
{
    const struct death *d = arg;
    struct meeting m = {.x = NULL};
    struct symm_host_comm *pair = NULL;
    const int ranks[] = {2, 1}, others[] = {1, 3};
    char want[64];

    snprintf(want, sizeof want, "rank %d (pid", d->dies);
    RANK_TRY(self, meet(self, &m));
    if (self->rank == 1 || self->rank == 2)
        RANK_TRY(self, create_comm(&m, m.world, 2, ranks, "pair", &pair));
    RANK_TRY(self, barrier(m.world, "ready", 5000));
    self->report->value[0] = 1;
    if (self->rank == d->dies)
        pause_ms(20000);
    if (d->in_step) {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, want, barrier(m.world, "never", 20000));
    } else {
        while (symm__host_comm_check(m.world) == SYMM_OK) /* m.ended may be the pair's */
            pause_ms(1);
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, want, symm__host_comm_check(m.world));
    }
    self->report->value[1] = now_ms();
    /* It is sticky, and reached the owner once; comms without the dead rank live on. */
    RANK_EXPECT(self, SYMM_ERROR_PEER, barrier(m.world, "again", 5000));
    RANK_EXPECT(self, SYMM_ERROR_PEER, create_comm(&m, m.world, 2, others, "no more", &pair));
    if (pair) {
        symm_status st = barrier(pair, "pair", 1000);
        CHECK_RANK_MSG(self, st == (d->dies == 3 ? SYMM_OK : SYMM_ERROR_PEER), "%s",
                       symm__failure_text());
    }
    const int ends = pair && d->dies != 3 ? 2 : 1; /* every rank needs rank 0 */
    for (int ms = 0; ms < 1000 && m.ended < ends; ms++)
        pause_ms(1); /* it is called after the vote has returned */
    CHECK_RANK(self, m.ended == ends);
out:
    symm__host_comm_close(pair);
    int64_t before = now_ms();
    part(&m);
    if (!self->report->failed[0] && now_ms() - before > 4000)
        rank_fail(self, RANK_HERE_, "leaving took %lld ms", (long long)(now_ms() - before));
}

TEST_GROUP(ends, 60, IN_A_FOLDER);

TEST_LOOP(ends, a_death_is_known_within_a_second, 0, 8)
{
    struct death d = {.dies = _i / 2, .in_step = _i % 2};
    struct rank_report reports[RANKS_MAX];
    struct ranks *run = ranks_start(4, RANKS_AS_PROCESSES, outlive, &d);

    for (int r = 0; r < 4; r++)
        ranks_await(run, r, 0, 1);
    pause_ms(50);
    int64_t killed = now_ms();
    kill(ranks_pid(run, d.dies), SIGKILL);
    ranks_end(run, reports, 20);
    for (int r = 0; r < 4; r++)
        if (r != d.dies) {
            ranks_assert_ok(&reports[r], 1);
            ck_assert_int_lt(reports[r].value[1] - killed, 1000);
        }
}

struct leaver {
    int rank;
    bool exits; /* as a program does that forgets; else without a word */
};

MEETING_TEST(ends, an_exit_is_told_from_a_death, 3, .lost = 1u << _i / 2,
             .arg = &((struct leaver){.rank = _i / 2, .exits = _i % 2}), .loop = {0, 4})
{
    const struct leaver *leaver = arg;

    RANK_TRY(self, barrier(m->world, "ready", 5000));
    if (self->rank == leaver->rank) {
        const pid_t child = fork(); /* whose exit nobody must hear of */
        if (child == 0)
            exit(0);
        waitpid(child, NULL, 0);
        pause_ms(100);
        RANK_TRY(self, symm__host_comm_check(m->world));
        if (leaver->exits)
            exit(0);
        _exit(0);
    }
    RANK_EXPECT(self, SYMM_ERROR_PEER, barrier(m->world, "never", 5000));
    CHECK_RANK_MSG(self,
                   strstr(self->report->text,
                          leaver->exits ? ") exited without destroying its context" : ") died"),
                   "%s", self->report->text);
out:;
}

/* The dead rank has a child that still holds its connection, as a worker of a data loader does. */
MEETING_TEST(ends, children_do_not_hide_a_death, 3, .lost = 1u << _i, .arg = &(int){_i},
             .loop = {0, 2})
{
    const int dies = *(int *)arg;
    char want[64];

    snprintf(want, sizeof want, "rank %d (pid", dies);
    if (self->rank == dies) {
        const pid_t child = fork();
        if (child == 0) {
            pause_ms(3000);
            _exit(0);
        }
    }
    RANK_TRY(self, barrier(m->world, "ready", 5000));
    if (self->rank == dies)
        raise(SIGKILL);
    int64_t before = now_ms();
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, want, barrier(m->world, "never", 5000));
    CHECK_RANK(self, now_ms() - before < 1000);
out:;
}

MEETING_TEST(ends, survivors_begin_anew, 4, .lost = 1u)
{
    struct meeting rest = {.x = NULL};
    char session[80];
    bool right = true;

    RANK_TRY(self, barrier(m->world, "ready", 5000));
    if (self->rank == 0)
        raise(SIGKILL);
    RANK_EXPECT(self, SYMM_ERROR_PEER, barrier(m->world, "never", 5000));
    part(m);
    snprintf(session, sizeof session, "%s rest", self->session);
    RANK_TRY(self, meet_as(&rest, &(symm_config){.rank = self->rank - 1,
                                                 .nranks = self->nranks - 1,
                                                 .session = session}));
    RANK_TRY(self, agree(rest.world, "rest", 1, &right));
    CHECK_RANK(self, right);
out:
    part(&rest);
}

/* Rank 1 learns late that its world has ended; a comm that it makes of it ends at once. */
UNMET_TEST(ends, a_comm_made_after_the_hub_is_gone_ends_at_once, 3, .lost = 1u)
{
    static const int pair[] = {1, 2};
    struct symm_host_comm *comm = NULL;

    if (self->rank == 1)
        setenv("SYMM_TEST_ABORT_DELAY_MS", "5000", 1);
    RANK_TRY(self, meet(self, m));
    RANK_TRY(self, barrier(m->world, "ready", 5000));
    if (self->rank == 0)
        raise(SIGKILL);
    if (self->rank == 2)
        RANK_EXPECT(self, SYMM_ERROR_PEER, barrier(m->world, "never", 5000));
    /* The first one may wait for the news, the second one cannot. */
    for (int i = 0; i < 2 && self->rank == 1; i++)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, ") died",
                         create_comm(m, m->world, 2, pair, "create", &comm));
    if (self->rank == 1)
        RANK_TRY(self, symm__host_comm_check(m->world));
out:;
}

/* ---- Leaving ---- */

MEETING_TEST(ends, leaving_is_not_dying, 3)
{
    RANK_TRY(self, barrier(m->world, "last", 5000));
    if (self->rank == 1)
        goto out; /* as it may: it has got its result */
    pause_ms(200);
    CHECK_RANK(self, m->ended == 0);
    RANK_TRY(self, symm__host_comm_check(m->world));
    pause_ms(300);
    if (self->rank == 2)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 1 has left",
                         barrier(m->world, "one more", 5000));
    else
        pause_ms(300);
out:;
}

/* Rank 0 leaves while the others go on. A child of it still holds its connections. */
MEETING_TEST(ends, children_do_not_hide_that_rank_0_has_left, 3)
{
    static const int pair[] = {1, 2};
    const struct rank_report *reports = self->report - self->rank;
    struct symm_host_comm *comm = NULL;
    symm_status st = SYMM_OK;
    pid_t child = 0;

    if (self->rank)
        RANK_TRY(self, create_comm(m, m->world, 2, pair, "create", &comm));
    RANK_TRY(self, barrier(m->world, "ready", 5000));
    if (self->rank == 0) {
        child = fork();
        if (child == 0) {
            pause_ms(15000);
            _exit(0);
        }
        symm__host_comm_abort(m->world, SYMM_ERROR_PEER, "leaves"); /* so its hub waits for 2 s */
        part(m);
    }
    for (; self->rank && st == SYMM_OK; pause_ms(1))
        st = barrier(comm, "goes on", 3000);
    if (self->rank)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, ") has left", symm__host_comm_check(comm));
    __atomic_store_n(&self->report->value[0], 1, __ATOMIC_RELEASE);
    for (int ms = 0; ms < 8000 && !(__atomic_load_n(&reports[1].value[0], __ATOMIC_ACQUIRE) &&
                                    __atomic_load_n(&reports[2].value[0], __ATOMIC_ACQUIRE));
         ms++)
        pause_ms(1);
out:
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    symm__host_comm_close(comm);
}

MEETING_TEST(ends, rank_0_waits_for_slower_ranks, 3)
{
    RANK_TRY(self, barrier(m->world, "last", 5000));
    if (self->rank)
        pause_ms(600);
    RANK_TRY(self, symm__host_comm_check(m->world)); /* rank 0 still serves */
out:;
}

/* ---- Time ---- */

MEETING_TEST(ends, late_ranks_are_named_with_their_activity, 4)
{
    struct symm_host_comm *pair = NULL;
    const int ranks[] = {2, 3};
    bool right = true;

    RANK_TRY(self, agree(m->world, "symm_exchange(8 bytes)", 0, &right));
    if (self->rank == 2) {
        /* waits elsewhere, for a rank that does not come there */
        RANK_EXPECT(self, SYMM_ERROR_TIMEOUT,
                    symm__host_comm_create(m->world, 2, ranks, &m->events,
                                           &(struct symm_vote){.text = "symm_group_create(2, 3)"},
                                           symm__deadline_in(3000), &pair));
    } else if (self->rank == 3) {
        pause_ms(1000);
    } else {
        int64_t before = now_ms();
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "rank 2, 3 did not reach symm_alloc(1) within ",
                         barrier(m->world, "symm_alloc(1)", self->rank ? 5000 : 500));
        CHECK_RANK(self, now_ms() - before < 2500);
        RANK_TEXT(self, "rank 2 waits in symm_group_create(2, 3), on another group");
        RANK_TEXT(self, "the last call that rank 3 finished is symm_exchange(8 bytes)");
    }
    RANK_EXPECT(self, SYMM_ERROR_TIMEOUT, barrier(m->world, "too late", 5000));
out:;
}

/* A rank is stopped: it can neither come nor say what it does instead. Rank 0 has the hub. */
MEETING_RANK(be_stopped)
{
    const int stopped = *(int *)arg;
    volatile int64_t *told = &self->report->value[0];

    RANK_TRY(self, barrier(m->world, "symm_trim()", 5000));
    if (self->rank == stopped)
        raise(SIGSTOP);
    if (self->rank == 0 && stopped == 0)
        goto out; /* its vote could be the last one, before it reads that the others are gone */
    RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT,
                     stopped ? "rank 1 did not reach symm_alloc(1) within " : "rank 0 (pid ",
                     barrier(m->world, "symm_alloc(1)", 500));
    RANK_TEXT(self, stopped ? "; rank 1 does not answer; the last call that rank 1 "
                              "finished is symm_trim()"
                            : ") does not answer");
    *told = 1;
out:;
}

TEST_LOOP(ends, a_rank_that_does_not_answer_is_said_not_to, 0, 2)
{
    struct rank_report reports[RANKS_MAX];
    int stopped = _i;
    struct ranks *run = ranks_start(3, RANKS_AS_PROCESSES, be_stopped, &stopped);

    ranks_await(run, !stopped, 0, 1);
    ranks_await(run, 2, 0, 1);
    kill(ranks_pid(run, stopped), SIGCONT);
    ranks_end(run, reports, 20);
    ranks_assert_ok(reports, 3);
}

/* Rank 1 waits first for rank 0 and then, with it, for rank 2: together as long as it may. */
RANKS_TEST(ends, the_time_to_join_counts_from_the_beginning, 3)
{
    struct meeting m = {.config = {.timeout_ms = self->rank ? 1200 : 20000}};

    if (self->rank == 0)
        pause_ms(500);
    if (self->rank < 2) {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "rank 2 of 3 did not join", meet(self, &m));
        CHECK_RANK_MSG(self, atoi(strstr(self->report->text, "within ") + 7) >= 1200, "%s",
                       self->report->text);
    }
out:
    return;
}

static void hear(void *user, int level, const char *line)
{
    struct meeting *m = user;

    if (level == SYMM_LOG_WARNING) {
        snprintf(m->log_text, sizeof m->log_text, "%s", line);
        m->ticks++;
    }
}

UNMET_TEST(ends, slow_ranks_are_reported, 3)
{
    m->log = (struct symm_log){.to = hear, .user = m};
    setenv("SYMM_SLOW_MS", "100", 1);
    if (self->rank == 0)
        pause_ms(250);
    if (self->rank == 2)
        pause_ms(800);
    RANK_TRY(self, meet(self, m));
    /* One each 100 ms; on a machine that is busy with other things each may come later. */
    if (self->rank == 1)
        CHECK_RANK_MSG(self, m->ticks >= 3 && m->ticks <= 9, "%d reports", m->ticks);
    if (self->rank == 0) {
        CHECK_RANK_MSG(self, !strcmp(m->log_text, "symm[0]: waiting for rank 2 of 3 to join"), "%s",
                       m->log_text);
        CHECK_RANK_MSG(self, m->ticks >= 2 && m->ticks <= 6, "%d reports", m->ticks);
    }
    if (self->rank == 1)
        pause_ms(350);
    RANK_TRY(self, barrier(m->world, "symm_trim()", 5000));
    if (self->rank != 1)
        CHECK_RANK_MSG(self, strstr(m->log_text, "waiting for rank 1 in symm_trim()"), "%s",
                       m->log_text);
out:;
}

/* A program that has had enough: a report may call what any thread may call. */
static void abort_on_report(void *user, int level, const char *line)
{
    struct meeting *m = user;

    (void)line;
    if (level == SYMM_LOG_WARNING && m->world)
        symm__host_comm_abort(m->world, SYMM_ERROR_PEER, "too slow for me");
}

UNMET_TEST(ends, a_report_may_abort, 2, .env = {{"SYMM_SLOW_MS", "150"}})
{
    m->log = (struct symm_log){.to = abort_on_report, .user = m};
    RANK_TRY(self, meet(self, m));
    if (self->rank == 1)
        pause_ms(500);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "too slow", barrier(m->world, "symm_trim()", 5000));
out:;
}

/* ---- Aborts ---- */

static void *abort_soon(void *arg)
{
    struct meeting *m = arg;

    pause_ms(100);
    symm__host_comm_abort(m->world, SYMM_ERROR_PEER, "rank 1 aborted: enough");
    return NULL;
}

RANKS_TEST(ends, an_abort_from_another_thread_ends_all, 4, _i, .loop = {0, 2})
{
    struct meeting m = {.x = NULL};
    pthread_t thread;
    bool started = false;

    RANK_TRY(self, meet(self, &m));
    if (self->rank == 1)
        started = pthread_create(&thread, NULL, abort_soon, &m) == 0;
    if (self->rank != 2)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 1 aborted: enough",
                         barrier(m.world, "never", 5000));
    else
        while (!m.ended)
            pause_ms(1);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 1 aborted: enough",
                     symm__host_comm_check(m.world));
    symm__host_comm_abort(m.world, SYMM_ERROR_TIMEOUT, "the first one counts");
    RANK_EXPECT(self, SYMM_ERROR_PEER, barrier(m.world, "again", 5000));
out:
    if (started)
        pthread_join(thread, NULL);
    while (m.x && !self->report->failed[0] && !m.ended)
        pause_ms(1);
    part(&m);
    if (m.ended != 1)
        rank_fail(self, RANK_HERE_, "ended came %d times", m.ended);
}

MEETING_TEST(ends, an_abort_ends_one_comm_only, 4)
{
    struct symm_host_comm *half = NULL;
    const int mates[2][2] = {{0, 1}, {2, 3}};
    bool right = true;

    RANK_TRY(self, create_comm(m, m->world, 2, mates[self->rank / 2], "half", &half));
    if (self->rank == 3)
        symm__host_comm_abort(half, SYMM_ERROR_PEER, "rank 3 aborted");
    if (self->rank < 2)
        RANK_TRY(self, agree(half, "half", 1, &right));
    else
        RANK_EXPECT(self, SYMM_ERROR_PEER, barrier(half, "half", 5000));
    RANK_TRY(self, agree(m->world, "world", 1, &right));
    CHECK_RANK(self, right);
    for (int ms = 0; ms < 1000 && m->ended < (self->rank >= 2); ms++)
        pause_ms(1);
    CHECK_RANK(self, m->ended == (self->rank >= 2));
out:
    symm__host_comm_close(half);
}

UNMET_TEST(ends, aborts_can_be_made_to_arrive_apart, 3, .lost = 1u << 1)
{
    if (self->rank == 2)
        setenv("SYMM_TEST_ABORT_DELAY_MS", "900", 1);
    RANK_TRY(self, meet(self, m));
    RANK_TRY(self, barrier(m->world, "ready", 5000));
    int64_t before = now_ms();
    if (self->rank == 1)
        raise(SIGKILL);
    while (!m->ended)
        pause_ms(1);
    const int64_t took = now_ms() - before;
    CHECK_RANK_MSG(self, self->rank == 2 ? took >= 900 && took < 1900 : took < 500, "%lld ms",
                   (long long)took);
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm__host_comm_check(m->world));
out:;
}
