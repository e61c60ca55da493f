/* What the command lines of all tools share: numbers with units, lists, and how a wrong argument is
 * named. */
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
/* Any number that a float can be. */
bool text_real(const char *text, double *out);
/* Seconds above zero, with a fraction if you like. */
bool text_seconds(const char *text, double *out);

/* Takes the next item of a comma-separated list off *list; an empty list has none left. */
bool text_next(const char **list, char *item, size_t nbytes);

/* "1K", "64M" where that is exact, else the number itself. */
const char *text_of_bytes(uint64_t nbytes, char *buffer, size_t capacity);

/* Prints "# TOOL: what (TOOL --help shows the usage)" on stderr; returns EXIT_USAGE. */
int text_usage_error(const char *tool, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * The same for the option that getopt_long() has just refused: c is what it returned, ':' or '?',
 * and `options` what it was given.
 */
int text_bad_option(const char *tool, char *const *argv, int c, const struct option *options);

void text_version(const char *tool);

#endif
