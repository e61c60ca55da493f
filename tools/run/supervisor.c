/*
 * The parent of all ranks. Each rank leads a process group, so that its children are signalled with
 * it. A rank that has ended stays a zombie until the job is over, so that its process id is not
 * reused.
 */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <symm/types.h>
#include "common/text.h"
#include "meeting.h"
#include "orphans.h"
#include "output.h"

enum {
    NOTICE_MS = 250, /* from a rank's failure to SIGTERM: time for the messages of other ranks */
    BLAME_MS = 1000, /* the same if the rank blames another one, which will end by itself */
    EXIT_BLAMES = 75 /* EX_TEMPFAIL: "another rank failed", by the convention of symm's programs */
};

struct rank {
    pid_t pid;
    bool ended;
    bool told;        /* by tell_finished() */
    int64_t ended_at; /* when this was seen */
    int code, sig;    /* sig: 0, or the signal that ended it */
};

struct supervisor {
    const struct launch *job;
    struct output *output;
    struct rank ranks[SYMM_MAX_RANKS];
    int nstarted, nrunning;
    int culprit;     /* the rank whose failure is the job's; -1: none yet */
    int code;        /* of the job */
    int ninterrupts; /* signals passed on that ask for an end */
    bool stopping;
    int64_t timeout_at, stop_at, kill_at; /* INT64_MAX: not set */
};

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int64_t earliest(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void signal_ranks(const struct supervisor *s, int sig)
{
    for (int r = 0; r < s->nstarted; r++)
        kill(-s->ranks[r].pid, sig);
}

static void stop(struct supervisor *s)
{
    if (s->stopping)
        return;
    s->stopping = true;
    s->stop_at = INT64_MAX;
    signal_ranks(s, SIGTERM);
    signal_ranks(s, SIGCONT); /* a stopped process would not see it */
    s->kill_at = now_ms() + LAUNCH_GRACE_MS;
}

/* Runs in the child and does not come back: the exit code and, through `report`, errno tell that
 * exec failed. */
static void become_rank(const struct launch *job, const struct meeting *meeting, int rank,
                        const sigset_t *inherited, const int output[2], int report)
{
    for (int i = 0; i < 2; i++) /* the copy is not close-on-exec */
        if (output[i] >= 0)
            dup2(output[i], i ? STDERR_FILENO : STDOUT_FILENO);
    /* Reading from a terminal would stop a background group. */
    if (rank > 0 || isatty(STDIN_FILENO)) {
        int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        dup2(null, STDIN_FILENO);
    }
    if (meeting_describe(meeting, rank) == 0 &&
        (!job->driver || setenv("SYMM_DRIVER", job->driver, 1) == 0)) {
        sigprocmask(SIG_SETMASK, inherited, NULL);
        execvp(job->argv[0], job->argv);
    }
    int error = errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(LAUNCH_CANNOT_EXECUTE);
    _exit(error == ENOENT ? LAUNCH_NOT_FOUND : LAUNCH_CANNOT_EXECUTE);
}

/* Returns 0 once the program runs as this rank, else errno. */
static int start_rank(struct supervisor *s, const struct meeting *meeting,
                      const sigset_t *inherited)
{
    int report[2], output[2], rank = s->nstarted;
    int error = output_open(s->output, rank, output);
    pid_t parent = getpid();

    if (!error && pipe2(report, O_CLOEXEC) != 0)
        error = errno;
    if (error) {
        output_close(output);
        return error;
    }
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(LAUNCH_CANNOT_EXECUTE);
        become_rank(s->job, meeting, rank, inherited, output, report[1]);
    }
    if (pid < 0)
        error = errno;
    close(report[1]);
    output_close(output);
    if (pid > 0) {
        setpgid(pid, pid); /* here and in the child: from now on the group exists */
        s->ranks[rank] = (struct rank){.pid = pid};
        s->nstarted++;
        s->nrunning++;
        /* The pipe closes by itself when exec succeeds. */
        if (read(report[0], &error, sizeof error) != (ssize_t)sizeof error)
            error = 0;
    }
    close(report[0]);
    return error;
}

/* How well the end of a rank explains the end of the job, if several have ended. */
static int weight(const struct rank *r)
{
    return r->sig ? 3 : r->code != EXIT_BLAMES ? 2 : 1;
}

static void tell(const struct supervisor *s, int rank)
{
    const struct rank *r = &s->ranks[rank];
    char name[16];

    if (r->sig)
        fprintf(stderr, "# %s: rank %d was killed by %s\n", s->job->tool, rank,
                text_of_signal(r->sig, name, sizeof name));
    else
        fprintf(stderr, "# %s: rank %d exited with %d\n", s->job->tool, rank, r->code);
}

/*
 * Names the ranks that have exited with 0, each once: the other ranks of a job wait in vain for a
 * rank that returns early, so its end may be the reason of theirs.
 */
static void tell_finished(struct supervisor *s)
{
    const int64_t now = now_ms();
    const char *separator = ":";

    for (int r = 0; r < s->nstarted; r++) {
        struct rank *rank = &s->ranks[r];

        if (!rank->ended || rank->code != 0 || rank->told)
            continue;
        rank->told = true;
        if (*separator == ':')
            fprintf(stderr, "# %s: exited with 0 by then", s->job->tool);
        fprintf(stderr, "%s rank %d (%.2f s earlier)", separator, r,
                (double)(now - rank->ended_at) / 1000);
        separator = ",";
    }
    if (*separator == ',')
        fputc('\n', stderr);
}

