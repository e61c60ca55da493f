/* Steps, lanes and what ends them, with real processes and no driver. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include "meet.h"
#include "runtime/fd.h"
#include "test.h"

static char folder[64];
static void set_up(void)
{
    enter_folder(folder);
}

static void tear_down(void)
{
    leave_folder(folder);
}

/* ---- Verdicts ---- */

static void gather_sizes(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    unsigned char *mine = NULL, *all = NULL;
    const size_t most = symm__step_max(self->nranks), sizes[] = {0, 1, 7, 4096, most};

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    mine = malloc(most);
    all = malloc(most * (size_t)self->nranks);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct symm_step step = {.what = "gather", .mine = mine, .nbytes = sizes[i], .all = all};
        memset(mine, self->rank + (int)i, most);
        RANK_TRY(self, symm__lane_step(m.world, &step, symm__deadline_in(5000)));
        for (int r = 0; r < self->nranks; r++)
            for (size_t b = 0; b < sizes[i]; b++)
                self->report->wrong += all[(size_t)r * sizes[i] + b] != (unsigned char)(r + (int)i);
    }
    struct symm_step big = {.what = "gather", .mine = mine, .nbytes = most + 1};
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "too many for one step",
                     symm__lane_step(m.world, &big, symm__deadline_in(5000)));
    RANK_TRY(self, barrier(m.world, "barrier", 5000));
out:
    free(mine);
    free(all);
    part(&m);
}

START_TEST(bytes_of_any_size_are_gathered)
{
    ranks_run_ok(5, _i ? RANKS_AS_THREADS : RANKS_AS_PROCESSES, gather_sizes, NULL, 20);
}
END_TEST

static void disagree(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    const char *text;
    int32_t word = 0;

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    /* Different calls: all ranks read who called what. */
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "rank 0, 2: symm_alloc(4096); rank 1: symm_trim()",
                     barrier(m.world, self->rank == 1 ? "symm_trim()" : "symm_alloc(4096)", 5000));
    /* Different sizes of the same call. */
    struct symm_step step = {.what = "exchange", .mine = &word, .nbytes = self->rank == 2 ? 2 : 4};
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "rank 0 brought 4 bytes, rank 2 2 bytes",
                     symm__lane_step(m.world, &step, symm__deadline_in(5000)));
    /* Failures: the lowest rank's, with its text. */
    step = (struct symm_step){.what = "symm_alloc(1)"};
    if (self->rank > 0)
        step.status = symm__fail(self->rank == 1 ? SYMM_ERROR_DRIVER : SYMM_ERROR_MEMORY,
                                 "text of rank %d", self->rank);
    RANK_EXPECT(self, SYMM_ERROR_DRIVER, symm__lane_step(m.world, &step, symm__deadline_in(5000)));
    text = self->report->text;
    CHECK_RANK_MSG(self, !strcmp(text, "rank 1: text of rank 1"), "%s", text);
    /* None of that is sticky. */
    RANK_TRY(self, barrier(m.world, "barrier", 5000));
    RANK_TRY(self, symm__lane_check(m.world));
    CHECK_RANK(self, m.ended == 0);
out:
    part(&m);
}

START_TEST(all_ranks_get_one_verdict)
{
    ranks_run_ok(3, _i ? RANKS_AS_THREADS : RANKS_AS_PROCESSES, disagree, NULL, 20);
}
END_TEST

/* ---- Descriptors ---- */

/* A descriptor that reads as the rank. */
static int make_card(int rank)
{
    int fd = memfd_create("card", MFD_CLOEXEC);

    if (fd >= 0 && pwrite(fd, &rank, sizeof rank, 0) != sizeof rank)
        symm__fd_close(&fd);
    return fd;
}

static bool is_card_of(int fd, int rank)
{
    int read_rank = -1;

    return fcntl(fd, F_GETFD) & FD_CLOEXEC && pread(fd, &read_rank, sizeof read_rank, 0) == 4 &&
           read_rank == rank;
}

static void pass_descriptors(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    int fds[RANKS_MAX], card = make_card(self->rank);

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    for (int round = 0; round < 50; round++) {
        /* In even rounds all give one, in odd ones only odd ranks. */
        struct symm_step step = {.what = "descriptors",
                                 .gives_fd = round % 2 == 0 || self->rank % 2,
                                 .fd = card,
                                 .fds = fds};
        RANK_TRY(self, symm__lane_step(m.world, &step, symm__deadline_in(5000)));
        for (int r = 0; r < self->nranks; r++)
            self->report->wrong += round % 2 == 0 || r % 2 ? !is_card_of(fds[r], r) : fds[r] != -1;
        symm__fd_close_all(fds, self->nranks);
    }
    /* Nobody wants them: they are closed. The same if a rank fails. */
    struct symm_step step = {.what = "descriptors", .gives_fd = true, .fd = card};
    RANK_TRY(self, symm__lane_step(m.world, &step, symm__deadline_in(5000)));
    step.fds = fds;
    step.status = self->rank == 1 ? symm__fail(SYMM_ERROR_DRIVER, "no export") : SYMM_OK;
    RANK_EXPECT(self, SYMM_ERROR_DRIVER, symm__lane_step(m.world, &step, symm__deadline_in(5000)));
    self->report->status = SYMM_OK;
out:
    symm__fd_close(&card);
    part(&m);
}

