/*
 * What every test executable begins and ends with: settings fit for a small machine, leak counting
 * around each case, skips with a reason, and a closing summary.
 */
#ifndef TEST_TEST_H
#define TEST_TEST_H

#include <check.h>
#include <stdbool.h>

/* Whether this is built with ThreadSanitizer; INSTRUMENTED: or with AddressSanitizer. */
#if defined __SANITIZE_THREAD__
enum { TEST_TSAN = 1, TEST_INSTRUMENTED = 1 };
#elif defined __SANITIZE_ADDRESS__
enum { TEST_TSAN = 0, TEST_INSTRUMENTED = 1 };
#elif defined __has_feature
enum {
    TEST_TSAN = __has_feature(thread_sanitizer),
    TEST_INSTRUMENTED = TEST_TSAN || __has_feature(address_sanitizer)
};
#else
enum { TEST_TSAN = 0, TEST_INSTRUMENTED = 0 };
#endif

/*
 * Cases that belong together, with a limit for each, in seconds. Fields of a struct test_group may
 * follow. What the process holds is counted before and after each case.
 *
 *     TEST_GROUP(streams, 60, .setup = open_driver, .teardown = close_driver);
 */
struct test_group {
    const char *name;
    int timeout_s;
    bool uncounted; /* the cases leave something behind on purpose, or count by themselves */
    void (*setup)(void), (*teardown)(void);
    TCase *list;
};
#define TEST_GROUP(id, ...)                                                                        \
    static struct test_group id##_group = {.name = #id, .timeout_s = __VA_ARGS__}

/*
 * A case, which registers itself: TEST(streams, copies_are_checked) { ... }. TEST_LOOP runs it for
 * each _i from first to end - 1, TEST_EXITS expects the exit code of its process. With
 * SYMM_TEST_SAMPLE=N, N percent of a loop's rounds run, drawn by SYMM_TEST_SEED.
 */
#define TEST(group, name) TEST_CASE_(group, name, 0, 1, 0)
#define TEST_LOOP(group, name, first, end) TEST_CASE_(group, name, first, end, 0)
#define TEST_EXITS(group, name, code) TEST_CASE_(group, name, 0, 1, code)
#define TEST_CASE_(group, name, first, end, code)                                                  \
    static void name(int _i);                                                                      \
    TEST_ADD_(group, name, first, end, code);                                                      \
    static void name(__attribute__((unused)) int _i)

/* Registers a TEST_BODY(name) { ... } that stands before it, in as many groups as wanted. */
#define TEST_BODY(name) static void name(__attribute__((unused)) int _i)
#define TEST_ADD(group, name, first, end) TEST_ADD_(group, name, first, end, 0)

struct test_entry {
    struct test_group *group;
    TTest test;
    int first, end, exit_code;
    struct test_entry *next;
};
void test_register(struct test_entry *entry); /* first = end: once */
void test_forget(void);                       /* all that have been registered */
#define TEST_ADD_(group, name, first, end, code)                                                   \
    static struct test_entry name##_in_##group;                                                    \
    __attribute__((constructor)) static void name##_joins_##group(void)                            \
    {                                                                                              \
        int _i = 0; /* the limits of a loop may be read from a table by it */                      \
        (void)_i;                                                                                  \
        name##_in_##group = (struct test_entry){                                                   \
            &group##_group, {#name, name, __FILE__, __LINE__}, first, end, code, NULL};            \
        test_register(&name##_in_##group);                                                         \
    }                                                                                              \
    static struct test_entry name##_in_##group

/* A program may define it: called before anything else, it sets the environment. */
void test_setup(void);
extern bool test_uncounted; /* of all groups: a real driver keeps descriptors, threads, mappings */

/*
 * What main returns; main.c has a main that does nothing else. Runs the registered cases and prints
 * "# NAME: N cases, F failed, S skipped". Returns 0, 1 if a case failed, 77 if all were skipped or
 * there is none. With SYMM_TEST_SUMMARY=PATH the same goes into that file, a line a program.
 */
int test_main(void);

/* In a case: it cannot run here, and why. Counted apart; the case returns. */
#define TEST_SKIP(...)                                                                             \
    do {                                                                                           \
        test_skipped(__func__, __VA_ARGS__);                                                       \
        return;                                                                                    \
    } while (0)
__attribute__((format(printf, 2, 3))) void test_skipped(const char *name, const char *fmt, ...);

/* Interrupts the calls of this process by a signal every us microseconds; 0: no more. */
void test_interrupt(int us);

/* Paths of this build: folders of the tools and of the libraries. */
const char *test_bin(void);
const char *test_lib(void);

#endif
