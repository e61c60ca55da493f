/*
 * Runs a function as n ranks, each a process or each a thread of this process, and collects
 * their reports. A rank never asserts: it fills in its report, and the test checks all reports.
 */
#ifndef TEST_RANKS_H
#define TEST_RANKS_H

#include <check.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>
#include <symm/symm.h>

enum { RANKS_MAX = 128 /* of all domains */, RANK_VALUES = 8 };

enum ranks_mode { RANKS_AS_PROCESSES, RANKS_AS_THREADS };

enum rank_end { RANK_RUNNING, RANK_RETURNED, RANK_EXITED, RANK_KILLED };

struct rank_report {
    int rank;
    enum rank_end end;
    int code;           /* its exit code, or the signal that ended it */
    symm_status status; /* of the last RANK_TRY, RANK_EXPECT or rank_note */
    char text[1024];    /* symm_error_text() of it */
    char failed[512];   /* file:line and the failed check */
    char leaks[512];    /* resources that the rank's process had at its end, not at its start */
    int64_t wrong;      /* elements that are not as they should be */
    int64_t value[RANK_VALUES];
};

struct rank {
    int rank, nranks;
    enum ranks_mode mode;
    const char *session;
    struct rank_report *report;
};

typedef void (*rank_fn)(struct rank *self, void *arg);

struct ranks; /* a run in progress */

/* Starts n ranks. Processes have SYMM_RANK, SYMM_NRANKS, SYMM_SESSION in their environment. */
struct ranks *ranks_start(int n, enum ranks_mode mode, rank_fn fn, void *arg);
pid_t ranks_pid(const struct ranks *run, int rank); /* processes only */
/* A live view of a rank's report, for tests that act when a rank has come to a certain point. */
volatile struct rank_report *ranks_peek(const struct ranks *run, int rank);
/*
 * Waits for all of them and hands out their reports. Returns NULL, or a text that names the ranks
 * that had not come to their end in time; these are killed, with all that they started (threads are
 * left alone: end the test).
 */
const char *ranks_finish(struct ranks *run, struct rank_report reports[], int timeout_s);

/* Waits until value[at] of a rank's report has come to `count`; half a minute at most. */
void ranks_await(const struct ranks *run, int rank, int at, int64_t count);

/*
 * Kills a process rank when value[at] of its report has come to `count` (it gets half a minute) and
 * waits until it has ended. Returns when that was, in milliseconds.
 */
int64_t ranks_kill_at(const struct ranks *run, int rank, int at, int64_t count);

/* The same, and fails the test if a rank has not come to its end. */
void ranks_end(struct ranks *run, struct rank_report reports[], int timeout_s);
/* Both. */
void ranks_run(int n, enum ranks_mode mode, rank_fn fn, void *arg, struct rank_report reports[],
               int timeout_s);
/* Fails the test unless every rank returned, no check of it failed, and it left nothing behind. */
void ranks_assert_clean(const struct rank_report reports[], int n);
/* The same, and every status is OK and nothing is wrong. */
void ranks_assert_ok(const struct rank_report reports[], int n);
/* ranks_run and ranks_assert_ok. */
void ranks_run_ok(int n, enum ranks_mode mode, rank_fn fn, void *arg, int timeout_s);

/* How a RANKS_TEST runs. */
struct ranks_test {
    int n;
    enum ranks_mode mode;
    const char *env[4][2]; /* set before the ranks start */
    void *arg;
    unsigned lost; /* ranks, as bits, that are killed or exit; the others must end with OK */
    int timeout_s; /* 0: 50 */
    struct {
        int first, end;
    } loop; /* values of _i; none: once */
};

/* Sets the environment, runs the ranks, checks their reports. */
void ranks_test_run(const struct ranks_test *test, rank_fn fn);

/*
 * A TEST whose ranks run the function that follows, with `self` and `arg`, and end with OK.
 * After the name come the fields of a struct ranks_test, in which _i is the loop's index:
 *
 *     RANKS_TEST(worlds, groups_overlap, 4, RANKS_AS_THREADS, .env = {{"SYMM_CHECK", "0"}})
 *     {
 *         RANK_TRY(self, ...);
 *     out:
 *         ...
 *     }
 */
#define RANKS_TEST(group, name, ...)                                                               \
    RANKS_TEST_(group, name, __VA_ARGS__)                                                          \
    static void name##_rank(struct rank *self, __attribute__((unused)) void *arg)