START_TEST(descriptors_go_from_all_to_all)
{
    ranks_run_ok(8, _i ? RANKS_AS_THREADS : RANKS_AS_PROCESSES, pass_descriptors, NULL, 20);
}
END_TEST

static void run_out_of_descriptors(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    int fds[RANKS_MAX], card = make_card(self->rank), hog[64], nhog = 0;

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    if (self->rank == 2) {
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64});
        while (nhog < 64 && (hog[nhog] = dup(card)) >= 0)
            nhog++;
    }
    struct symm_step step = {.what = "descriptors", .gives_fd = true, .fd = card, .fds = fds};
    RANK_EXPECT_TEXT(self, SYMM_ERROR_SYSTEM,
                     "rank 2: ", symm__lane_step(m.world, &step, symm__deadline_in(5000)));
    CHECK_RANK_MSG(self, strstr(self->report->text, "RLIMIT_NOFILE is 64"), "%s",
                   self->report->text);
    RANK_TRY(self, barrier(m.world, "barrier", 5000));
out:
    symm__fd_close_all(hog, nhog);
    symm__fd_close(&card);
    part(&m);
}

START_TEST(a_rank_without_descriptors_fails_the_step_for_all)
{
    ranks_run_ok(4, RANKS_AS_PROCESSES, run_out_of_descriptors, NULL, 20);
}
END_TEST

/* ---- Lanes ---- */

static symm_status create(struct meeting *m, struct symm_lane *of, int n, const int *ranks,
                          const char *what, struct symm_lane **out)
{
    struct symm_step step = {.what = what};
    return symm__lane_create(of, n, ranks, &m->events, &step, symm__deadline_in(5000), out);
}

/* Ranks 0, 1 and 3, 2 work apart from each other, at their own pace; rank 0 knows nothing of the
 * second lane. */
static void work_in_halves(struct rank *self, void *arg)
{
    static const int halves[2][2] = {{0, 1}, {3, 2}};
    struct meeting m = {.x = NULL};
    struct symm_lane *half = NULL, *same = NULL, *single = NULL;
    const int which = self->rank / 2, me = 0;
    bool right = true;

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    for (int i = 0; i < 20; i++) {
        RANK_TRY(self, create(&m, m.world, 2, halves[which], "create", &half));
        CHECK_RANK(self, symm__lane_nranks(half) == 2);
        CHECK_RANK(self, symm__lane_ranks(half)[symm__lane_rank(half)] == self->rank);
        CHECK_RANK(self, symm__lane_rank(half) == (self->rank == 1 || self->rank == 2));
        for (int k = 0; k < (which ? 40 : 10); k++)
            RANK_TRY(self, agree(half, "half", 1000 * which + k, &right));
        /* The same ranks again, numbered within the half; and one alone. */
        RANK_TRY(self, create(&m, half, 2, (int[]){1, 0}, "create", &same));
        RANK_TRY(self, create(&m, m.world, 1, &self->rank, "alone", &single));
        RANK_TRY(self, agree(same, "same", 7, &right));
        RANK_TRY(self, agree(half, "half", 8, &right));
        RANK_TRY(self, agree(single, "single", 9, &right));
        CHECK_RANK(self, symm__lane_rank(single) == me);
        symm__lane_close(half);
        half = NULL;
        RANK_TRY(self, agree(same, "its parent is closed", 10, &right));
        symm__lane_close(same);
        symm__lane_close(single);
        same = single = NULL;
    }
    RANK_TRY(self, agree(m.world, "world", 3, &right));
    self->report->wrong = !right;
    CHECK_RANK(self, m.ended == 0);
out:
    symm__lane_close(half);
    symm__lane_close(same);
    symm__lane_close(single);
    part(&m);
}

START_TEST(lanes_work_apart)
{
    ranks_run_ok(4, _i ? RANKS_AS_THREADS : RANKS_AS_PROCESSES, work_in_halves, NULL, 40);
}
END_TEST

