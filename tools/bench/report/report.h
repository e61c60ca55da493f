/*
 * The results of symm-bench: a table on the standard output, and optionally a JSON and a CSV file,
 * all with the columns of the command.
 */
#ifndef SYMM_BENCH_REPORT_H
#define SYMM_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include "bench/cli/options.h"

struct report;

enum report_kind {
    REPORT_COUNT,
    REPORT_WORD,
    REPORT_FLAG,
    REPORT_REAL, /* NAN: undefined */
    REPORT_WRONG /* a count; -1: not checked */
};

struct report_column {
    const char *name;
    int width;
    enum report_kind kind;
};

/* The member of the column's kind. */
union report_value {
    uint64_t count;
    const char *word;
    bool flag;
    double real;
    int64_t wrong;
};

/*
 * Opens the files. With `speaks` false (every rank but the first) nothing is written or opened.
 * Returns NULL when a file cannot be opened or memory is short, with the reason in why.
 */
struct report *report_open(const struct bench_options *o, bool speaks, char why[512]);
/* Adds the members of `head` to the JSON, and releases it. */
void report_head(struct report *r, json_t *head);
/* Prints a line; the format begins with #. */
void report_say(struct report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void report_unavailable(struct report *r, const char *what, const char *reason);
/* Sets the columns of all further rows; they are not copied. */
void report_columns(struct report *r, const struct report_column *columns, int ncolumns);
void report_row(struct report *r, const union report_value *values);
/* The number of rows; it is counted on every rank. */
uint64_t report_rows(const struct report *r);

/* Everything so far; NULL on ranks that write nothing. */
json_t *report_json(const struct report *r);

/* Writes the JSON; error NULL: the run was complete. Returns false when a file could not be
 * written. NULL is fine. */
bool report_close(struct report *r, const char *error);

#endif
