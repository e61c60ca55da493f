/*
 * What every test executable begins and ends with: settings fit for a small machine, leak counting
 * around each case, skips with a reason, and a closing summary.
 */
#ifndef TEST_TEST_H
#define TEST_TEST_H

#include <check.h>

/* Whether this is built with ThreadSanitizer. */
#if defined __SANITIZE_THREAD__
enum { TEST_TSAN = 1 };
#elif defined __has_feature
enum { TEST_TSAN = __has_feature(thread_sanitizer) };
#else
enum { TEST_TSAN = 0 };
#endif

/* A case list with a limit per case, in seconds; counts what this process holds before and after
 * each case. */
TCase *test_case(Suite *suite, const char *name, int timeout_s);

/* The same for cases that leave something behind on purpose and count by themselves. */
TCase *test_case_uncounted(Suite *suite, const char *name, int timeout_s);

/*
 * Runs the suite and prints "# NAME: N cases, F failed, S skipped". Returns what main returns: 0, 1
 * if a case failed, 77 if all were skipped. With SYMM_TEST_SUMMARY=PATH the same goes into that
 * file, a line a suite.
 */
int test_main(Suite *suite);

/* In a case: it cannot run here, and why. Counted apart; the case returns. */
#define TEST_SKIP(...)                                                                             \
    do {                                                                                           \
        test_skipped(__func__, __VA_ARGS__);                                                       \
        return;                                                                                    \
    } while (0)
__attribute__((format(printf, 2, 3))) void test_skipped(const char *name, const char *fmt, ...);

/* Paths of this build: folders of the tools and of the libraries. */
const char *test_bin(void);
const char *test_lib(void);

#endif
