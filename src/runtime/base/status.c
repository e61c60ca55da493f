/*
 * Stores a thread's last failure text in one fixed buffer per thread. So recording never fails, and
 * nothing has to be freed when the thread ends.
 */
#include "status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char failure_text[SYMM_TEXT_MAX] = "no failure";

/* Formats into a second buffer, because the arguments may point into the first. */
__attribute__((format(printf, 2, 0))) static void record(const char *tail, const char *fmt,
                                                         va_list args)
{
    char text[SYMM_TEXT_MAX];
    int n = vsnprintf(text, sizeof text, fmt, args);
    size_t used = n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;

    snprintf(text + used, sizeof text - used, "%s", tail);
    memcpy(failure_text, text, sizeof text);
}

symm_status symm__fail(symm_status status, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    record("", fmt, args);
    va_end(args);
    return status;
}

symm_status symm__fail_errno(int err, const char *fmt, ...)
{
    va_list args;
    char name[128], tail[192];

    snprintf(tail, sizeof tail, ": %s (%d)", strerror_r(err, name, sizeof name), err);
    va_start(args, fmt);
    record(tail, fmt, args);
    va_end(args);
    return err == ENOMEM ? SYMM_ERROR_MEMORY : SYMM_ERROR_SYSTEM;
}

symm_status symm__fail_in(symm_status status, const char *fmt, ...)
{
    va_list args;
    char before[SYMM_TEXT_MAX];

    memcpy(before, failure_text, sizeof before);
    va_start(args, fmt);
    record(before, fmt, args);
    va_end(args);
    return status;
}

struct symm_on_rank symm__on_rank(int rank, int world)
{
    struct symm_on_rank on;

    if (rank == world)
        snprintf(on.text, sizeof on.text, " (on rank %d)", rank);
    else
        snprintf(on.text, sizeof on.text, " (on rank %d, world rank %d)", rank, world);
    return on;
}

symm_status symm__fail_on(int rank, int world, symm_status status, const char *fmt, ...)
{
    va_list args;
    char tail[SYMM_TEXT_MAX];

    snprintf(tail, sizeof tail, "%.900s%s", failure_text, symm__on_rank(rank, world).text);
    va_start(args, fmt);
    record(tail, fmt, args);
    va_end(args);
    return status;
}

const char *symm__failure_text(void)
{
    return failure_text;
}

const char *symm__status_name(symm_status status)
{
    switch (status) {
#define SYMM_STATUS_CASE_(name, value, text)                                                       \
    case SYMM_##name:                                                                              \
        return "SYMM_" #name;
        SYMM_STATUS_MAP(SYMM_STATUS_CASE_)
#undef SYMM_STATUS_CASE_
    }
    return "an unknown status";
}
