/* Votes and comms, with real processes and no driver. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include "runtime/base/fd.h"
#include "folder.h"
#include "meet.h"
#include "runtime/comm/message.h"
#include "test.h"

TEST_GROUP(votes, 60, IN_A_FOLDER);

/* ---- Verdicts ---- */

MEETING_TEST(votes, bytes_of_any_size_are_gathered, 5, _i, .loop = {0, 2})
{
    unsigned char *mine = NULL, *all = NULL;
    const size_t most = symm__vote_max(self->nranks), sizes[] = {0, 1, 7, 4096, most};

    mine = calloc(1, SYMM_PAYLOAD_MAX + 1);
    all = malloc(most * (size_t)self->nranks);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct symm_vote vote = {.text = "gather", .mine = mine, .nbytes = sizes[i], .all = all};
        memset(mine, self->rank + (int)i, most);
        RANK_TRY(self, take_vote(m->world, &vote));
        for (int r = 0; r < self->nranks; r++)
            for (size_t b = 0; b < sizes[i]; b++)
                self->report->wrong += all[(size_t)r * sizes[i] + b] != (unsigned char)(r + (int)i);
    }
    struct symm_vote big = {.text = "gather", .mine = mine, .nbytes = most + 1};
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "too many for one vote", take_vote(m->world, &big));
    big.nbytes = SYMM_PAYLOAD_MAX + 1; /* more than a message may have */
    RANK_EXPECT_TEXT(self, SYMM_ERROR_ARGUMENT, "too many for one vote", take_vote(m->world, &big));
    RANK_TRY(self, barrier(m->world, "barrier", 5000));
out:
    free(mine);
    free(all);
}

MEETING_TEST(votes, all_ranks_get_one_verdict, 3, _i, .loop = {0, 2})
{
    const char *text;
    int32_t word = 0;

    /* Different calls: all ranks read who called what. */
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "rank 0, 2: symm_alloc(4096); rank 1: symm_trim()",
                     barrier(m->world, self->rank == 1 ? "symm_trim()" : "symm_alloc(4096)", 5000));
    /* Different sizes of the same call. */
    struct symm_vote vote = {.text = "exchange", .mine = &word, .nbytes = self->rank == 2 ? 2 : 4};
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "rank 0 brought 4 bytes, rank 2 2 bytes",
                     take_vote(m->world, &vote));
    /* Failures: the lowest rank's, with its text. */
    vote = (struct symm_vote){.text = "symm_alloc(1)"};
    if (self->rank > 0)
        vote.status = symm__fail(self->rank == 1 ? SYMM_ERROR_DRIVER : SYMM_ERROR_MEMORY,
                                 "text of rank %d", self->rank);
    RANK_EXPECT(self, SYMM_ERROR_DRIVER, take_vote(m->world, &vote));
    text = self->report->text;
    CHECK_RANK_MSG(self, !strcmp(text, "text of rank 1 (on rank 1)"), "%s", text);
    /* None of that is sticky. */
    RANK_TRY(self, barrier(m->world, "barrier", 5000));
    RANK_TRY(self, symm__host_comm_check(m->world));
    CHECK_RANK(self, m->ended == 0);
out:;
}

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

MEETING_TEST(votes, descriptors_go_from_all_to_all, 8, _i, .loop = {0, 2})
{
    int fds[RANKS_MAX], card = make_card(self->rank);

    for (int round = 0; round < 50; round++) {
        /* In even rounds all give one, in odd ones only odd ranks. */
        struct symm_vote vote = {.text = "descriptors",
                                 .gives_fd = round % 2 == 0 || self->rank % 2,
                                 .fd = card,
                                 .fds = fds};
        RANK_TRY(self, take_vote(m->world, &vote));
        for (int r = 0; r < self->nranks; r++)
            self->report->wrong += round % 2 == 0 || r % 2 ? !is_card_of(fds[r], r) : fds[r] != -1;
        symm__fd_close_all(fds, self->nranks);
    }
    /* Nobody wants them: they are closed. The same if a rank fails. */
    struct symm_vote vote = {.text = "descriptors", .gives_fd = true, .fd = card};
    RANK_TRY(self, take_vote(m->world, &vote));
    vote.fds = fds;
    vote.status = self->rank == 1 ? symm__fail(SYMM_ERROR_DRIVER, "no export") : SYMM_OK;
    RANK_EXPECT(self, SYMM_ERROR_DRIVER, take_vote(m->world, &vote));
out:
    symm__fd_close(&card);
}

