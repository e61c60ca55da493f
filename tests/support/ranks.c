/* Ranks as processes and as threads. */
#include "ranks.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "exercise.h"
#include "leaks.h"
#include "test.h"

struct ranks {
    int n;
    enum ranks_mode mode;
    rank_fn fn;
    void *arg;
    char session[64];
    struct rank_report *reports; /* shared with the processes */
    struct rank self[RANKS_MAX];
    pid_t pid[RANKS_MAX], group;
    pthread_t thread[RANKS_MAX];
    bool ended[RANKS_MAX];
};

static void set_env_int(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

__attribute__((noreturn)) static void be_process(struct ranks *run, int rank)
{
    struct rank *self = &run->self[rank];
    struct leaks before;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    set_env_int("SYMM_RANK", rank);
    set_env_int("SYMM_NRANKS", run->n);
    setenv("SYMM_SESSION", run->session, 1);
    leaks_take(&before);
    run->fn(self, run->arg);
    const char *driver = getenv("SYMM_DRIVER"); /* the real one keeps things for itself */
    if (!driver || strcmp(driver, "cuda") != 0)
        leaks_none_since(&before, self->report->leaks, sizeof self->report->leaks);
    self->report->end = RANK_RETURNED;
    exit(0); /* not _exit: the driver and the sanitizers look for leaks of their own */
}

static void *be_thread(void *arg)
{
    struct rank *self = arg;
    struct ranks *run =
        (struct ranks *)((char *)(self - self->rank) - offsetof(struct ranks, self));
    run->fn(self, run->arg);
    self->report->end = RANK_RETURNED;
    return NULL;
}

struct ranks *ranks_start(int n, enum ranks_mode mode, rank_fn fn, void *arg)
{
    static int nruns;
    struct ranks *run = calloc(1, sizeof *run);
    ck_assert(run && n >= 1 && n <= RANKS_MAX);
    run->n = n;
    run->mode = mode;
    run->fn = fn;
    run->arg = arg;
    snprintf(run->session, sizeof run->session, "test-%d-%d-%lld", (int)getpid(), nruns++,
             (long long)now_ms());
    run->reports = mmap(NULL, sizeof *run->reports * RANKS_MAX, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(run->reports != MAP_FAILED);
    if (TEST_TSAN) /* to it each CUDA thread is a thread, and 8128 are all it takes */
        setenv("SYMM_EMULATED_BLOCK", "64", 0);
    fflush(NULL); /* or each rank would print the buffered text again */
    for (int r = 0; r < n; r++) {
        run->self[r] = (struct rank){r, n, mode, run->session, &run->reports[r]};
        run->reports[r].rank = r;
        if (mode == RANKS_AS_THREADS) {
            ck_assert_int_eq(pthread_create(&run->thread[r], NULL, be_thread, &run->self[r]), 0);
            continue;
        }
        run->pid[r] = fork();
        ck_assert_int_ge(run->pid[r], 0);
        if (run->pid[r] == 0)
            be_process(run, r);
        if (r == 0)
            run->group = run->pid[0];
        setpgid(run->pid[r], run->group);
    }
    return run;
}

pid_t ranks_pid(const struct ranks *run, int rank)
{
    return run->pid[rank];
}

volatile struct rank_report *ranks_peek(const struct ranks *run, int rank)
{
    return &run->reports[rank];
}

/* Returns whether the rank has ended. */
static bool reap_process(struct ranks *run, int r)
{
    int status;
    struct rank_report *report = &run->reports[r];
    if (waitpid(run->pid[r], &status, WNOHANG) != run->pid[r])
        return false;
    if (WIFSIGNALED(status)) {
        report->end = RANK_KILLED;
        report->code = WTERMSIG(status);
    } else if (WEXITSTATUS(status) != 0 || report->end != RANK_RETURNED) {
        report->end = RANK_EXITED;
        report->code = WEXITSTATUS(status);
    }
    return true;
}

static bool reap_thread(struct ranks *run, int r)
{
    return pthread_tryjoin_np(run->thread[r], NULL) == 0;
}

static bool reap_all(struct ranks *run)
{
    bool all = true;
    for (int r = 0; r < run->n; r++) {
        if (!run->ended[r])
            run->ended[r] =
                run->mode == RANKS_AS_PROCESSES ? reap_process(run, r) : reap_thread(run, r);
        all = all && run->ended[r];
    }
    return all;
}

static void name_missing(const struct ranks *run, int timeout_s, char *text, size_t nbytes)
{
    int used = snprintf(text, nbytes, "not at their end after %d s: rank", timeout_s);
    for (int r = 0; r < run->n; r++)
        if (!run->ended[r])
            used += snprintf(text + used, nbytes - (size_t)used, " %d", r);
    for (int r = 0; r < run->n; r++)
        if (run->reports[r].failed[0] && used < (int)nbytes)
            used += snprintf(text + used, nbytes - (size_t)used, "; rank %d: %s", r,
                             run->reports[r].failed);
}

static void kill_all(struct ranks *run)
{
    kill(-run->group, SIGKILL);
    for (int r = 0; r < run->n; r++)
        if (!run->ended[r])
            waitpid(run->pid[r], NULL, 0);
}

const char *ranks_finish(struct ranks *run, struct rank_report reports[], int timeout_s)
{
    static char text[2048];
    const int64_t end = now_ms() + timeout_s * INT64_C(1000);
    bool all = reap_all(run);
    for (; !all && now_ms() < end; all = reap_all(run))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    memcpy(reports, run->reports, sizeof *reports * (size_t)run->n);
    if (!all) {
        name_missing(run, timeout_s, text, sizeof text);
        if (run->mode == RANKS_AS_THREADS)
            return text; /* they still use the run */
        kill_all(run);
    }
    munmap(run->reports, sizeof *run->reports * RANKS_MAX);
    free(run);
    return all ? NULL : text;
}

void ranks_await(const struct ranks *run, int rank, int at, int64_t count)
{
    for (int i = 0; i < 30000 && ranks_peek(run, rank)->value[at] < count; i++)
        pause_ms(1);
}

int64_t ranks_kill_at(const struct ranks *run, int rank, int at, int64_t count)
{
    siginfo_t info;

    ranks_await(run, rank, at, count);
    kill(ranks_pid(run, rank), SIGKILL);
    waitid(P_PID, (id_t)ranks_pid(run, rank), &info, WEXITED | WNOWAIT);
    return now_ms();
}

void ranks_end(struct ranks *run, struct rank_report reports[], int timeout_s)
{
    const char *missing = ranks_finish(run, reports, timeout_s);
    ck_assert_msg(!missing, "%s", missing);
}

void ranks_run(int n, enum ranks_mode mode, rank_fn fn, void *arg, struct rank_report reports[],
               int timeout_s)
{
    ranks_end(ranks_start(n, mode, fn, arg), reports, timeout_s);
}

void ranks_assert_clean(const struct rank_report reports[], int n)
{
    static const char *const how[] = {"is running", "returned", "exited with",
                                      "was killed by signal"};
    for (int r = 0; r < n; r++)
        ck_assert_msg(!reports[r].failed[0], "rank %d: %s", reports[r].rank, reports[r].failed);
    for (int r = 0; r < n; r++) {
        const struct rank_report *p = &reports[r];
        ck_assert_msg(p->end == RANK_RETURNED, "rank %d %s %d; last: %s %s", p->rank, how[p->end],
                      p->code, symm_status_name(p->status), p->text);
        ck_assert_msg(!p->leaks[0], "rank %d left behind: %s", p->rank, p->leaks);
    }
}

void ranks_assert_ok(const struct rank_report reports[], int n)
{
    ranks_assert_clean(reports, n);
    for (int r = 0; r < n; r++) {
        ck_assert_msg(reports[r].status == SYMM_OK, "rank %d: %s: %s", reports[r].rank,
                      symm_status_name(reports[r].status), reports[r].text);
        ck_assert_msg(reports[r].wrong == 0, "rank %d: %lld elements are wrong", reports[r].rank,
                      (long long)reports[r].wrong);
    }
}

void ranks_run_ok(int n, enum ranks_mode mode, rank_fn fn, void *arg, int timeout_s)
{
    struct rank_report reports[RANKS_MAX];
    ranks_run(n, mode, fn, arg, reports, timeout_s);
    ranks_assert_ok(reports, n);
}

void ranks_test_run(const struct ranks_test *test, rank_fn fn)
{
    struct rank_report reports[RANKS_MAX];

    for (int i = 0; i < 4 && test->env[i][0]; i++)
        setenv(test->env[i][0], test->env[i][1], 1);
    ranks_run(test->n, test->mode, fn, test->arg, reports, test->timeout_s ? test->timeout_s : 50);
    for (int r = 0; r < test->n; r++)
        if (test->lost >> r & 1)
            ck_assert_msg(reports[r].end != RANK_RETURNED, "rank %d has returned", r);
        else
            ranks_assert_ok(&reports[r], 1);
}

symm_config rank_config(const struct rank *self)
{
    return (symm_config){.rank = self->rank, .nranks = self->nranks, .session = self->session};
}

symm_status rank_join(const struct rank *self, symm_context **out)
{
    const symm_config config = rank_config(self);
    return symm_context_create(self->mode == RANKS_AS_THREADS ? &config : NULL, out);
}

symm_status rank_join_without(const struct rank *self, int gone, const char *name,
                              symm_context **out)
{
    symm_config config = rank_config(self);
    char session[96], device[16];

    snprintf(session, sizeof session, "%s-%s", self->session, name);
    snprintf(device, sizeof device, "%d", self->rank);
    config.session = session;
    config.device = device;
    config.nranks--;
    config.rank -= config.rank > gone;
    return symm_context_create(&config, out);
}

symm_status rank_note(struct rank *self, symm_status status)
{
    self->report->status = status;
    if (status != SYMM_OK)
        snprintf(self->report->text, sizeof self->report->text, "%s", symm_error_text());
    return status;
}

void rank_fail(struct rank *self, const char *where, const char *fmt, ...)
{
    char *text = self->report->failed;
    size_t nbytes = sizeof self->report->failed;
    va_list args;
    if (text[0]) /* the first one says most */
        return;
    const char *slash = strrchr(where, '/');
    int used = snprintf(text, nbytes, "%s: ", slash ? slash + 1 : where);
    va_start(args, fmt);
    vsnprintf(text + used, nbytes - (size_t)used, fmt, args);
    va_end(args);
}
