/*
 * Confirmations, and that the hub hears of an abort before the kernels of the rank that aborts,
 * with real processes and no driver. The tests stop rank 0, and so the hub, to fill sockets.
 */
#include <signal.h>
#include <sys/wait.h>
#include "runtime/exchange/exchange.h"
#include "folder.h"
#include "meet.h"
#include "test.h"

static void *confirm_often(void *arg)
{
    for (int i = 0; i < 500; i++)
        if (symm__host_comm_confirm(arg, symm__deadline_in(5000)) != SYMM_OK)
            return (void *)"failed";
    return NULL;
}

TEST_GROUP(confirmations, 60, IN_A_FOLDER);

MEETING_TEST(confirmations, comms_are_confirmed_apart, 2, _i, .loop = {0, 2})
{
    struct symm_host_comm *pair = NULL;
    pthread_t thread;
    void *failed = NULL;

    RANK_TRY(self, create_comm(m, m->world, 2, (int[]){0, 1}, "pair", &pair));
    CHECK_RANK(self, pthread_create(&thread, NULL, confirm_often, pair) == 0);
    bool right = !confirm_often(m->world);
    pthread_join(thread, &failed);
    CHECK_RANK(self, right && !failed);
    RANK_TRY(self, barrier(m->world, "both are through", 5000));
    if (self->rank == 1)
        symm__host_comm_abort(pair, SYMM_ERROR_PEER, "rank 1 aborted");
    RANK_TRY(self, barrier(m->world, "and it is known", 5000));
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm__host_comm_confirm(pair, symm__deadline_in(5000)));
    RANK_TRY(self, symm__host_comm_confirm(m->world, symm__deadline_in(5000)));
out:
    symm__host_comm_close(pair);
}

/* ---- A hub that reads late ---- */

/* Values of a report: how far the rank has come, and how far the test lets it go. */
enum { AT, GOES_TO };

static void come_to(struct rank *self, int64_t stage)
{
    volatile struct rank_report *report = self->report;

    report->value[AT] = stage;
    while (report->value[GOES_TO] < stage)
        pause_ms(1);
}

static void let_go(struct ranks *run, int rank, int64_t stage)
{
    for (int ms = 0; ms < 10000 && ranks_peek(run, rank)->value[AT] < stage; ms++)
        pause_ms(1);
    ranks_peek(run, rank)->value[GOES_TO] = stage;
}

static struct ranks *start_and_stop_hub(rank_fn fn, void *arg)
{
    struct ranks *run = ranks_start(3, RANKS_AS_PROCESSES, fn, arg);
    siginfo_t info;

    for (int r = 0; r < 3; r++)
        let_go(run, r, 1);
    kill(ranks_pid(run, 0), SIGSTOP);
    waitid(P_PID, (id_t)ranks_pid(run, 0), &info, WSTOPPED | WNOWAIT);
    return run;
}

static void go_on_and_finish(struct ranks *run)
{
    struct rank_report reports[RANKS_MAX];

    kill(ranks_pid(run, 0), SIGCONT);
    ranks_end(run, reports, 30);
    ranks_assert_ok(reports, 3);
}

/* Rank 2 aborts many comms, rank 1 asks for the last of them while the hub has read no ABORT. */
MEETING_RANK(confirm_behind_aborts)
{
    enum { COMMS = 200 };
    struct symm_host_comm *comms[COMMS] = {NULL};

    for (int i = 0; i < COMMS && self->rank; i++)
        RANK_TRY(self, create_comm(m, m->world, 2, (int[]){1, 2}, "pair", &comms[i]));
    come_to(self, 1);
    if (self->rank)
        come_to(self, 2);
    for (int i = 0; i < COMMS && self->rank == 2; i++)
        symm__host_comm_abort(comms[i], SYMM_ERROR_PEER, "rank 2 aborted");
    if (self->rank == 2)
        come_to(self, 3);
    if (self->rank == 1)
        RANK_EXPECT(self, SYMM_ERROR_PEER,
                    symm__host_comm_confirm(comms[COMMS - 1], symm__deadline_in(5000)));
    RANK_TRY(self, symm__host_comm_confirm(m->world, symm__deadline_in(5000)));
    RANK_TRY(self, barrier(m->world, "the world lives on", 5000));
out:
    for (int i = 0; i < COMMS; i++)
        symm__host_comm_close(comms[i]);
}

TEST(confirmations, an_abort_deep_in_a_socket_counts)
{
    struct ranks *run = start_and_stop_hub(confirm_behind_aborts, NULL);

    let_go(run, 2, 2);
    let_go(run, 2, 3); /* every ABORT is sent */
    let_go(run, 1, 2);
    pause_ms(300); /* and so is the CONFIRM */
    go_on_and_finish(run);
}

/*
 * More messages than a socket takes stand in front of rank 2's ABORT: its owner, who would end its
 * kernels, hears of the end when the hub has read them; or when the hub has not for 2 s, and then
 * rank 2 is as dead to the others.
 */
MEETING_RANK(abort_behind_noise)
{
    const bool patient = arg == NULL;
    struct symm_host_comm *pair = NULL;

    if (self->rank)
        RANK_TRY(self, create_comm(m, m->world, 2, (int[]){1, 2}, "pair", &pair));
    come_to(self, 1);
    for (int i = 0; i < 20000 && self->rank == 2; i++)
        symm__host_comm_ask(m->world, 2);
    if (self->rank == 2) {
        symm__host_comm_abort(pair, SYMM_ERROR_PEER, "rank 2 aborted");
        RANK_EXPECT(self, SYMM_ERROR_PEER, symm__host_comm_check(pair));
        pause_ms(300);
        CHECK_RANK(self, m->ended == 0);
        for (int ms = 0; ms < 4000 && !patient && m->ended < 2; ms++)
            pause_ms(1);
        CHECK_RANK(self, m->ended == (patient ? 0 : 2));
    }
    come_to(self, 2);
    if (patient)
        RANK_TRY(self, barrier(m->world, "the world lives on", 5000));
    else
        RANK_EXPECT_TEXT(self, SYMM_ERROR_PEER, self->rank == 2 ? "does not answer" : "rank 2 (pid",
                         barrier(m->world, "never", 5000));
    for (int ms = 0; ms < 5000 && m->ended < (self->rank > 0) + !patient; ms++)
        pause_ms(1);
    CHECK_RANK(self, m->ended == (self->rank > 0) + !patient);
out:
    symm__host_comm_close(pair);
}

TEST_LOOP(confirmations, kernels_hear_of_an_abort_behind_the_hub, 0, 2)
{
    struct ranks *run = start_and_stop_hub(abort_behind_noise, _i ? &_i : NULL);

    let_go(run, 2, 2);
    let_go(run, 1, 2);
    kill(ranks_pid(run, 0), SIGCONT);
    let_go(run, 0, 2);
    go_on_and_finish(run);
}