/* Also if rank 0 has none, and if a rank fails. */
MEETING_TEST(votes, rank_0_hands_out_a_descriptor, 5)
{
    const symm_deadline never = symm__deadline_in(-1);
    int card = self->rank == 0 ? make_card(0) : -1, fd = card;
    struct symm_vote vote = {.text = "hand out"};

    RANK_TRY(self, symm__host_comm_hand_out(m->world, &vote, never, &fd));
    CHECK_RANK(self, is_card_of(fd, 0) && (self->rank > 0 || fd == card));
    if (self->rank > 0)
        symm__fd_close(&fd);
    vote.status = self->rank == 3 ? symm__fail(SYMM_ERROR_DRIVER, "no room") : SYMM_OK;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_DRIVER, "(on rank 3)",
                     symm__host_comm_hand_out(m->world, &vote, never, &fd));
    CHECK_RANK(self, fd == card);
    vote.status = SYMM_OK;
    fd = -1;
    RANK_TRY(self, symm__host_comm_hand_out(m->world, &vote, never, &fd));
    CHECK_RANK(self, fd == -1);
out:
    symm__fd_close(&card);
}

/* Opens all descriptors that this process may have. Returns their number. */
static int take_all_descriptors(int hog[64])
{
    int n = 0;

    setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64});
    while (n < 64 && (hog[n] = dup(0)) >= 0)
        n++;
    return n;
}

MEETING_TEST(votes, a_rank_without_descriptors_fails_the_vote_for_all, 4)
{
    int fds[RANKS_MAX], card = make_card(self->rank), hog[64], nhog = 0;

    if (self->rank == 2)
        nhog = take_all_descriptors(hog);
    struct symm_vote vote = {.text = "descriptors", .gives_fd = true, .fd = card, .fds = fds};
    RANK_EXPECT_TEXT(self, SYMM_ERROR_SYSTEM, "(on rank 2)", take_vote(m->world, &vote));
    RANK_TEXT(self, "RLIMIT_NOFILE is 64");
    RANK_TRY(self, barrier(m->world, "barrier", 5000));
out:
    symm__fd_close_all(hog, nhog);
    symm__fd_close(&card);
}

/*
 * It did not say that it wants descriptors, so it fails after the verdict. It stays in its other
 * comms.
 */
MEETING_TEST(votes, a_rank_that_loses_descriptors_ends_the_comm, 3)
{
    static const int ranks[] = {0, 1, 2};
    int card = make_card(self->rank), all[3], hog[64], nhog = 0;
    struct symm_vote vote = {.text = "descriptors",
                             .gives_fd = true,
                             .fd = card,
                             .mine = &self->rank,
                             .nbytes = sizeof self->rank,
                             .all = all};
    struct symm_host_comm *other = NULL;

    RANK_TRY(self, create_comm(m, m->world, 3, ranks, "create", &other));
    if (self->rank == 2) {
        nhog = take_all_descriptors(hog);
        RANK_EXPECT_TEXT(self, SYMM_ERROR_SYSTEM, "descriptors were lost",
                         take_vote(m->world, &vote));
    } else {
        RANK_TRY(self, take_vote(m->world, &vote));
    }
    RANK_EXPECT_TEXT(self, SYMM_ERROR_SYSTEM, "descriptors were lost",
                     barrier(m->world, "barrier", 5000));
    RANK_TRY(self, barrier(other, "barrier", 5000));
out:
    symm__host_comm_close(other);
    symm__fd_close_all(hog, nhog);
    symm__fd_close(&card);
}

/* ---- Threads ---- */

struct voter {
    struct rank *self;
    struct meeting *m;
    symm_status status;
    char text[200];
};