static void fail_to_create(struct rank *self, void *arg)
{
    static const int ranks[] = {2, 0, 1};
    struct meeting m = {.x = NULL};
    struct symm_lane *lane = NULL;
    struct symm_step step = {.what = "symm_group_create(3 ranks)"};

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    step.status = self->rank == 1 ? symm__fail(SYMM_ERROR_MEMORY, "nothing left") : SYMM_OK;
    RANK_EXPECT_TEXT(
        self, SYMM_ERROR_MEMORY, "rank 1: nothing left",
        symm__lane_create(m.world, 3, ranks, &m.events, &step, symm__deadline_in(5000), &lane));
    CHECK_RANK(self, !lane);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, ": a; rank 0: b",
                     create(&m, m.world, 3, ranks, self->rank ? "a" : "b", &lane));
    /* Rank 0 does not come in time: the others are told, and rank 0 when it comes. */
    step = (struct symm_step){.what = "symm_group_create(late)"};
    if (self->rank == 0)
        pause_ms(600);
    RANK_EXPECT_TEXT(
        self, SYMM_ERROR_TIMEOUT, "rank 0 did not come to symm_group_create(late)",
        symm__lane_create(m.world, 3, ranks, &m.events, &step, symm__deadline_in(300), &lane));
    /* None of that harms the parent, or the next attempt. */
    RANK_TRY(self, create(&m, m.world, 3, ranks, "create", &lane));
    RANK_TRY(self, barrier(lane, "barrier", 5000));
    RANK_TRY(self, barrier(m.world, "barrier", 5000));
    CHECK_RANK(self, m.ended == 0);
out:
    symm__lane_close(lane);
    part(&m);
}

START_TEST(a_lane_is_made_on_all_ranks_or_none)
{
    ranks_run_ok(3, _i ? RANKS_AS_THREADS : RANKS_AS_PROCESSES, fail_to_create, NULL, 20);
}
END_TEST

/* ---- The arbiter ---- */

struct arbiter {
    int nfreed, ndecided;
    uint64_t sum, args[4];
    symm_status status;
    struct symm_rank_set members;
};

static void arbiter_freed(void *self, int rank, uint64_t off)
{
    struct arbiter *a = self;

    a->nfreed++;
    a->sum += off + (uint64_t)rank;
}

static symm_status arbiter_decide(void *self, uint32_t op, struct symm_rank_set members,
                                  symm_status status, const uint64_t args[4], uint64_t answer[4])
{
    struct arbiter *a = self;

    a->ndecided++;
    a->members = members;
    a->status = status;
    memcpy(a->args, args, sizeof a->args);
    for (int i = 0; i < 4; i++)
        answer[i] = args[i] + op;
    answer[3] = (uint64_t)a->nfreed;
    return op == 9 ? symm__fail(SYMM_ERROR_MEMORY, "the window is full") : SYMM_OK;
}

static void be_judged(struct rank *self, void *arg)
{
    enum { FREED = 2500 }; /* more than one message holds */
    struct arbiter a = {.nfreed = 0};
    struct meeting m = {.config = {.arbiter = {arbiter_decide, arbiter_freed, NULL, &a}}};
    struct symm_lane *lane = NULL;

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    for (int i = 1; i <= 20; i++) {
        for (int k = 0; k < FREED; k++)
            symm__exchange_freed(m.x, (uint64_t)k << 20);
        struct symm_step step = {
            .what = "alloc", .op = 2, .args = {100, (uint64_t)self->rank, 300, 400}};
        RANK_TRY(self, symm__lane_step(m.world, &step, symm__deadline_in(5000)));
        CHECK_RANK(self, step.answer[0] == 102 && step.answer[1] == 2 && step.answer[2] == 302);
        /* What was freed before the step is known in it. */
        CHECK_RANK_MSG(self, step.answer[3] == (uint64_t)(i * FREED * self->nranks), "%llu",
                       (unsigned long long)step.answer[3]);
    }
    struct symm_step full = {.what = "alloc", .op = 9};
    RANK_EXPECT(self, SYMM_ERROR_MEMORY, symm__lane_step(m.world, &full, symm__deadline_in(5000)));
    CHECK_RANK(self, !strcmp(self->report->text, "the window is full"));
    /* The arbiter hears of failures, and of the first step of a lane. */
    struct symm_step bad = {.what = "commit", .op = 3};
    if (self->rank == 1)
        bad.status = symm__fail(SYMM_ERROR_DRIVER, "no memory");
    RANK_EXPECT(self, SYMM_ERROR_DRIVER, symm__lane_step(m.world, &bad, symm__deadline_in(5000)));
    CHECK_RANK(self, self->rank || a.status == SYMM_ERROR_DRIVER);
    if (self->rank != 1) {
        struct symm_step first = {.what = "group", .op = 4, .args = {10}};
        RANK_TRY(self, symm__lane_create(m.world, 2, (int[]){2, 0}, &m.events, &first,
                                         symm__deadline_in(5000), &lane));
        CHECK_RANK(self, first.answer[0] == 14);
        CHECK_RANK(self, self->rank || a.members.bits[0] == 5);
    }
    self->report->status = SYMM_OK;
out:
    symm__lane_close(lane);
    part(&m);
}

