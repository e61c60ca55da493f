/* A presence ends when the last process has left or died, not before. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include "exercise.h"
#include "runtime/base/presence.h"
#include "test.h"

TEST_GROUP(presence, 10);

static struct symm_presence presence;

/* A process that is present until it is killed. */
static pid_t start(void)
{
    const pid_t pid = fork();

    if (pid == 0)
        for (;;)
            pause();
    ck_assert_int_gt(pid, 0);
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static bool all_have_left(int ms)
{
    return symm__presence_await(&presence, symm__deadline_in(ms));
}

TEST(presence, ends_with_the_last)
{
    pid_t others[3];

    ck_assert_int_eq(symm__presence_create(&presence), SYMM_OK);
    for (int i = 0; i < 3; i++)
        others[i] = start();
    ck_assert(!all_have_left(0));
    end(others[1]);
    symm__presence_leave(&presence);
    ck_assert(!all_have_left(0));
    end(others[0]);
    const int64_t began = now_ms();
    ck_assert(!all_have_left(100));
    ck_assert_int_ge(now_ms() - began, 100);
    end(others[2]);
    ck_assert(all_have_left(0));
    ck_assert(all_have_left(-1));
    symm__presence_close(&presence);
    ck_assert(presence.own < 0 && presence.all < 0);
}

TEST(presence, without_a_reading_end_nothing_is_known)
{
    presence = SYMM_NO_PRESENCE;
    symm__presence_leave(&presence);
    const int64_t began = now_ms();
    ck_assert(!all_have_left(50));
    ck_assert_int_ge(now_ms() - began, 50);
    symm__presence_close(&presence);
}

TEST(presence, spares_the_standard_streams)
{
    const int out = dup(STDOUT_FILENO);

    ck_assert_int_ge(out, 0);
    close(STDOUT_FILENO);
    const symm_status st = symm__presence_create(&presence);
    ck_assert_int_eq(dup2(out, STDOUT_FILENO), STDOUT_FILENO);
    close(out);
    ck_assert_int_eq(st, SYMM_OK);
    ck_assert(presence.own > STDERR_FILENO && presence.all > STDERR_FILENO);
    symm__presence_close(&presence);
}
