/* Command lines of all tools: numbers with units, lists, messages about wrong arguments. */
#ifndef SYMM_TOOLS_TEXT_H
#define SYMM_TOOLS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct option; /* of getopt.h */

enum { EXIT_USAGE = 2 };

/* "4096", "1K", "64M", "2G". False for anything else, or when it does not fit. */
bool text_bytes(const char *text, uint64_t *out);
bool text_int(const char *text, long least, long most, int *out);
/* Any finite number in the range of a float. */
bool text_real(const char *text, double *out);
/* Seconds above 0, with or without a fraction. */
bool text_seconds(const char *text, double *out);

/* Takes the next item off a comma-separated list. False: the list is empty. */
bool text_next(const char **list, char *item, size_t nbytes);

/* "1K", "64M" if that is exact, else the plain number. */
const char *text_of_bytes(uint64_t nbytes, char *buffer, size_t capacity);

/* "SIGKILL"; of a signal without a name, as a realtime signal, "signal 35". */
const char *text_of_signal(int sig, char *buffer, size_t capacity);

/* Prints "# TOOL: what (TOOL --help shows the usage)" on stderr; returns EXIT_USAGE. */
int text_usage_error(const char *tool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The same for an option that getopt_long() has refused: c is its result, ':' or '?', and `options`
 * its table.
 */
int text_bad_option(const char *tool, char *const *argv, int c, const struct option *options);

void text_version(const char *tool);

#endif