START_TEST(one_decides_for_all)
{
    ranks_run_ok(3, RANKS_AS_PROCESSES, be_judged, NULL, 20);
}
END_TEST

/* ---- Death ---- */

struct death {
    int dies;
    bool in_step; /* the others wait in a step; else the lane is idle */
};

static void outlive(struct rank *self, void *arg)
{
    const struct death *d = arg;
    struct meeting m = {.x = NULL};
    struct symm_lane *pair = NULL;
    const int ranks[] = {2, 1}, others[] = {1, 3};
    char want[64];

    snprintf(want, sizeof want, "rank %d (pid", d->dies);
    RANK_TRY(self, meet(self, &m));
    if (self->rank == 1 || self->rank == 2)
        RANK_TRY(self, create(&m, m.world, 2, ranks, "pair", &pair));
    RANK_TRY(self, barrier(m.world, "ready", 5000));
    self->report->value[0] = 1;
    if (self->rank == d->dies)
        pause_ms(20000);
    if (d->in_step) {
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, want, barrier(m.world, "never", 20000));
    } else {
        while (symm__lane_check(m.world) == SYMM_OK) /* m.ended may be the pair's */
            pause_ms(1);
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, want, symm__lane_check(m.world));
    }
    self->report->value[1] = now_ms();
    /* It is sticky, and reached the owner once; lanes without the dead rank live on. */
    RANK_EXPECT(self, SYMM_ERROR_PEER, barrier(m.world, "again", 5000));
    RANK_EXPECT(self, SYMM_ERROR_PEER, create(&m, m.world, 2, others, "no more", &pair));
    if (pair) {
        symm_status st = barrier(pair, "pair", 1000);
        CHECK_RANK_MSG(self, st == (d->dies == 3 ? SYMM_OK : SYMM_ERROR_PEER), "%s",
                       symm__failure_text());
    }
    const int ends = pair && d->dies != 3 ? 2 : 1; /* every rank needs rank 0 */
    for (int ms = 0; ms < 1000 && m.ended < ends; ms++)
        pause_ms(1); /* it is called after the step has returned */
    CHECK_RANK(self, m.ended == ends);
    self->report->status = SYMM_OK;
out:
    symm__lane_close(pair);
    int64_t before = now_ms();
    part(&m);
    if (!self->report->failed[0] && now_ms() - before > 4000)
        rank_fail(self, RANK_HERE_, "leaving took %lld ms", (long long)(now_ms() - before));
}

START_TEST(a_death_is_known_within_a_second)
{
    struct death d = {.dies = _i / 2, .in_step = _i % 2};
    struct rank_report reports[RANKS_MAX];
    struct ranks *run = ranks_start(4, RANKS_AS_PROCESSES, outlive, &d);

    for (int r = 0; r < 4; r++)
        while (!ranks_peek(run, r)->value[0])
            pause_ms(1);
    pause_ms(50);
    int64_t killed = now_ms();
    kill(ranks_pid(run, d.dies), SIGKILL);
    const char *missing = ranks_finish(run, reports, 20);
    ck_assert_msg(!missing, "%s", missing);
    for (int r = 0; r < 4; r++)
        if (r != d.dies) {
            ranks_assert_ok(&reports[r], 1);
            ck_assert_int_lt(reports[r].value[1] - killed, 1000);
        }
}
END_TEST

/* The dead rank has a child that still holds its connection, as a worker of a data loader does. */
static void leave_a_child(struct rank *self, void *arg)
{
    const int dies = *(int *)arg;
    struct meeting m = {.x = NULL};
    char want[64];

    snprintf(want, sizeof want, "rank %d (pid", dies);
    RANK_TRY(self, meet(self, &m));
    if (self->rank == dies) {
        const pid_t child = fork();
        if (child == 0) {
            pause_ms(3000);
            _exit(0);
        }
    }
    RANK_TRY(self, barrier(m.world, "ready", 5000));
    if (self->rank == dies)
        raise(SIGKILL);
    int64_t before = now_ms();
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, want, barrier(m.world, "never", 5000));
    CHECK_RANK(self, now_ms() - before < 1000);
    self->report->status = SYMM_OK;
out:
    part(&m);
}

START_TEST(children_do_not_hide_a_death)
{
    struct rank_report reports[RANKS_MAX];
    int dies = _i;

    ranks_run(3, RANKS_AS_PROCESSES, leave_a_child, &dies, reports, 20);
    for (int r = 0; r < 3; r++)
        if (r != dies)
            ranks_assert_ok(&reports[r], 1);
}
END_TEST