/* Asks how a rank has ended, leaving it a zombie. True when it has failed since the last time. */
static bool failed_now(struct supervisor *s, struct rank *r)
{
    siginfo_t info = {0};

    if (r->ended || waitid(P_PID, (id_t)r->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        !info.si_pid)
        return false;
    r->ended = true;
    r->ended_at = now_ms();
    s->nrunning--;
    r->sig = info.si_code == CLD_EXITED ? 0 : info.si_status;
    r->code = r->sig ? LAUNCH_SIGNAL + r->sig : info.si_status;
    return r->code != 0;
}

/*
 * Looks for ranks that have ended. Those that end before the others are stopped have done so within
 * moments of each other, in an order that says little: a killed process takes longer to end than
 * its peers to notice. So the one that explains most is the culprit; a rank that blames another is
 * the culprit only if that other does not end by itself.
 */
static void judge(struct supervisor *s)
{
    int failed[SYMM_MAX_RANKS], n = 0;

    for (int r = 0; r < s->nstarted; r++) {
        if (!failed_now(s, &s->ranks[r]) || s->stopping)
            continue;
        failed[n++] = r;
        if (weight(&s->ranks[r]) > weight(&s->ranks[failed[0]])) {
            failed[n - 1] = failed[0];
            failed[0] = r;
        }
    }
    if (n == 0)
        return;
    for (int i = 0; i < n; i++)
        tell(s, failed[i]);
    tell_finished(s);

    const struct rank *worst = &s->ranks[failed[0]];
    const struct rank *culprit = s->culprit < 0 ? NULL : &s->ranks[s->culprit];
    bool blames = worst->code == EXIT_BLAMES;
    if (!culprit || (culprit->code == EXIT_BLAMES && !blames) ||
        (!s->job->keep_going && weight(worst) > weight(culprit))) {
        s->culprit = failed[0];
        s->code = worst->code;
    }
    if (!s->job->keep_going)
        s->stop_at = earliest(s->stop_at, now_ms() + (blames ? BLAME_MS : NOTICE_MS));
}

static void tell_running(const struct supervisor *s, const char *what)
{
    fprintf(stderr, "# %s: %s: rank", s->job->tool, what);
    for (int r = 0; r < s->nstarted; r++) {
        if (!s->ranks[r].ended)
            fprintf(stderr, " %d", r);
    }
    fputc('\n', stderr);
}

static void check_clocks(struct supervisor *s)
{
    int64_t now = now_ms();

    if (now >= s->timeout_at) {
        char what[64];

        s->timeout_at = INT64_MAX;
        s->code = LAUNCH_TIMED_OUT;
        snprintf(what, sizeof what, "time limit of %g s reached by", s->job->timeout_s);
        tell_running(s, what);
        tell_finished(s);
        stop(s);
    }
    if (now >= s->stop_at)
        stop(s);
    if (now >= s->kill_at) {
        s->kill_at = INT64_MAX;
        tell_running(s, "not ended in time and killed");
        signal_ranks(s, SIGKILL);
    }
}

/* Passes a signal on. The second one that asks for an end kills the ranks. */
static void pass_on(struct supervisor *s, int sig)
{
    bool ends = sig != SIGUSR1 && sig != SIGUSR2;

    signal_ranks(s, sig);
    if (ends && ++s->ninterrupts > 1) {
        s->stopping = true;
        s->kill_at = now_ms();
        s->code = s->code ? s->code : LAUNCH_SIGNAL + sig;
    }
}

static void watch(struct supervisor *s, const sigset_t *watched, pid_t face)
{
    sigset_t waited = *watched;

    sigaddset(&waited, SIGCHLD);
    for (judge(s); s->nrunning > 0; judge(s)) {
        int64_t until = earliest(s->timeout_at, earliest(s->stop_at, s->kill_at));
        int64_t left = earliest(until - now_ms(), 60000);
        struct timespec limit = {.tv_sec = left > 0 ? left / 1000 : 0,
                                 .tv_nsec = left > 0 ? left % 1000 * 1000000 : 0};
        int sig = sigtimedwait(&waited, NULL, &limit);

        if (getppid() != face)
            stop(s);
        else if (sig > 0 && sig != SIGCHLD)
            pass_on(s, sig);
        judge(s); /* before the clocks: a rank that has ended in time is not late */
        if (s->nrunning > 0)
            check_clocks(s);
    }
}

int supervise(const struct launch *job, struct meeting *meeting, const sigset_t *watched,
              const sigset_t *inherited, pid_t face)
{
    struct supervisor s = {
        .job = job,
        .culprit = -1,
        .timeout_at = job->timeout_s > 0 ? now_ms() + (int64_t)(job->timeout_s * 1000) : INT64_MAX,
        .stop_at = INT64_MAX,
        .kill_at = INT64_MAX};
    int error = output_create(job, &s.output);

    if (error) {
        fprintf(stderr, "# %s: cannot write to %s: %s\n", job->tool,
                job->output_dir ? job->output_dir : "pipes", strerror(error));
        meeting_destroy(meeting);
        return LAUNCH_CANNOT_EXECUTE;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    while (!error && s.nstarted < job->nranks)
        error = start_rank(&s, meeting, inherited);
    if (!error)
        error = output_start(s.output);
    if (error) {
        fprintf(stderr, "# %s: cannot run %s: %s\n", job->tool, job->argv[0], strerror(error));
        s.culprit = 0;
        s.code = error == ENOENT ? LAUNCH_NOT_FOUND : LAUNCH_CANNOT_EXECUTE;
        stop(&s);
    }
    watch(&s, watched, face);
    int nleft = orphans_end(LAUNCH_GRACE_MS);
    if (nleft > 0)
        fprintf(stderr, "# %s: %d processes cannot be ended\n", job->tool, nleft);
    output_destroy(s.output);
    meeting_destroy(meeting);
    return s.code;
}
