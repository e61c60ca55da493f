/*
 * Failures: a status and, per thread, the text that goes with it. errno, CUresult and other ranks'
 * failures are told apart by the status and named in the text.
 */
#ifndef SYMM_STATUS_H
#define SYMM_STATUS_H

#include <symm/types.h>

/* Evaluates to a status; leaves for the label out with it in `st` when it is not OK. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        st = (expr);                                                                               \
        if (st != SYMM_OK)                                                                         \
            goto out;                                                                              \
    } while (0)

/* Records the text of this thread's failure and returns the status. */
__attribute__((format(printf, 2, 3))) symm_status symm__fail(symm_status status, const char *fmt,
                                                             ...);

/* The same, with ": <strerror> (<errno>)" appended; ERROR_SYSTEM, or ERROR_MEMORY for ENOMEM. */
__attribute__((format(printf, 2, 3))) symm_status symm__fail_errno(int err, const char *fmt, ...);

/* Puts text in front of the recorded text: "symm_alloc: " + ... Returns the status it is given. */
__attribute__((format(printf, 2, 3))) symm_status symm__fail_in(symm_status status, const char *fmt,
                                                                ...);

/*
 * The same, for a failure that only one rank of many may have: text in front of the recorded one
 * and " (on rank N)" behind it, because the recorded one may begin with other ranks' numbers.
 */
__attribute__((format(printf, 3, 4))) symm_status symm__fail_on(int rank, symm_status status,
                                                                const char *fmt, ...);

/* This thread's; never NULL; at most SYMM_TEXT_MAX bytes with the NUL. */
const char *symm__failure_text(void);
const char *symm__status_name(symm_status status);

enum { SYMM_TEXT_MAX = 1024 };

#endif