static void begin_anew(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL}, rest = {.x = NULL};
    char session[80];
    bool right = true;

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    RANK_TRY(self, barrier(m.world, "ready", 5000));
    if (self->rank == 0)
        raise(SIGKILL);
    RANK_EXPECT(self, SYMM_ERROR_PEER, barrier(m.world, "never", 5000));
    part(&m);
    snprintf(session, sizeof session, "%s rest", self->session);
    RANK_TRY(self, meet_as(&rest, &(symm_config){.rank = self->rank - 1,
                                                 .nranks = self->nranks - 1,
                                                 .session = session}));
    RANK_TRY(self, agree(rest.world, "rest", 1, &right));
    CHECK_RANK(self, right);
out:
    part(&rest);
    part(&m);
}

START_TEST(survivors_begin_anew)
{
    struct rank_report reports[RANKS_MAX];

    ranks_run(4, RANKS_AS_PROCESSES, begin_anew, NULL, reports, 20);
    ranks_assert_ok(reports + 1, 3);
}
END_TEST

/* ---- Leaving ---- */

static void leave_early(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    RANK_TRY(self, barrier(m.world, "last", 5000));
    if (self->rank == 1)
        goto out; /* as it may: it has got its result */
    pause_ms(200);
    CHECK_RANK(self, m.ended == 0);
    RANK_TRY(self, symm__lane_check(m.world));
    pause_ms(300);
    if (self->rank == 2)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 1 has left",
                         barrier(m.world, "one more", 5000));
    else
        pause_ms(300);
    self->report->status = SYMM_OK;
out:
    part(&m);
}

START_TEST(leaving_is_not_dying)
{
    ranks_run_ok(3, RANKS_AS_PROCESSES, leave_early, NULL, 20);
}
END_TEST

static void leave_slowly(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    RANK_TRY(self, barrier(m.world, "last", 5000));
    if (self->rank)
        pause_ms(1500);
    RANK_TRY(self, symm__lane_check(m.world)); /* rank 0 still serves */
out:
    part(&m);
}

START_TEST(rank_0_waits_for_slower_ranks)
{
    ranks_run_ok(3, RANKS_AS_PROCESSES, leave_slowly, NULL, 20);
}
END_TEST

/* ---- Time ---- */

static void be_late(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    struct symm_lane *pair = NULL;
    const int ranks[] = {2, 3};
    bool right = true;

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    RANK_TRY(self, agree(m.world, "symm_exchange(8 bytes)", 0, &right));
    if (self->rank == 2) {
        /* waits elsewhere, for a rank that does not come there */
        RANK_EXPECT(self, SYMM_ERROR_TIMEOUT,
                    symm__lane_create(m.world, 2, ranks, &m.events,
                                      &(struct symm_step){.what = "symm_group_create(2, 3)"},
                                      symm__deadline_in(3000), &pair));
    } else if (self->rank == 3) {
        pause_ms(1000);
    } else {
        int64_t before = now_ms();
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT,
                         "rank 2, 3 did not come to symm_alloc(1) within ",
                         barrier(m.world, "symm_alloc(1)", self->rank ? 5000 : 500));
        CHECK_RANK(self, now_ms() - before < 2500);
        CHECK_RANK_MSG(
            self,
            strstr(self->report->text, "rank 2 waits in symm_group_create(2, 3), on another group"),
            "%s", self->report->text);
        CHECK_RANK_MSG(self,
                       strstr(self->report->text,
                              "the last call that rank 3 finished is symm_exchange(8 bytes)"),
                       "%s", self->report->text);
    }
    RANK_EXPECT(self, SYMM_ERROR_TIMEOUT, barrier(m.world, "too late", 5000));
    self->report->status = SYMM_OK;
out:
    part(&m);
}

START_TEST(late_ranks_are_named_with_what_they_do)
{
    ranks_run_ok(4, RANKS_AS_PROCESSES, be_late, NULL, 20);
}
END_TEST

static void hear(void *user, int level, const char *line)
{
    struct meeting *m = user;

    if (level == SYMM_LOG_WARNING) {
        snprintf(m->log_text, sizeof m->log_text, "%s", line);
        m->ticks++;
    }
}

static void be_slow(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};

    (void)arg;
    m.log = (struct symm_log){.to = hear, .user = &m};
    setenv("SYMM_SLOW_MS", "100", 1);
    if (self->rank == 0)
        pause_ms(250);
    if (self->rank == 2)
        pause_ms(800);
    RANK_TRY(self, meet(self, &m));
    if (self->rank == 1)
        CHECK_RANK_MSG(self, m.ticks >= 6 && m.ticks <= 9, "%d reports", m.ticks);
    if (self->rank == 0) {
        CHECK_RANK_MSG(self, !strcmp(m.log_text, "symm[0]: waiting for rank 2 of 3 to join"), "%s",
                       m.log_text);
        CHECK_RANK_MSG(self, m.ticks >= 3 && m.ticks <= 6, "%d reports", m.ticks);
    }
    if (self->rank == 1)
        pause_ms(350);
    RANK_TRY(self, barrier(m.world, "symm_trim()", 5000));
    if (self->rank != 1)
        CHECK_RANK_MSG(self, strstr(m.log_text, "waiting for rank 1 in symm_trim()"), "%s",
                       m.log_text);
