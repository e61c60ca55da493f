/* Settings and what is built on them alone: reports, descriptors, deadlines. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "runtime/base/deadline.h"
#include "runtime/base/fd.h"
#include "runtime/base/log.h"
#include "runtime/base/settings.h"
#include "test.h"

TEST_GROUP(settings, 10);

TEST(settings, unset_and_empty_give_the_default)
{
    int64_t ms = 0;

    unsetenv("SYMM_SLOW_MS");
    ck_assert(!symm__setting_is_set(SYMM_SETTING_SLOW_MS));
    ck_assert_int_eq(symm__setting_int(SYMM_SETTING_SLOW_MS, 1, 1 << 20, &ms), SYMM_OK);
    ck_assert_int_eq(ms, 10000);
    setenv("SYMM_SLOW_MS", "", 1);
    ck_assert(!symm__setting_is_set(SYMM_SETTING_SLOW_MS));
    ck_assert_str_eq(symm__setting(SYMM_SETTING_SLOW_MS), "10000");
}

static const struct {
    const char *text;
    int64_t value;
} numbers[] = {{"0", 0}, {"-1", -1}, {"+5", 5}, {"2k", 2048}, {"64M", 64 << 20}, {"3G", 3LL << 30}};

TEST_LOOP(settings, numbers_are_read, 0, sizeof numbers / sizeof numbers[0])
{
    int64_t value = 99;

    setenv("SYMM_TIMEOUT_MS", numbers[_i].text, 1);
    ck_assert_int_eq(symm__setting_int(SYMM_SETTING_TIMEOUT_MS, -1, INT64_MAX, &value), SYMM_OK);
    ck_assert_int_eq(value, numbers[_i].value);
}

static const char *const nonsense[] = {"x",          "1x",  "1 ",  " 1",
                                       "0x10",       "1.5", "1KK", "K",
                                       "-",          "1Mi", "--1", "99999999999999999999",
                                       "9999999999G"};

TEST_LOOP(settings, nonsense_is_named, 0, sizeof nonsense / sizeof nonsense[0])
{
    char want[64];
    int64_t value = 99;

    setenv("SYMM_TIMEOUT_MS", nonsense[_i], 1);
    ck_assert_int_eq(symm__setting_int(SYMM_SETTING_TIMEOUT_MS, -1, INT64_MAX, &value),
                     SYMM_ERROR_ARGUMENT);
    snprintf(want, sizeof want, "SYMM_TIMEOUT_MS=%s is not a number", nonsense[_i]);
    ck_assert_str_eq(symm__failure_text(), want);
    ck_assert_int_eq(value, 99);
}

TEST(settings, bounds_are_named)
{
    int64_t value;
    uint64_t nbytes;

    setenv("SYMM_TIMEOUT_MS", "-2", 1);
    ck_assert_int_eq(symm__setting_int(SYMM_SETTING_TIMEOUT_MS, -1, 10, &value),
                     SYMM_ERROR_ARGUMENT);
    ck_assert_str_eq(symm__failure_text(), "SYMM_TIMEOUT_MS=-2 is not within -1 to 10");
    setenv("SYMM_SEGMENT_BYTES", "-1", 1);
    ck_assert_int_eq(symm__setting_bytes(SYMM_SETTING_SEGMENT_BYTES, &nbytes), SYMM_ERROR_ARGUMENT);
    setenv("SYMM_SEGMENT_BYTES", "4M", 1);
    ck_assert_int_eq(symm__setting_bytes(SYMM_SETTING_SEGMENT_BYTES, &nbytes), SYMM_OK);
    ck_assert_uint_eq(nbytes, 4 << 20);
    unsetenv("SYMM_RANK");
    ck_assert_int_eq(symm__setting_int(SYMM_SETTING_RANK, 0, 10, &value), SYMM_ERROR_ARGUMENT);
    ck_assert_str_eq(symm__failure_text(), "SYMM_RANK is not set");
}

TEST(settings, unknown_variables_are_found)
{
    clearenv();
    ck_assert_ptr_null(symm__setting_unknown(0));
    setenv("SYMM_SLOW_MS", "1", 1);
    setenv("SYMM_TIMEOUT", "5", 1);
    setenv("SYMM_TEST_SEED", "5", 1);
    setenv("SYMM_NOTHING", "", 1); /* as good as not set */
    setenv("SYMM_TIMEOUT_MS_", "x=y", 1);
    setenv("NOT_SYMM_TIMEOUT", "5", 1);
    ck_assert_str_eq(symm__setting_unknown(0), "SYMM_TIMEOUT=5");
    ck_assert_str_eq(symm__setting_unknown(1), "SYMM_TIMEOUT_MS_=x=y");
    ck_assert_ptr_null(symm__setting_unknown(2));
}

