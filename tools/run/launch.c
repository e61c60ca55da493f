/*
 * The face of a job: the process that the user sees. It only passes signals on to the supervisor,
 * its child, and returns the supervisor's verdict. There are two of them so that something is left
 * to clean up when the face is killed with SIGKILL; the kernel then tells the supervisor. When the
 * supervisor is killed, the kernel kills the ranks.
 */
#include "launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "meeting.h"
#include "orphans.h"
#include "supervisor.h"

/* The signals that are meant for the program: those of them that are not ignored, as nohup makes
 * it. */
static void signals_to_watch(sigset_t *out)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

    sigemptyset(out);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction old;

        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaddset(out, signals[i]);
    }
}

static int wait_for_supervisor(const struct launch *job, struct meeting *meeting, pid_t supervisor,
                               const sigset_t *blocked)
{
    for (;;) {
        int status, sig = sigwaitinfo(blocked, NULL);

        if (sig > 0 && sig != SIGCHLD)
            kill(supervisor, sig);
        if (waitpid(supervisor, &status, WNOHANG) != supervisor)
            continue;
        if (WIFEXITED(status))
            return WEXITSTATUS(status);
        fprintf(stderr, "# %s: the supervisor was killed by SIG%s, and the ranks with it\n",
                job->tool, sigabbrev_np(WTERMSIG(status)));
        orphans_end(LAUNCH_GRACE_MS);
        meeting_destroy(meeting);
        return LAUNCH_SIGNAL + WTERMSIG(status);
    }
}

int launch_ranks(const struct launch *job)
{
    sigset_t watched, blocked, inherited;
    struct meeting meeting;
    pid_t face = getpid(), supervisor = -1;
    int code = LAUNCH_CANNOT_EXECUTE;

    signals_to_watch(&watched);
    blocked = watched;
    sigaddset(&blocked, SIGCHLD);
    signal(SIGCHLD, SIG_DFL);
    sigprocmask(SIG_BLOCK, &blocked, &inherited);
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* of what the supervisor leaves behind if it is killed */
    fflush(NULL);

    int error = meeting_create(&meeting, job->nranks);
    if (!error) {
        supervisor = fork();
        error = errno;
    }
    if (supervisor == 0) {
        /* A group of its own, so that Ctrl-C comes once, through the face. */
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != face) { /* killed before that: nobody has told */
            meeting_destroy(&meeting);
            _exit(LAUNCH_CANNOT_EXECUTE);
        }
        _exit(supervise(job, &meeting, &watched, &inherited, face));
    }
    if (supervisor < 0) {
        fprintf(stderr, "# %s: cannot start the ranks: %s\n", job->tool, strerror(error));
        meeting_destroy(&meeting);
    } else {
        code = wait_for_supervisor(job, &meeting, supervisor, &blocked);
    }
    sigprocmask(SIG_SETMASK, &inherited, NULL);
    return code;
}