out:
    part(&m);
}

START_TEST(slow_ranks_are_reported)
{
    ranks_run_ok(3, RANKS_AS_PROCESSES, be_slow, NULL, 20);
}
END_TEST

/* A program that has had enough: a report may call what any thread may call. */
static void abort_on_report(void *user, int level, const char *line)
{
    struct meeting *m = user;

    (void)line;
    if (level == SYMM_LOG_WARNING && m->world)
        symm__lane_abort(m->world, SYMM_ERROR_PEER, "too slow for me");
}

static void lose_patience(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};

    (void)arg;
    m.log = (struct symm_log){.to = abort_on_report, .user = &m};
    RANK_TRY(self, meet(self, &m));
    if (self->rank == 1)
        pause_ms(1500);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "too slow", barrier(m.world, "symm_trim()", 5000));
    self->report->status = SYMM_OK;
out:
    part(&m);
}

START_TEST(a_report_may_abort)
{
    setenv("SYMM_SLOW_MS", "500", 1);
    ranks_run_ok(2, RANKS_AS_PROCESSES, lose_patience, NULL, 20);
    unsetenv("SYMM_SLOW_MS");
}
END_TEST

/* ---- Aborts ---- */

static void *abort_soon(void *arg)
{
    struct meeting *m = arg;

    pause_ms(100);
    symm__lane_abort(m->world, SYMM_ERROR_PEER, "rank 1 aborted: enough");
    return NULL;
}

static void be_aborted(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    pthread_t thread;
    bool started = false;

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    if (self->rank == 1)
        started = pthread_create(&thread, NULL, abort_soon, &m) == 0;
    if (self->rank != 2)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 1 aborted: enough",
                         barrier(m.world, "never", 5000));
    else
        while (!m.ended)
            pause_ms(1);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, "rank 1 aborted: enough", symm__lane_check(m.world));
    symm__lane_abort(m.world, SYMM_ERROR_TIMEOUT, "the first one counts");
    RANK_EXPECT(self, SYMM_ERROR_PEER, barrier(m.world, "again", 5000));
    self->report->status = SYMM_OK;
out:
    if (started)
        pthread_join(thread, NULL);
    while (m.x && !self->report->failed[0] && !m.ended)
        pause_ms(1);
    part(&m);
    if (m.ended != 1)
        rank_fail(self, RANK_HERE_, "ended came %d times", m.ended);
}

START_TEST(an_abort_from_another_thread_ends_all)
{
    ranks_run_ok(4, _i ? RANKS_AS_THREADS : RANKS_AS_PROCESSES, be_aborted, NULL, 20);
}
END_TEST

static void abort_half(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    struct symm_lane *half = NULL;
    const int mates[2][2] = {{0, 1}, {2, 3}};
    bool right = true;

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    RANK_TRY(self, create(&m, m.world, 2, mates[self->rank / 2], "half", &half));
    if (self->rank == 3)
        symm__lane_abort(half, SYMM_ERROR_PEER, "rank 3 aborted");
    if (self->rank < 2)
        RANK_TRY(self, agree(half, "half", 1, &right));
    else
        RANK_EXPECT(self, SYMM_ERROR_PEER, barrier(half, "half", 5000));
    RANK_TRY(self, agree(m.world, "world", 1, &right));
    CHECK_RANK(self, right);
    for (int ms = 0; ms < 1000 && m.ended < (self->rank >= 2); ms++)
        pause_ms(1);
    CHECK_RANK(self, m.ended == (self->rank >= 2));
out:
    symm__lane_close(half);
    part(&m);
}

START_TEST(an_abort_ends_one_lane_only)
{
    ranks_run_ok(4, RANKS_AS_PROCESSES, abort_half, NULL, 20);
}
END_TEST

static void learn_late(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};

    (void)arg;
    if (self->rank == 2)
        setenv("SYMM_TEST_ABORT_DELAY_MS", "900", 1);
    RANK_TRY(self, meet(self, &m));
    RANK_TRY(self, barrier(m.world, "ready", 5000));
    int64_t before = now_ms();
    if (self->rank == 1)
        raise(SIGKILL);
    while (!m.ended)
        pause_ms(1);
    self->report->value[0] = now_ms() - before;
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm__lane_check(m.world));
    self->report->status = SYMM_OK;
out:
    part(&m);
}

