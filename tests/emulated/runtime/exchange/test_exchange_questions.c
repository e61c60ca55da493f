/* What ranks ask each other beside their votes, with real processes and no driver. */
#include "runtime/exchange/exchange.h"
#include "folder.h"
#include "meet.h"
#include "test.h"

/* ---- Questions ---- */

struct asker {
    struct meeting m; /* first: callbacks get its address */
    int rank;
    atomic_int told_rank;
    char told_text[2 * SYMM_CALL_MAX];
};

static void activity(void *user, struct symm_activity *out)
{
    const struct asker *a = user;

    *out = (struct symm_activity){.kind = SYMM_ACTIVITY_WAIT, .awaits = a->rank, .since_ms = 345};
    snprintf(out->text, sizeof out->text, "call 12 of rank %d", a->rank);
    strcpy(out->enqueued, "call 11");
}

static void told(void *user, int rank, const struct symm_activity *answer)
{
    struct asker *a = user;

    if (answer->kind == SYMM_ACTIVITY_GONE) {
        strcpy(a->told_text, "gone");
        a->told_rank = rank;
        return;
    }
    if (answer->kind != SYMM_ACTIVITY_WAIT || answer->awaits < 0 || answer->since_ms != 345 ||
        strcmp(answer->enqueued, "call 11"))
        return;
    snprintf(a->told_text, sizeof a->told_text, "%s", answer->text);
    a->told_rank = rank;
    if (rank == 0) /* a callback may call the exchange */
        symm__host_comm_abort(a->m.world, SYMM_ERROR_MISMATCH, "seen");
}

static bool is_told(struct asker *a, struct symm_host_comm *comm, int rank, const char *text)
{
    a->told_rank = -1;
    symm__host_comm_ask(comm, rank);
    for (int ms = 0; ms < 3000 && a->told_rank < 0; ms++)
        pause_ms(1);
    return a->told_rank == rank && !strcmp(a->told_text, text);
}

TEST_GROUP(questions, 60, IN_A_FOLDER);

RANKS_TEST(questions, ranks_tell_each_other_their_activity, 3, _i, .loop = {0, 2})
{
    struct asker a = {.rank = self->rank};
    struct symm_host_comm *comm = NULL;
    const int ranks[] = {2, 1, 0};

    a.m.events = (struct symm_host_comm_events){.activity = activity, .told = told};
    RANK_TRY(self, meet(self, &a.m));
    RANK_TRY(self, create_comm(&a.m, a.m.world, 3, ranks, "comm", &comm));
    if (self->rank == 1) {
        CHECK_RANK(self, is_told(&a, a.m.world, 2, "call 12 of rank 2"));
        CHECK_RANK(self, is_told(&a, a.m.world, 1, "call 12 of rank 1"));
        /* Ranks are the comm's. */
        CHECK_RANK(self, is_told(&a, comm, 2, "call 12 of rank 0"));
    }
    RANK_TRY(self, barrier(comm, "barrier", 5000));
    if (self->rank == 2) {
        symm__host_comm_close(comm);
        comm = NULL;
    }
    RANK_TRY(self, barrier(a.m.world, "barrier", 5000));
    if (self->rank == 1) {
        CHECK_RANK(self, is_told(&a, comm, 1, "call 12 of rank 1"));
        CHECK_RANK(self, is_told(&a, comm, 0, "gone"));
        a.told_rank = -1;
        CHECK_RANK(self, is_told(&a, a.m.world, 0, "call 12 of rank 0")); /* which aborts */
    }
    RANK_EXPECT(self, SYMM_ERROR_MISMATCH, barrier(a.m.world, "barrier", 5000));
    while (!a.m.ended)
        pause_ms(1);
out:
    symm__host_comm_close(comm);
    part(&a.m);
}

/* Rank 2 is quiet (or leaves without a word) only after a while, and the others wait for it. */
MEETING_TEST(questions, a_rank_that_is_not_quiet_is_waited_for, 3, .arg = _i ? &_i : NULL,
             .loop = {0, 2})
{
    const bool leaves = arg != NULL;

    RANK_TRY(self, barrier(m->world, "all are here", 5000));
    if (self->rank == 0)
        symm__host_comm_abort(m->world, SYMM_ERROR_PEER, "rank 0 aborted");
    while (symm__host_comm_check(m->world) == SYMM_OK)
        pause_ms(1);
    const int64_t began = symm__now_us();
    if (self->rank == 2) {
        pause_ms(400);
        if (!leaves)
            CHECK_RANK(self, symm__host_comm_quiet(m->world, symm__deadline_in(5000)));
    } else {
        CHECK_RANK(self, !symm__host_comm_quiet(m->world, symm__deadline_in(50)));
        CHECK_RANK(self, symm__host_comm_quiet(m->world, symm__deadline_in(5000)));
        CHECK_RANK(self, symm__now_us() - began > 300000);
    }
out:
    rank_note(self, SYMM_OK); /* the end was wanted */
}

static void count_tick(void *user)
{
    ((struct meeting *)user)->ticks++;
}

/* Rank 0 still serves the other rank after it has ended. */
RANKS_TEST(questions, ticks_come_and_end, 2)
{
    struct meeting m = {.config = {.tick = count_tick, .user = &m}};
    int before, after;

    RANK_TRY(self, meet(self, &m));
    m.ticks = 0;
    pause_ms(520);
    CHECK_RANK_MSG(self, m.ticks >= 5 && m.ticks <= 12, "%d ticks", m.ticks);
out:
    if (self->rank)
        pause_ms(300);
    before = m.ticks;
    part(&m);
    after = m.ticks;
    pause_ms(120);
    if (after > before + 1 || m.ticks != after)
        rank_fail(self, RANK_HERE_, "a tick after the end");
}
