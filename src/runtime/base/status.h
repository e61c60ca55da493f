/*
 * Failures: a status and, per thread, its text. The status distinguishes errno, CUresult and
 * failures of other ranks; the text names them.
 */
#ifndef SYMM_STATUS_H
#define SYMM_STATUS_H

#include <symm/types.h>

/* Assigns the status of expr to `st`, and goes to the label out if it is not OK. */
#define TRY(expr)                                                                                  \
    do {                                                                                           \
        st = (expr);                                                                               \
        if (st != SYMM_OK)                                                                         \
            goto out;                                                                              \
    } while (0)

/* Records this thread's failure text and returns the status. */
__attribute__((format(printf, 2, 3))) symm_status symm__fail(symm_status status, const char *fmt,
                                                             ...);

/* The same, with ": <strerror> (<errno>)" appended; ERROR_SYSTEM, or ERROR_MEMORY for ENOMEM. */
__attribute__((format(printf, 2, 3))) symm_status symm__fail_errno(int err, const char *fmt, ...);

/* Prepends text to the recorded text: "symm_alloc: " + ... Returns the given status. */
__attribute__((format(printf, 2, 3))) symm_status symm__fail_in(symm_status status, const char *fmt,
                                                                ...);

/* " (on rank 0)"; or " (on rank 0, world rank 2)" in a group that numbers the rank differently. */
struct symm_on_rank {
    char text[48];
};
struct symm_on_rank symm__on_rank(int rank, int world);

/*
 * The same for a failure that only one rank may have: also appends symm__on_rank(). The recorded
 * text may begin with numbers of other ranks.
 */
__attribute__((format(printf, 4, 5))) symm_status
symm__fail_on(int rank, int world, symm_status status, const char *fmt, ...);

/* This thread's failure text. Never NULL; at most SYMM_TEXT_MAX bytes with the NUL. */
const char *symm__failure_text(void);
const char *symm__status_name(symm_status status);

enum { SYMM_TEXT_MAX = 1024 };

#endif
