/* Formats each report on the stack and writes it with one call. */
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "fd.h"
#include "settings.h"

enum { LINE_MAX_BYTES = 1280, LOST_MAX_BYTES = 120 };
_Static_assert(LINE_MAX_BYTES + LOST_MAX_BYTES <= PIPE_BUF, "a pipe takes both lines at once");

/* Expands %r in SYMM_LOG to the rank. Returns false if the path does not fit. */
static bool expand_path(const char *pattern, int rank, char path[PATH_MAX])
{
    size_t used = 0;

    while (*pattern) {
        int n;
        if (pattern[0] == '%' && pattern[1] == 'r') {
            n = rank < 0 ? snprintf(path + used, PATH_MAX - used, "unknown")
                         : snprintf(path + used, PATH_MAX - used, "%d", rank);
            pattern += 2;
        } else {
            n = snprintf(path + used, PATH_MAX - used, "%c", *pattern++);
        }
        used += (size_t)n;
        if (used >= PATH_MAX)
            return false;
    }
    return true;
}

/*
 * Opens the pipe or terminal of stderr a second time. Other processes share the existing open file,
 * so it must not be set to O_NONBLOCK. Returns -1 for other files and on failure.
 */
static int reopen_stderr(void)
{
    struct stat s;

    if (fstat(STDERR_FILENO, &s) || !(S_ISFIFO(s.st_mode) || S_ISCHR(s.st_mode)))
        return -1;
    return open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

/*
 * Writes without SIGPIPE, which would end the program if nobody reads. A SIGPIPE that the program
 * has blocked and waits for stays.
 */
static ssize_t write_quietly(int fd, const char *line, size_t nbytes)
{
    const struct timespec now = {0};
    sigset_t pipe_signal, before, pending;
    ssize_t n;

    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    sigpending(&pending);
    n = write(fd, line, nbytes);
    if (n < 0 && errno == EPIPE && !sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&pipe_signal, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return n;
}

/*
 * Writes the line without waiting for a reader. A line is shorter than PIPE_BUF, so a pipe takes
 * all of it or nothing.
 */
static bool write_to_stderr(const char *line, size_t nbytes)
{
    struct pollfd p = {STDERR_FILENO, POLLOUT, 0};
    int fd = reopen_stderr();
    ssize_t n;

    if (fd >= 0) {
        n = write_quietly(fd, line, nbytes);
        symm__fd_close(&fd);
    } else {
        n = send(STDERR_FILENO, line, nbytes, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == ENOTSOCK && poll(&p, 1, 0) == 1)
            n = write_quietly(STDERR_FILENO, line, nbytes);
    }
    return n == (ssize_t)nbytes;
}

/*
 * Opens the file for each line. Reports are rare, and a context then needs no descriptor for them.
 */
static bool write_to_file(const char *pattern, int rank, const char *line, size_t nbytes)
{
    char path[PATH_MAX];
    ssize_t n;
    int fd;

    if (!expand_path(pattern, rank, path))
        return false;
    fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_CLOEXEC, 0644);
    if (fd < 0)
        return false;
    n = write_quietly(fd, line, nbytes);
    symm__fd_close(&fd);
    return n == (ssize_t)nbytes;
}

/* Never waits, because rank 0's I/O thread serves all ranks and also writes reports. */
static void write_line(int rank, char line[LINE_MAX_BYTES + LOST_MAX_BYTES], size_t nbytes)
{
    static atomic_uint lost;
    const char *where = symm__setting(SYMM_SETTING_LOG);
    unsigned nlost = atomic_exchange(&lost, 0);
    bool written;

    line[nbytes++] = '\n'; /* over the NUL */
    if (nlost) {
        char before[LOST_MAX_BYTES + 1];
        int n = snprintf(before, sizeof before,
                         "symm: %u reports before this one are lost: %.40s did not take them\n",
                         nlost, where);
        memmove(line + n, line, nbytes);
        memcpy(line, before, (size_t)n);
        nbytes += (size_t)n;
    }
    written = strcmp(where, "stderr") ? write_to_file(where, rank, line, nbytes)
                                      : write_to_stderr(line, nbytes);
    if (!written)
        atomic_fetch_add(&lost, nlost + 1);
}

/*
 * Reads one digit without the parser of settings.c, because a report must not replace the thread's
 * failure text.
 */
static int wanted_level(void)
{
    const char *text = symm__setting(SYMM_SETTING_LOG_LEVEL);

    return text[0] >= '1' && text[0] <= '4' && !text[1] ? text[0] - '0' : SYMM_LOG_WARNING;
}

void symm__log(const struct symm_log *log, int level, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES + LOST_MAX_BYTES];
    va_list args;
    int n, m;

    if (!log->to && (!symm__setting_is_set(SYMM_SETTING_LOG) || level > wanted_level()))
        return;
    n = log->rank < 0 ? snprintf(line, LINE_MAX_BYTES, "symm: ")
                      : snprintf(line, LINE_MAX_BYTES, "symm[%d]: ", log->rank);
    va_start(args, fmt);
    m = vsnprintf(line + n, LINE_MAX_BYTES - (size_t)n, fmt, args);
    va_end(args);
    if (m < 0)
        return;
    n += m;
    if (n >= LINE_MAX_BYTES)
        n = LINE_MAX_BYTES - 1;
    if (log->to)
        log->to(log->user, level, line);
    else
        write_line(log->rank, line, (size_t)n);
}