static char heard[2000];
static int heard_level;

static void hear(void *user, int level, const char *line)
{
    *(int *)user += 1;
    heard_level = level;
    snprintf(heard, sizeof heard, "%s", line);
}

TEST_GROUP(log, 10);

TEST(log, reports_go_to_the_callback)
{
    int n = 0;
    const struct symm_log log = {hear, &n, 3}, nobody = {.rank = -1};
    char text[3000];

    symm__fail(SYMM_ERROR_PEER, "kept");
    symm__log(&log, SYMM_LOG_DETAIL, "rank %d is slow", 2);
    ck_assert_str_eq(heard, "symm[3]: rank 2 is slow");
    ck_assert_int_eq(heard_level, SYMM_LOG_DETAIL);
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    symm__log(&log, SYMM_LOG_ERROR, "%s", text);
    ck_assert_int_eq(n, 2);
    unsetenv("SYMM_LOG");
    symm__log(&nobody, SYMM_LOG_ERROR, "silent");
    ck_assert_str_eq(symm__failure_text(), "kept");
}

TEST(log, reports_go_to_a_file)
{
    char pattern[] = "/tmp/symm-test-XXXXXX", path[64], text[256] = "";
    const struct symm_log log = {.rank = 7}, early = {.rank = -1};
    FILE *f;

    ck_assert_ptr_nonnull(mkdtemp(pattern));
    snprintf(path, sizeof path, "%s/log.%%r", pattern);
    setenv("SYMM_LOG", path, 1);
    unsetenv("SYMM_LOG_LEVEL");
    symm__log(&log, SYMM_LOG_WARNING, "one");
    symm__log(&log, SYMM_LOG_INFO, "not this");
    setenv("SYMM_LOG_LEVEL", "3", 1);
    symm__log(&log, SYMM_LOG_INFO, "two");
    symm__log(&early, SYMM_LOG_INFO, "early");
    snprintf(path, sizeof path, "%s/log.7", pattern);
    f = fopen(path, "re");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, f), 0);
    fclose(f);
    ck_assert_str_eq(text, "symm[7]: one\nsymm[7]: two\n");
    unlink(path);
    snprintf(path, sizeof path, "%s/log.unknown", pattern);
    ck_assert_int_eq(unlink(path), 0);
    rmdir(pattern);
    setenv("SYMM_LOG", "/nowhere/at/all", 1);
    symm__log(&log, SYMM_LOG_ERROR, "cannot be written, and nothing happens");
}

enum stderr_kind { IS_PIPE, IS_PIPE_WITHOUT_DESCRIPTORS, IS_SOCKET, STDERR_KINDS };

/* Fills the file behind fd, whose description is shared with nobody else yet. */
static void fill(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    static const char bytes[4096];

    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    for (size_t n = sizeof bytes; n > 0; n /= 2)
        while (write(fd, bytes, n) > 0)
            ;
    fcntl(fd, F_SETFL, flags);
}

/* Empties it, and then reads what is written by `log`. */
static void drain_and_log(int fd, const struct symm_log *log, char *text, size_t nbytes)
{
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (read(fd, text, nbytes) > 0)
        ;
    symm__log(log, SYMM_LOG_WARNING, "heard");
    ssize_t n = read(fd, text, nbytes - 1);
    text[n > 0 ? n : 0] = 0;
}

