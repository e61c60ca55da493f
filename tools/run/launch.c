/*
 * The face of a job: the process that the user sees. It passes signals on to the supervisor, its
 * child, and returns the supervisor's exit code. With two processes one is left to clean up if the
 * other is killed with SIGKILL: the kernel signals the supervisor when the face dies, and the ranks
 * when the supervisor dies.
 */
#include "launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "common/text.h"
#include "meeting.h"
#include "orphans.h"
#include "supervisor.h"

/* The signals to pass on, except ignored ones (nohup ignores SIGHUP). */
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
    char name[16];

    for (;;) {
        int status, sig = sigwaitinfo(blocked, NULL);

        if (sig > 0 && sig != SIGCHLD)
            kill(supervisor, sig);
        if (waitpid(supervisor, &status, WNOHANG) != supervisor)
            continue;
        if (WIFEXITED(status))
            return WEXITSTATUS(status);
        fprintf(stderr, "# %s: the supervisor was killed by %s, and the ranks with it\n", job->tool,
                text_of_signal(WTERMSIG(status), name, sizeof name));
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
    prctl(PR_SET_CHILD_SUBREAPER, 1); /* of the ranks, if the supervisor is killed */
    fflush(NULL);

    int error = meeting_create(&meeting, job->nranks, job->nhosts);
    if (!error) {
        supervisor = fork();
        error = errno;
    }
    if (supervisor == 0) {
        /* Another process group, so that Ctrl-C arrives once, through the face. */
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != face) { /* the face died before prctl() */
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