#define RANKS_TEST_(group, name, ...)                                                              \
    static void name##_rank(struct rank *self, void *arg);                                         \
    TEST_LOOP(group, name, ((struct ranks_test){.n = __VA_ARGS__}).loop.first,                     \
              ((struct ranks_test){.n = __VA_ARGS__}).loop.end)                                    \
    {                                                                                              \
        ranks_test_run(&(struct ranks_test){.n = __VA_ARGS__}, name##_rank);                       \
    }

/*
 * A rank's function, or a RANKS_TEST, that also has `var`, a pointer to a `type`: zeros that
 * `open(self, var)` has filled in. If that is not OK the function is not called. `close(var)` comes
 * last in any case.
 */
#define RANK_WITH(function, type, var, open, close)                                                \
    static void function##_body(struct rank *self, void *arg, type *var);                          \
    static void function(struct rank *self, void *arg)                                             \
    {                                                                                              \
        type var = {0};                                                                            \
        if (open(self, &var) == SYMM_OK)                                                           \
            function##_body(self, arg, &var);                                                      \
        close(&var);                                                                               \
    }                                                                                              \
    static void function##_body(struct rank *self, __attribute__((unused)) void *arg, type *var)

#define RANKS_TEST_WITH(group, name, type, var, open, close, ...)                                  \
    RANKS_TEST_(group, name, __VA_ARGS__)                                                          \
    RANK_WITH(name##_rank, type, var, open, close)

/* This rank's explicit configuration: rank, nranks, session and the driver of SYMM_DRIVER. */
symm_config rank_config(const struct rank *self);
/* Joins: a process by its environment, a thread by its configuration. */
symm_status rank_join(const struct rank *self, symm_context **out);
/* Joins a world of this name of all ranks but one, each on the device that it has in all worlds. */
symm_status rank_join_without(const struct rank *self, int gone, const char *name,
                              symm_context **out);

/* Records a status and, if it is a failure, its text; returns it. */
symm_status rank_note(struct rank *self, symm_status status);
__attribute__((format(printf, 3, 4))) void rank_fail(struct rank *self, const char *where,
                                                     const char *fmt, ...);

#define RANK_STRING__(x) #x
#define RANK_STRING_(x) RANK_STRING__(x)
#define RANK_HERE_ __FILE__ ":" RANK_STRING_(__LINE__)

/* In a rank's function with an `out:` label: if cond is false, records it and goes to out. */
#define CHECK_RANK(self, cond)                                                                     \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            rank_fail((self), RANK_HERE_, "%s", #cond);                                            \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

/* The same with a text of one's own. */
#define CHECK_RANK_MSG(self, cond, ...)                                                            \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            rank_fail((self), RANK_HERE_, __VA_ARGS__);                                            \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

/* A call that must be OK. */
#define RANK_TRY(self, call)                                                                       \
    do {                                                                                           \
        if (rank_note((self), (call)) != SYMM_OK) {                                                \
            rank_fail((self), RANK_HERE_, "%s: %s: %s", #call,                                     \
                      symm_status_name((self)->report->status), (self)->report->text);             \
            goto out;                                                                              \
        }                                                                                          \
    } while (0)

/* A call that must give this status; the report then has SYMM_OK and its text. */
#define RANK_EXPECT(self, want, call)                                                              \
    do {                                                                                           \
        if (rank_note((self), (call)) != (want)) {                                                 \
            rank_fail((self), RANK_HERE_, "%s: %s instead of %s: %s", #call,                       \
                      symm_status_name((self)->report->status), #want, (self)->report->text);      \
            goto out;                                                                              \
        }                                                                                          \
        (self)->report->status = SYMM_OK;                                                          \
    } while (0)

/* The text of the last call contains this. */
#define RANK_TEXT(self, part)                                                                      \
    CHECK_RANK_MSG(self, strstr((self)->report->text, (part)), "no \"%s\" in: %s", (part),         \
                   (self)->report->text)

/* A call that must give this status and a text that contains this. */
#define RANK_EXPECT_TEXT(self, want, part, call)                                                   \
    do {                                                                                           \
        RANK_EXPECT(self, want, call);                                                             \
        RANK_TEXT(self, part);                                                                     \
    } while (0)

#endif
