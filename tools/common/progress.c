/* Shows progress on a terminal. */
#include "progress.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const double every_s = 0.1;
static double shown_at; /* 0: no line is shown */

void progress_show(const char *format, ...)
{
    struct timespec t;
    va_list args;

    clock_gettime(CLOCK_MONOTONIC, &t);
    const double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    if (now < shown_at + every_s || !isatty(STDERR_FILENO))
        return;
    shown_at = now;
    fputs("\r\033[K# ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

void progress_end(void)
{
    if (shown_at > 0)
        fputs("\r\033[K", stderr);
    shown_at = 0;
}
