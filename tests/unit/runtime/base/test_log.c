/* Where reports go. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "runtime/base/log.h"
#include "test.h"

TEST_GROUP(log, 10);

static bool is_in(const sigset_t *set)
{
    return sigismember(set, SIGPIPE) == 1;
}

/* A program whose log nobody reads. Returns whether it is as before the report. */
static bool report_to_nobody(bool pending)
{
    const struct symm_log log = {.rank = 0};
    sigset_t signals, mask;
    int ends[2];

    signal(SIGPIPE, SIG_DFL);
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    sigprocmask(pending ? SIG_BLOCK : SIG_UNBLOCK, &signals, NULL);
    if (pending)
        raise(SIGPIPE);
    if (pipe(ends) || dup2(ends[1], STDERR_FILENO) < 0 || close(ends[0]) || close(ends[1]))
        return false;
    setenv("SYMM_LOG", "stderr", 1);
    symm__log(&log, SYMM_LOG_ERROR, "nobody reads this");
    sigpending(&signals);
    sigprocmask(SIG_BLOCK, NULL, &mask);
    return is_in(&signals) == pending && is_in(&mask) == pending;
}

TEST_LOOP(log, a_log_without_a_reader_changes_nothing, 0, 2)
{
    const pid_t child = fork();
    int status;

    if (child == 0)
        _exit(!report_to_nobody(_i));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