TEST_LOOP(log, a_full_stderr_holds_nobody_up, 0, STDERR_KINDS)
{
    const struct symm_log log = {.rank = 7};
    const int saved = dup(STDERR_FILENO);
    struct rlimit limit;
    char text[4096];
    int ends[2];

    getrlimit(RLIMIT_NOFILE, &limit);
    ck_assert_int_eq(_i == IS_SOCKET ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends), 0);
    fill(ends[1]);
    const int flags = fcntl(ends[1], F_GETFL);
    dup2(ends[1], STDERR_FILENO);
    setenv("SYMM_LOG", "stderr", 1);
    unsetenv("SYMM_LOG_LEVEL");
    if (_i == IS_PIPE_WITHOUT_DESCRIPTORS)
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, limit.rlim_max});
    for (int i = 0; i < 5; i++)
        symm__log(&log, SYMM_LOG_WARNING, "lost");
    int flags_after = fcntl(ends[1], F_GETFL);
    drain_and_log(ends[0], &log, text, sizeof text);
    setrlimit(RLIMIT_NOFILE, &limit);
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[0]);
    close(ends[1]);
    ck_assert_int_eq(flags_after, flags); /* other processes have them, too */
    ck_assert_str_eq(text, "symm: 5 reports before this one are lost: stderr did not take them\n"
                           "symm[7]: heard\n");
}

TEST_GROUP(descriptors_and_deadlines, 10);

TEST(descriptors_and_deadlines, descriptors_close_on_exec_and_once)
{
    int fd = dup(0);

    ck_assert_int_eq(symm__fd_cloexec(fd), SYMM_OK);
    ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    symm__fd_close(&fd);
    ck_assert_int_eq(fd, -1);
    symm__fd_close(&fd);
    ck_assert_int_eq(symm__fd_cloexec(-1), SYMM_ERROR_SYSTEM);
}

TEST(descriptors_and_deadlines, descriptors_stay_above_the_standard_files)
{
    const int saved = dup(STDIN_FILENO);
    const int high = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(STDIN_FILENO);
    const int low = open("/dev/null", O_RDONLY);
    ck_assert_int_eq(low, STDIN_FILENO);
    int moved = symm__fd_above_stdio(low);
    ck_assert_int_gt(moved, STDERR_FILENO);
    ck_assert_int_eq(fcntl(moved, F_GETFD), FD_CLOEXEC);
    ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD), -1);
    ck_assert_int_eq(symm__fd_above_stdio(high), high);
    ck_assert_int_eq(symm__fd_above_stdio(-1), -1);
    dup2(saved, STDIN_FILENO);
    close(saved);
    close(high);
    symm__fd_close(&moved);
}

TEST(descriptors_and_deadlines, descriptors_are_reserved)
{
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 16;
    limit.rlim_max = 64;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ck_assert_int_eq(symm__fd_reserve(4), SYMM_OK);
    getrlimit(RLIMIT_NOFILE, &limit);
    ck_assert_uint_eq(limit.rlim_cur, 16);
    ck_assert_int_eq(symm__fd_reserve(40), SYMM_OK);
    getrlimit(RLIMIT_NOFILE, &limit);
    ck_assert_uint_eq(limit.rlim_cur, 64);
    ck_assert_int_eq(symm__fd_reserve(64), SYMM_ERROR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(symm__failure_text(), "RLIMIT_NOFILE is 64"));
}

TEST(descriptors_and_deadlines, deadlines)
{
    int64_t before = symm__now_us();

    ck_assert(symm__deadline_in(-1) == SYMM_NEVER);
    ck_assert(!symm__deadline_over(SYMM_NEVER));
    ck_assert_int_eq(symm__deadline_poll_ms(SYMM_NEVER, 50), 50);
    ck_assert(symm__deadline_over(symm__deadline_in(0)));
    ck_assert_int_eq(symm__deadline_poll_ms(symm__deadline_in(0), 50), 0);
    ck_assert_int_eq(symm__deadline_poll_ms(symm__deadline_in(10000), 50), 50);
    ck_assert_int_gt(symm__deadline_poll_ms(symm__deadline_in(20), 50), 0);
    test_interrupt(1000);
    symm__sleep_us(30000); /* signals do not cut it short */
    test_interrupt(0);
    ck_assert_int_ge(symm__now_us() - before, 30000);
}
