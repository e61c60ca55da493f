/*
 * A rank unbinds no memory from multicast while a kernel of another rank may read through the
 * switch, even if that rank lags.
 */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "emulated.h"
#include "exercise.h"
#include "kernels.h"
#include "test.h"
#include "world.h"

enum { NRANKS = 4, COUNT = 3000, LAG_MS = 700 };
enum { HUB, OTHER, LAGGARD };
enum { ROUNDS, GONE }; /* values of a report: calls that returned OK; whether it has let go */

/* Reduces through the switch until a rank of the group is gone. */
static symm_status reduce_to_the_end(struct rank *self, symm_group *group)
{
    const symm_options options = {.algo = SYMM_ALGO_MULTIMEM};
    float *x = NULL;
    symm_status st = symm_alloc(group, COUNT * sizeof *x, (void **)&x);

    if (st == SYMM_OK)
        st = symm_fill(x, 0, COUNT * sizeof *x, NULL);
    while (st == SYMM_OK) {
        st = symm_all_reduce(group, x, x, COUNT, SYMM_FLOAT32, SYMM_SUM, &options, NULL);
        if (st == SYMM_OK)
            st = symm_synchronize(group, NULL);
        self->report->value[ROUNDS] += st == SYMM_OK;
    }
    return st;
}

/* The last rank is not in the group, so the group has a multicast object of its own. */
static void live(struct rank *self, void *destroys)
{
    static const int few[] = {0, 1, 2};
    symm_context *ctx = NULL;
    symm_group *group = NULL;

    RANK_TRY(self, rank_join(self, &ctx));
    symm_group *world = symm_context_world(ctx);
    if (self->rank < NRANKS - 1) {
        RANK_TRY(self, symm_group_create(world, NRANKS - 1, few, &group));
        RANK_EXPECT(self, SYMM_ERROR_PEER, reduce_to_the_end(self, group));
    }
    while (symm_check(world) == SYMM_OK)
        pause_ms(1);
    if (*(bool *)destroys && group)
        RANK_EXPECT(self, SYMM_ERROR_PEER, symm_group_destroy(group));
    RANK_EXPECT(self, SYMM_ERROR_PEER, symm_context_destroy(ctx));
    ctx = NULL;
    self->report->value[GONE] = 1;
    CHECK_RANK_MSG(self, !emulated_last_rule() || !emulated_last_rule()[0], "%s",
                   emulated_last_rule());
    rank_note(self, SYMM_OK); /* the end was wanted */
out:
    symm_context_destroy(ctx);
}

static void let_lag(bool kills_hub, bool destroys)
{
    struct rank_report reports[NRANKS];
    struct ranks *run = ranks_start(NRANKS, RANKS_AS_PROCESSES, live, &destroys);
    const int victim = kills_hub ? HUB : OTHER;

    ranks_await(run, LAGGARD, ROUNDS, 2);
    kill(ranks_pid(run, LAGGARD), SIGSTOP);
    kill(ranks_pid(run, victim), SIGKILL);
    pause_ms(LAG_MS);
    for (int r = 0; r < NRANKS; r++)
        ck_assert_msg(!ranks_peek(run, r)->value[GONE], "rank %d has not waited", r);
    kill(ranks_pid(run, LAGGARD), SIGCONT);
    const int64_t began = now_ms();
    ranks_end(run, reports, 30);
    ck_assert_int_lt(now_ms() - began, 2500); /* less than the time for a rank that never comes */
    reports[victim] = reports[LAGGARD];
    ranks_assert_ok(reports, NRANKS);
}

TEST_GROUP(quiet, 60);

TEST_LOOP(quiet, a_lagging_rank_is_waited_for, 0, 4)
{
    if (!SYMM_MULTICAST)
        TEST_SKIP("this build has no multicast");
    let_lag(_i % 2, _i / 2);
}

static bool pipes_fail;

/* Stands before the C library's: libsymm.so's own calls come here. */
__attribute__((visibility("default"))) int pipe2(int fds[2], int flags)
{
    if (!pipes_fail)
        return (int)syscall(SYS_pipe2, fds, flags);
    errno = EMFILE;
    return -1;
}

static void join_without_a_pipe(struct rank *self, void *arg)
{
    symm_context *ctx = NULL;

    (void)arg;
    pipes_fail = self->rank == 0;
    RANK_EXPECT_TEXT(self, SYMM_ERROR_SYSTEM, "pipe2", rank_join(self, &ctx));
    RANK_TEXT(self, "(on rank 0)");
    CHECK_RANK(self, !ctx);
    pipes_fail = false;
    RANK_TRY(self, rank_join(self, &ctx)); /* nothing is spoilt */
out:
    symm_context_destroy(ctx);
}

TEST(quiet, without_a_pipe_no_rank_has_a_context)
{
    if (!SYMM_MULTICAST)
        TEST_SKIP("this build has no multicast");
    ranks_run_ok(3, RANKS_AS_PROCESSES, join_without_a_pipe, NULL, 50);
}
