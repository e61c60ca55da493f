/*
 * The format and arguments of a text that is written later, if at all. Most calls are described for
 * error texts that nobody asks for, and writing a text takes longer than the rest of such a call.
 */
#ifndef SYMM_LATE_TEXT_H
#define SYMM_LATE_TEXT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum { SYMM_LATE_VALUES = 9 };

struct symm_late_text {
    const char *format; /* NULL: an empty text */
    uint64_t values[SYMM_LATE_VALUES];
};

/*
 * Keeps format and arguments. The format has at most SYMM_LATE_VALUES conversions of %d, %u, %zu,
 * %llu, %g, %a, %p and %s, without flags. It and the strings must stay.
 */
__attribute__((format(printf, 2, 0))) void symm__late_text_keep(struct symm_late_text *text,
                                                                const char *format, va_list args);
/* Writes the text, truncated. Returns `out`. */
char *symm__late_text_write(const struct symm_late_text *text, char *out, size_t nbytes);

#endif
