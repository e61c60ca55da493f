/* The frame of a test executable. */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include "leaks.h"
#include "reference.h"

static struct leaks at_start;
static atomic_int *nskipped; /* shared, since each case is a process of its own */

static void count_before(void)
{
    leaks_take(&at_start);
}

static void count_after(void)
{
    char text[512];
    ck_assert_msg(leaks_none_since(&at_start, text, sizeof text), "the case left behind: %s", text);
}

bool test_uncounted;
static struct test_entry *entries, **last_entry = &entries;

void test_register(struct test_entry *entry)
{
    entry->end += entry->end == entry->first;
    *last_entry = entry;
    last_entry = &entry->next;
}

void test_forget(void)
{
    entries = NULL;
    last_entry = &entries;
}

__attribute__((weak)) void test_setup(void)
{
}

static TCase *make_list(const struct test_group *group)
{
    TCase *list = tcase_create(group->name);
    tcase_set_timeout(list, group->timeout_s);
    if (!group->uncounted && !test_uncounted)
        tcase_add_checked_fixture(list, count_before, count_after);
    if (group->setup || group->teardown)
        tcase_add_checked_fixture(list, group->setup, group->teardown);
    return list;
}

/* A loop's rounds, or as many percent of them as SYMM_TEST_SAMPLE says, drawn by the seed. */
static void add_rounds(TCase *list, const struct test_entry *e)
{
    const char *sample = getenv("SYMM_TEST_SAMPLE");
    int left = e->end - e->first, wanted = sample ? (left * atoi(sample) + 99) / 100 : left;
    for (int i = e->first; i < e->end; i++, left--)
        if (reference_random((uint64_t)e->test.line, (uint64_t)i) % (uint64_t)left <
            (uint64_t)wanted) {
            _tcase_add_test(list, &e->test, 0, e->exit_code, i, i + 1);
            wanted--;
        }
}

static Suite *make_suite(const char *name)
{
    Suite *suite = suite_create(name);
    for (const struct test_entry *e = entries; e; e = e->next) {
        if (!e->group->list)
            suite_add_tcase(suite, e->group->list = make_list(e->group));
        add_rounds(e->group->list, e);
    }
    return suite;
}

/* Small segments: the emulated driver fills new memory. The environment has the last word. */
static void set_defaults(void)
{
    static const char *const defaults[][2] = {
        {"SYMM_DRIVER", "emulated"},          {"SYMM_TIMEOUT_MS", "20000"},
        {"SYMM_SEGMENT_BYTES", "2M"},         {"SYMM_STAGING_BYTES", "256K"},
        {"SYMM_EMULATED_LEAKS", "fail"},      {"SYMM_EMULATED_MEMORY", "1G"},
        {"SYMM_EMULATED_GRANULARITY", "64K"},
    };
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++)
        setenv(defaults[i][0], defaults[i][1], 0);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0}); /* ranks are killed on purpose */
}

static void summarize(const char *name, int ncases, int nfailed, int nskips)
{
    const char *path = getenv("SYMM_TEST_SUMMARY"), *sample = getenv("SYMM_TEST_SAMPLE");
    printf("# %s: %d cases, %d failed, %d skipped\n", name, ncases, nfailed, nskips);
    if (nfailed)
        printf("# to repeat it: SYMM_TEST_SEED=%llu SYMM_TEST_SAMPLE=%s\n",
               (unsigned long long)reference_seed(), sample ? sample : "100");
    FILE *f = path && path[0] ? fopen(path, "ae") : NULL;
    if (f) {
        fprintf(f, "%s %d %d %d\n", name, ncases, nfailed, nskips);
        fclose(f);
    }
}

int test_main(void)
{
    test_setup();
    set_defaults();
    reference_seed(); /* chosen before the cases fork, so that they share it */
    nskipped =
        mmap(NULL, sizeof *nskipped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (nskipped == MAP_FAILED)
        return 1;
    SRunner *runner = srunner_create(make_suite(program_invocation_short_name));
    srunner_run_all(runner, CK_ENV);
    const int ncases = srunner_ntests_run(runner), nfailed = srunner_ntests_failed(runner);
    srunner_free(runner);
    summarize(program_invocation_short_name, ncases, nfailed, *nskipped);
    const int code = nfailed ? 1 : *nskipped == ncases ? 77 : 0;
    munmap(nskipped, sizeof *nskipped);
    return code;
}

void test_skipped(const char *name, const char *fmt, ...)
{
    char why[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    ++*nskipped;
    printf("# skipped: %s: %s\n", name, why);
    fflush(stdout);
}

static void on_alarm(int unused)
{
    (void)unused;
}

void test_interrupt(int us)
{
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, us}, {0, us}}, NULL);
}

const char *test_bin(void)
{
    return TEST_BIN;
}

const char *test_lib(void)
{
    return TEST_LIB;
}