START_TEST(aborts_can_be_made_to_arrive_apart)
{
    struct rank_report reports[RANKS_MAX];

    ranks_run(3, RANKS_AS_PROCESSES, learn_late, NULL, reports, 20);
    ranks_assert_ok(&reports[0], 1);
    ranks_assert_ok(&reports[2], 1);
    ck_assert_int_lt(reports[0].value[0], 500);
    ck_assert_int_ge(reports[2].value[0], 900);
    ck_assert_int_lt(reports[2].value[0], 1900);
}
END_TEST

/* ---- Questions ---- */

struct asker {
    struct meeting m; /* first: callbacks get its address */
    int rank;
    atomic_int told_rank;
    char told_text[256];
};

static void last_call(void *user, char *text, size_t nbytes)
{
    const struct asker *a = user;

    snprintf(text, nbytes, "call 12 of rank %d", a->rank);
}

static void told(void *user, int rank, const char *text)
{
    struct asker *a = user;

    snprintf(a->told_text, sizeof a->told_text, "%s", text);
    a->told_rank = rank;
    if (rank == 0) /* a callback may call the exchange */
        symm__lane_abort(a->m.world, SYMM_ERROR_MISMATCH, "seen");
}

static bool is_told(struct asker *a, struct symm_lane *lane, int rank, const char *text)
{
    a->told_rank = -1;
    symm__lane_ask(lane, rank);
    for (int ms = 0; ms < 3000 && a->told_rank < 0; ms++)
        pause_ms(1);
    return a->told_rank == rank && !strcmp(a->told_text, text);
}

static void ask_around(struct rank *self, void *arg)
{
    struct asker a = {.rank = self->rank};
    struct symm_lane *lane = NULL;
    const int ranks[] = {2, 1, 0};

    (void)arg;
    a.m.events = (struct symm_lane_events){.last_call = last_call, .told = told};
    RANK_TRY(self, meet(self, &a.m));
    RANK_TRY(self, create(&a.m, a.m.world, 3, ranks, "lane", &lane));
    if (self->rank == 1) {
        CHECK_RANK(self, is_told(&a, a.m.world, 2, "call 12 of rank 2"));
        CHECK_RANK(self, is_told(&a, a.m.world, 1, "call 12 of rank 1"));
        /* Ranks are the lane's. */
        CHECK_RANK(self, is_told(&a, lane, 2, "call 12 of rank 0"));
    }
    RANK_TRY(self, barrier(lane, "barrier", 5000));
    if (self->rank == 2) {
        symm__lane_close(lane);
        lane = NULL;
    }
    RANK_TRY(self, barrier(a.m.world, "barrier", 5000));
    if (self->rank == 1) {
        CHECK_RANK(self, is_told(&a, lane, 1, "call 12 of rank 1"));
        a.told_rank = -1;
        CHECK_RANK(self, is_told(&a, a.m.world, 0, "call 12 of rank 0")); /* which aborts */
    }
    RANK_EXPECT(self, SYMM_ERROR_MISMATCH, barrier(a.m.world, "barrier", 5000));
    while (!a.m.ended)
        pause_ms(1);
    self->report->status = SYMM_OK;
out:
    symm__lane_close(lane);
    part(&a.m);
}

START_TEST(ranks_tell_each_other_what_they_do)
{
    ranks_run_ok(3, _i ? RANKS_AS_THREADS : RANKS_AS_PROCESSES, ask_around, NULL, 20);
}
END_TEST

/* ---- Confirmations ---- */

static void *confirm_often(void *arg)
{
    for (int i = 0; i < 500; i++)
        if (symm__lane_confirm(arg, symm__deadline_in(5000)) != SYMM_OK)
            return (void *)"failed";
    return NULL;
}

static void confirm_two_at_once(struct rank *self, void *arg)
{
    struct meeting m = {.x = NULL};
    struct symm_lane *pair = NULL;
    pthread_t thread;
    void *failed = NULL;

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    RANK_TRY(self, create(&m, m.world, 2, (int[]){0, 1}, "pair", &pair));
    CHECK_RANK(self, pthread_create(&thread, NULL, confirm_often, pair) == 0);
    bool right = !confirm_often(m.world);
    pthread_join(thread, &failed);
    CHECK_RANK(self, right && !failed);
    RANK_TRY(self, barrier(m.world, "both are through", 5000));
    if (self->rank == 1)
        symm__lane_abort(pair, SYMM_ERROR_PEER, "rank 1 aborted");
    RANK_TRY(self, barrier(m.world, "and it is known", 5000));
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm__lane_confirm(pair, symm__deadline_in(5000)));
    RANK_TRY(self, symm__lane_confirm(m.world, symm__deadline_in(5000)));
out:
    symm__lane_close(pair);
    part(&m);
}

START_TEST(lanes_are_confirmed_apart)
{
    ranks_run_ok(2, _i ? RANKS_AS_THREADS : RANKS_AS_PROCESSES, confirm_two_at_once, NULL, 20);
}
END_TEST

