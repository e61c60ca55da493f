/* A launcher that is killed at the worst moment: before its children have asked to hear of it. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "exercise.h"
#include "folder.h"
#include "run/launch.h"
#include "test.h"

static int fatal; /* the death signal before whose request the parent is killed */

/* Stands in for the C library's. */
int prctl(int option, ...)
{
    va_list args;
    unsigned long value;
    pid_t parent = getppid();

    va_start(args, option);
    value = va_arg(args, unsigned long);
    va_end(args);
    if (option == PR_SET_PDEATHSIG && (int)value == fatal) {
        kill(parent, SIGKILL);
        for (int i = 0; i < 5000 && getppid() == parent; i++)
            pause_ms(1);
    }
    return (int)syscall(SYS_prctl, option, value, 0UL, 0UL, 0UL);
}

/* Reaps for up to 5 s. Returns whether no child is left. */
static bool all_end(void)
{
    for (int64_t end = now_ms() + 5000; now_ms() < end; pause_ms(1)) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD)
            return true;
    }
    return false;
}

TEST_GROUP(early_death, 30, IN_A_FOLDER);

TEST_LOOP(early_death, a_launcher_that_dies_early_leaves_no_ranks, 0, 2)
{
    char started[128], script[256];
    char *argv[] = {"/bin/sh", "-c", script, NULL};
    const struct launch job = {.tool = "launch", .nranks = 2, .argv = argv};
    const int deaths[] = {SIGTERM, SIGKILL}; /* of the face, of the supervisor */

    snprintf(started, sizeof started, "%s/started", folder);
    snprintf(script, sizeof script, "touch %s; exec sleep 20", started);
    unsetenv("SYMM_DIR"); /* so that the launcher makes a folder of its own, in this one */
    prctl(PR_SET_CHILD_SUBREAPER, 1UL);
    fatal = deaths[_i];
    pid_t face = fork();
    if (face == 0)
        _exit(launch_ranks(&job));
    bool ended = all_end();
    bool ran = unlink(started) == 0;
    ck_assert_msg(ended, "processes are left");
    ck_assert_msg(!ran, "a rank was started");
}
