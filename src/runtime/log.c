/*
 * Reports that are nobody's return value. A line is formatted on the stack and leaves in one write.
 */
#include "log.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "fd.h"
#include "settings.h"

enum { LINE_MAX_BYTES = 1280 };

/* SYMM_LOG with the rank in place of %r. False if it does not fit. */
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
 * The file is opened for each line: reports are rare, and a context then owns no descriptor for
 * them.
 */
static void write_line(int rank, char *line, size_t nbytes)
{
    char path[PATH_MAX];
    const char *where = symm__setting(SYMM_SETTING_LOG);
    int fd = STDERR_FILENO;

    line[nbytes++] = '\n'; /* over the NUL */
    if (strcmp(where, "stderr")) {
        if (!expand_path(where, rank, path))
            return;
        fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0)
            return;
    }
    while (nbytes > 0) {
        ssize_t n = write(fd, line, nbytes);
        if (n <= 0)
            break; /* nobody can be told that the place for reports fails */
        line += n;
        nbytes -= (size_t)n;
    }
    if (fd != STDERR_FILENO)
        symm__fd_close(&fd);
}

/*
 * One digit, looked at without the parser of settings.c: a report must not replace the text of a
 * failure.
 */
static int wanted_level(void)
{
    const char *text = symm__setting(SYMM_SETTING_LOG_LEVEL);

    return text[0] >= '1' && text[0] <= '4' && !text[1] ? text[0] - '0' : SYMM_LOG_WARNING;
}

void symm__log(const struct symm_log *log, int level, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    va_list args;
    int n, m;

    if (!log->to && (!symm__setting_is_set(SYMM_SETTING_LOG) || level > wanted_level()))
        return;
    n = log->rank < 0 ? snprintf(line, sizeof line, "symm: ")
                      : snprintf(line, sizeof line, "symm[%d]: ", log->rank);
    va_start(args, fmt);
    m = vsnprintf(line + n, sizeof line - (size_t)n, fmt, args);
    va_end(args);
    if (m < 0)
        return;
    n += m;
    if (n >= (int)sizeof line)
        n = (int)sizeof line - 1;
    if (log->to)
        log->to(log->user, level, line);
    else
        write_line(log->rank, line, (size_t)n);
}