/* Rank 2 is quiet (or leaves without a word) only after a while, and the others wait for it. */
static void be_quiet_late(struct rank *self, void *arg)
{
    const bool leaves = arg != NULL;
    struct meeting m = {.x = NULL};

    RANK_TRY(self, meet(self, &m));
    RANK_TRY(self, barrier(m.world, "all are here", 5000));
    if (self->rank == 0)
        symm__lane_abort(m.world, SYMM_ERROR_PEER, "rank 0 aborted");
    while (symm__lane_check(m.world) == SYMM_OK)
        pause_ms(1);
    const int64_t began = symm__now_us();
    if (self->rank == 2) {
        pause_ms(400);
        if (!leaves)
            CHECK_RANK(self, symm__lane_quiet(m.world, symm__deadline_in(5000)));
    } else {
        CHECK_RANK(self, !symm__lane_quiet(m.world, symm__deadline_in(50)));
        CHECK_RANK(self, symm__lane_quiet(m.world, symm__deadline_in(5000)));
        CHECK_RANK(self, symm__now_us() - began > 300000);
    }
out:
    part(&m);
    rank_note(self, SYMM_OK); /* the end was wanted */
}

START_TEST(whoever_is_not_quiet_is_waited_for)
{
    ranks_run_ok(3, RANKS_AS_PROCESSES, be_quiet_late, _i ? &_i : NULL, 20);
}
END_TEST

static void count_tick(void *user)
{
    ((struct meeting *)user)->ticks++;
}

static void be_ticked(struct rank *self, void *arg)
{
    struct meeting m = {.config = {.tick = count_tick, .user = &m}};

    (void)arg;
    RANK_TRY(self, meet(self, &m));
    m.ticks = 0;
    pause_ms(520);
    CHECK_RANK_MSG(self, m.ticks >= 5 && m.ticks <= 12, "%d ticks", m.ticks);
out:
    part(&m);
    int n = m.ticks;
    pause_ms(120);
    if (m.ticks != n)
        rank_fail(self, RANK_HERE_, "a tick after the end");
}

START_TEST(ticks_come_and_end)
{
    ranks_run_ok(2, RANKS_AS_PROCESSES, be_ticked, NULL, 20);
}
END_TEST

static void on_alarm(int unused)
{
    (void)unused;
}

static void step_in_a_storm(struct rank *self, void *arg)
{
    const struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    struct meeting m = {.x = NULL};
    bool right = true;

    (void)arg;
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    RANK_TRY(self, meet(self, &m));
    for (int i = 0; i < 2000; i++)
        RANK_TRY(self, agree(m.world, "storm", i, &right));
    CHECK_RANK(self, right);
out:
    part(&m);
    setitimer(ITIMER_REAL, &never, NULL);
}

START_TEST(signals_do_not_disturb)
{
    ranks_run_ok(4, RANKS_AS_PROCESSES, step_in_a_storm, NULL, 40);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exchange");
    TCase *tc = test_case(suite, "steps", 60);

    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, bytes_of_any_size_are_gathered, 0, 2);
    tcase_add_loop_test(tc, all_ranks_get_one_verdict, 0, 2);
    tcase_add_loop_test(tc, descriptors_go_from_all_to_all, 0, 2);
    tcase_add_test(tc, a_rank_without_descriptors_fails_the_step_for_all);
    tcase_add_test(tc, one_decides_for_all);
    tcase_add_test(tc, signals_do_not_disturb);
    tc = test_case(suite, "lanes", 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, lanes_work_apart, 0, 2);
    tcase_add_loop_test(tc, a_lane_is_made_on_all_ranks_or_none, 0, 2);
    tc = test_case(suite, "ends", 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, a_death_is_known_within_a_second, 0, 8);
    tcase_add_loop_test(tc, children_do_not_hide_a_death, 0, 2);
    tcase_add_test(tc, survivors_begin_anew);
    tcase_add_test(tc, leaving_is_not_dying);
    tcase_add_test(tc, rank_0_waits_for_slower_ranks);
    tcase_add_test(tc, late_ranks_are_named_with_what_they_do);
    tcase_add_test(tc, slow_ranks_are_reported);
    tcase_add_test(tc, a_report_may_abort);
    tcase_add_loop_test(tc, an_abort_from_another_thread_ends_all, 0, 2);
    tcase_add_test(tc, an_abort_ends_one_lane_only);
    tcase_add_test(tc, aborts_can_be_made_to_arrive_apart);
    tc = test_case(suite, "questions", 60);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_loop_test(tc, ranks_tell_each_other_what_they_do, 0, 2);
    tcase_add_loop_test(tc, lanes_are_confirmed_apart, 0, 2);
    tcase_add_loop_test(tc, whoever_is_not_quiet_is_waited_for, 0, 2);
    tcase_add_test(tc, ticks_come_and_end);
    return test_main(suite);
}