/* value[0] of the report: a thread of this rank was refused. */
static void *vote_once(void *arg)
{
    struct voter *v = arg;

    v->status = barrier(v->m->world, "symm_trim()", 5000);
    snprintf(v->text, sizeof v->text, "%s", v->status == SYMM_OK ? "" : symm__failure_text());
    if (v->status == SYMM_ERROR_STATE)
        __atomic_store_n(&v->self->report->value[0], 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Rank 1 comes once a thread of rank 0 was refused. */
MEETING_TEST(votes, a_second_thread_is_refused, 2, _i, .loop = {0, 2})
{
    struct voter a = {.self = self, .m = m}, b = a;
    const struct rank_report *other = self->report - self->rank;
    pthread_t thread;

    if (self->rank == 0) {
        CHECK_RANK(self, pthread_create(&thread, NULL, vote_once, &a) == 0);
        vote_once(&b);
        pthread_join(thread, NULL);
        const struct voter *refused = a.status == SYMM_OK ? &b : &a;
        CHECK_RANK_MSG(self, a.status + b.status == SYMM_ERROR_STATE, "%d and %d", a.status,
                       b.status);
        CHECK_RANK(
            self, !strcmp(refused->text, "symm_trim(): another thread is in a call on this group"));
    } else {
        for (int ms = 0; ms < 3000 && !__atomic_load_n(&other->value[0], __ATOMIC_ACQUIRE); ms++)
            pause_ms(1);
        RANK_TRY(self, barrier(m->world, "symm_trim()", 5000));
    }
    RANK_TRY(self, barrier(m->world, "barrier", 5000));
out:;
}

/* ---- Comms ---- */

TEST_GROUP(comms, 60, IN_A_FOLDER);

/* Ranks 0, 1 and 3, 2 work apart, at their own pace; rank 0 does not know the second comm. */
MEETING_TEST(comms, comms_work_apart, 4, _i, .loop = {0, 2})
{
    static const int halves[2][2] = {{0, 1}, {3, 2}};
    struct symm_host_comm *half = NULL, *same = NULL, *single = NULL;
    const int which = self->rank / 2, me = 0;
    bool right = true;

    for (int i = 0; i < 20; i++) {
        RANK_TRY(self, create_comm(m, m->world, 2, halves[which], "create", &half));
        CHECK_RANK(self, symm__host_comm_nranks(half) == 2);
        CHECK_RANK(self, symm__host_comm_ranks(half)[symm__host_comm_rank(half)] == self->rank);
        CHECK_RANK(self, symm__host_comm_rank(half) == (self->rank == 1 || self->rank == 2));
        for (int k = 0; k < (which ? 40 : 10); k++)
            RANK_TRY(self, agree(half, "half", 1000 * which + k, &right));
        /* The same ranks again, numbered within the half; and one alone. */
        RANK_TRY(self, create_comm(m, half, 2, (int[]){1, 0}, "create", &same));
        RANK_TRY(self, create_comm(m, m->world, 1, &self->rank, "alone", &single));
        RANK_TRY(self, agree(same, "same", 7, &right));
        RANK_TRY(self, agree(half, "half", 8, &right));
        RANK_TRY(self, agree(single, "single", 9, &right));
        CHECK_RANK(self, symm__host_comm_rank(single) == me);
        symm__host_comm_close(half);
        half = NULL;
        RANK_TRY(self, agree(same, "its parent is closed", 10, &right));
        symm__host_comm_close(same);
        symm__host_comm_close(single);
        same = single = NULL;
    }
    RANK_TRY(self, agree(m->world, "world", 3, &right));
    self->report->wrong = !right;
    CHECK_RANK(self, m->ended == 0);
out:
    symm__host_comm_close(half);
    symm__host_comm_close(same);
    symm__host_comm_close(single);
}

MEETING_TEST(comms, a_comm_is_made_on_all_ranks_or_none, 3, _i, .loop = {0, 2})
{
    static const int ranks[] = {2, 0, 1}, others[] = {0, 1, 2};
    struct symm_host_comm *comm = NULL;
    struct symm_vote vote = {.text = "symm_group_create(3 ranks)"};

    vote.status = self->rank == 1 ? symm__fail(SYMM_ERROR_MEMORY, "nothing left") : SYMM_OK;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MEMORY, "nothing left (on rank 2, world rank 1)",
                     symm__host_comm_create(m->world, 3, ranks, &m->events, &vote,
                                            symm__deadline_in(5000), &comm));
    CHECK_RANK(self, !comm);
    RANK_EXPECT_TEXT(self, SYMM_ERROR_MISMATCH, "rank 0: b; rank 1, 2: a",
                     create_comm(m, m->world, 3, ranks, self->rank ? "a" : "b", &comm));
    /* Rank 0 does not come: it may have failed at something that the others know nothing of. */
    vote = (struct symm_vote){.text = "symm_group_create(late)"};
    if (self->rank)
        RANK_EXPECT_TEXT(self, SYMM_ERROR_TIMEOUT, "rank 0 did not reach symm_group_create(late)",
                         symm__host_comm_create(m->world, 3, ranks, &m->events, &vote,
                                                symm__deadline_in(300), &comm));
    RANK_TRY(self, barrier(m->world, "the others have given up", 5000));
    /* The same ranks in another order are another call. */
    RANK_EXPECT_TEXT(
        self, SYMM_ERROR_MISMATCH,
        "rank 0, 2: create; rank 1: create; position 0 of the new group: rank ",
        create_comm(m, m->world, 3, self->rank == 1 ? others : ranks, "create", &comm));
    /* None of that harms the parent, or the next attempt. */
    RANK_TRY(self, create_comm(m, m->world, 3, ranks, "create", &comm));
    RANK_TRY(self, barrier(comm, "barrier", 5000));
    RANK_TRY(self, barrier(m->world, "barrier", 5000));
    CHECK_RANK(self, m->ended == 0);
out:
    symm__host_comm_close(comm);
}

struct creator {
    struct rank *self;
    struct meeting *m;
    bool right;
};

static void *create_often(void *arg)
{
    struct creator *c = arg;
    struct symm_host_comm *comm = NULL;

    for (int i = 0; i < 200 && c->right; i++) {
        c->right = create_comm(c->m, c->m->world, 2, (int[]){1, 0}, "create", &comm) == SYMM_OK &&
                   barrier(comm, "barrier", 5000) == SYMM_OK;
        symm__host_comm_close(comm);
        comm = NULL;
    }
    return NULL;
}

MEETING_TEST(comms, threads_make_comms_of_the_same_ranks_at_once, 2, _i, .loop = {0, 2})
{
    struct creator c = {self, m, true}, d = c;
    pthread_t thread;

    CHECK_RANK(self, pthread_create(&thread, NULL, create_often, &c) == 0);
    create_often(&d);
    pthread_join(thread, NULL);
    CHECK_RANK(self, c.right && d.right);
    RANK_TRY(self, barrier(m->world, "barrier", 5000));
out:;
}

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

RANKS_TEST(votes, one_decides_for_all, 3)
{
    enum { FREED = 2500 }; /* more than one message holds */
    struct arbiter a = {.nfreed = 0};
    struct meeting m = {.config = {.arbiter = {arbiter_decide, arbiter_freed, NULL, &a}}};
    struct symm_host_comm *comm = NULL;

    RANK_TRY(self, meet(self, &m));
    for (int i = 1; i <= 20; i++) {
        for (int k = 0; k < FREED; k++)
            symm__exchange_freed(m.x, (uint64_t)k << 20);
        struct symm_vote vote = {
            .text = "alloc", .op = 2, .args = {100, (uint64_t)self->rank, 300, 400}};
        RANK_TRY(self, take_vote(m.world, &vote));
        CHECK_RANK(self, vote.answer[0] == 102 && vote.answer[1] == 2 && vote.answer[2] == 302);
        /* What was freed before the vote is known in it. */
        CHECK_RANK_MSG(self, vote.answer[3] == (uint64_t)(i * FREED * self->nranks), "%llu",
                       (unsigned long long)vote.answer[3]);
    }
    struct symm_vote full = {.text = "alloc", .op = 9};
    RANK_EXPECT(self, SYMM_ERROR_MEMORY, take_vote(m.world, &full));
    CHECK_RANK(self, !strcmp(self->report->text, "the window is full"));
    /* The arbiter hears of failures, and of the first vote of a comm. */
    struct symm_vote bad = {.text = "commit", .op = 3};
    if (self->rank == 1)
        bad.status = symm__fail(SYMM_ERROR_DRIVER, "no memory");
    RANK_EXPECT(self, SYMM_ERROR_DRIVER, take_vote(m.world, &bad));
    CHECK_RANK(self, self->rank || a.status == SYMM_ERROR_DRIVER);
    if (self->rank != 1) {
        struct symm_vote first = {.text = "group", .op = 4, .args = {10}};
        RANK_TRY(self, symm__host_comm_create(m.world, 2, (int[]){2, 0}, &m.events, &first,
                                              symm__deadline_in(5000), &comm));
        CHECK_RANK(self, first.answer[0] == 14);
        CHECK_RANK(self, self->rank || a.members.bits[0] == 5);
    }
out:
    symm__host_comm_close(comm);
    part(&m);
}

/* ---- Signals ---- */

RANKS_TEST(votes, signals_do_not_disturb, 4)
{
    struct meeting m = {.x = NULL};
    bool right = true;

    test_interrupt(300);
    RANK_TRY(self, meet(self, &m));
    for (int i = 0; i < 2000; i++)
        RANK_TRY(self, agree(m.world, "storm", i, &right));
    CHECK_RANK(self, right);
out:
    part(&m);
    test_interrupt(0);
}
